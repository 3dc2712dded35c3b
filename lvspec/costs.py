"""What a round costs on this device, measured while captions run: seconds by rows and drafted
tokens. A plain step is a round with nothing drafted.

The speedup of a caption is the plain step's cost times its tokens over the time it really took.
"""

from collections import deque
from statistics import median

import numpy as np
import numpy.typing as npt

_WARM_UP = 2  # rounds that no length is judged by
_FIRST_PROBES = (3, 5, 9, 17, 33)  # rounds
_PROBE_EVERY = 128
_WINDOW = 9  # samples, and
_FRESH = 256  # rounds: old ones must not price a machine that has become faster or slower


class StepCosts:
    """Measured seconds of rounds, the median of the latest for each number of rows and tokens."""

    def __init__(self) -> None:
        self._rounds: dict[int, int] = {}
        self._seconds: dict[int, dict[int, deque[float]]] = {}  # rows -> drafted tokens -> samples
        self._seen: dict[tuple[int, int], int] = {}  # rows, tokens -> the round of the latest one

    def due(self, rows: int) -> bool:
        """Whether to measure a plain step now: a few times early, then rarely (under 1 % of the
        time).
        """
        seen = self._rounds[rows] = self._rounds.get(rows, 0) + 1
        return seen in _FIRST_PROBES or seen % _PROBE_EVERY == 0

    def add(self, rows: int, length: int, seconds: float) -> None:
        """Record one measured round of `rows` rows that drafted `length` tokens."""
        if length and self._rounds.get(rows, 0) <= _WARM_UP:
            return  # a slow first draft would make its length look dear for ever
        known = self._seconds.setdefault(rows, {})
        known.setdefault(length, deque(maxlen=_WINDOW)).append(seconds)
        self._seen[rows, length] = self._rounds.get(rows, 0)

    def plain_step_s(self, rows: int) -> float | None:
        """Seconds of a plain step at `rows` rows, or of the nearest measured number of rows."""
        measured = [n for n, known in self._seconds.items() if 0 in known]
        if not measured:
            return None
        return median(self._seconds[min(measured, key=lambda n: (abs(n - rows), n))][0])

    def round_s(self, rows: int, longest: int) -> npt.NDArray[np.float64] | None:
        """Seconds of a round that drafts 0..longest tokens at `rows` rows, float [longest + 1].

        A plain step costs what was measured, drafts cost a line through what was measured: each
        token more is one step of the draft and one token to verify. Lengths that were not drafted
        lately say nothing. None until a plain step and a draft were measured; where one length
        alone is known, the plain step is the line's other end. That prices longer drafts too low,
        so that they are tried.
        """
        known = self._seconds.get(rows, {})
        if 0 not in known or len(known) < 2:
            return None
        plain = median(known[0])
        oldest = self._rounds.get(rows, 0) - _FRESH
        latest = max((n for n in known if n), key=lambda n: self._seen[rows, n])
        fresh = {n for n in known if n and self._seen[rows, n] >= oldest}
        drafts = {n: known[n] for n in fresh | {latest}}
        lengths = [*drafts, 0] if len(drafts) == 1 else [*drafts]
        weights = np.sqrt([len(known[length]) for length in lengths])
        slope, start = np.polyfit(lengths, [median(known[n]) for n in lengths], 1, w=weights)
        line = np.maximum(start, 0.0) + max(float(slope), 0.0) * np.arange(longest + 1)
        line[0] = plain
        return line
