"""What a round costs on this device, measured while captions run: seconds by rows and drafted
tokens. A plain step is a round with nothing drafted.

The speedup of a caption is the plain step's cost times its tokens over the time it really took.
"""

from collections import deque
from statistics import median

import numpy as np

_FIRST_PROBES = (3, 5, 9, 17, 33)  # rounds; the first two are warm-up
_PROBE_EVERY = 128
_WINDOW = 9  # samples: old ones must not price a machine that has become faster or slower


class StepCosts:
    """Measured seconds of rounds, the median of the latest for each number of rows and tokens."""

    def __init__(self) -> None:
        self._rounds: dict[int, int] = {}
        self._seconds: dict[int, dict[int, deque[float]]] = {}  # rows -> drafted tokens -> samples

    def due(self, rows: int) -> bool:
        """Whether to measure a plain step now: a few times early, then rarely (under 1 % of the
        time).
        """
        seen = self._rounds[rows] = self._rounds.get(rows, 0) + 1
        return seen in _FIRST_PROBES or seen % _PROBE_EVERY == 0

    def add(self, rows: int, length: int, seconds: float) -> None:
        """Record one measured round of `rows` rows that drafted `length` tokens."""
        known = self._seconds.setdefault(rows, {})
        known.setdefault(length, deque(maxlen=_WINDOW)).append(seconds)

    def plain_step_s(self, rows: int) -> float | None:
        """Seconds of a plain step at `rows` rows, or of the nearest measured number of rows."""
        measured = [n for n, known in self._seconds.items() if 0 in known]
        if not measured:
            return None
        return median(self._seconds[min(measured, key=lambda n: (abs(n - rows), n))][0])

    def round_s(self, rows: int, longest: int) -> np.ndarray | None:
        """Seconds of a round that drafts 0..longest tokens, float [longest + 1]; straight lines
        between what was measured at `rows` rows. None until a plain step and a draft were.
        """
        known = self._seconds.get(rows, {})
        if 0 not in known or len(known) < 2:
            return None
        lengths = sorted(known)
        seconds = [median(known[length]) for length in lengths]
        slope = (seconds[-1] - seconds[-2]) / (lengths[-1] - lengths[-2])
        beyond = max(slope, 0.0) * (longest - lengths[-1])
        if lengths[-1] < longest:
            lengths, seconds = [*lengths, longest], [*seconds, seconds[-1] + beyond]
        return np.interp(np.arange(longest + 1), lengths, seconds)
