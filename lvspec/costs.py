"""What one plain target step costs on this device, measured now and then while captions run.

The speedup of a caption is this cost times its tokens over the time it really took.
"""

from collections import deque
from statistics import median

_FIRST_PROBES = (3, 5, 9, 17, 33)  # rounds; the first two are warm-up
_PROBE_EVERY = 64
_WINDOW = 9  # probes: old ones must not price a machine that has become faster or slower


class StepCosts:
    """Measured seconds of a plain step, per number of rows; the median of the latest probes."""

    def __init__(self) -> None:
        self._rounds: dict[int, int] = {}
        self._seconds: dict[int, deque[float]] = {}

    def due(self, rows: int) -> bool:
        """Whether to measure now: a few times early, then rarely (under 1 % of the time)."""
        seen = self._rounds[rows] = self._rounds.get(rows, 0) + 1
        return seen in _FIRST_PROBES or seen % _PROBE_EVERY == 0

    def add(self, rows: int, seconds: float) -> None:
        """Record one measured step of `rows` rows."""
        self._seconds.setdefault(rows, deque(maxlen=_WINDOW)).append(seconds)

    def plain_step_s(self, rows: int) -> float | None:
        """Seconds of a plain step at `rows` rows, or of the nearest measured number of rows."""
        if not self._seconds:
            return None
        nearest = min(self._seconds, key=lambda known: (abs(known - rows), known))
        return median(self._seconds[nearest])
