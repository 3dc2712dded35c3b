"""The least time in which clips can be served, and what a dispatcher reaches that does not know
beforehand how long each will take.
"""

import heapq
from collections.abc import Sequence


def ideal_s(times_s: Sequence[float], servers: int) -> float:
    """A lower bound of any schedule of `times_s` on `servers` slots of equal speed: the work
    spread evenly, or the longest clip alone; whichever is more. Slots that are slower count for
    their share: pass the sum of speeds as `servers` where it is whole.
    """
    return max(sum(times_s) / servers, max(times_s, default=0.0))


def list_s(times_s: Sequence[float], servers: int) -> float:
    """Makespan of a perfect dispatcher without foresight: each clip, in the order given, goes to
    the slot that is free first, at no cost.
    """
    free = [0.0] * servers
    for time_s in times_s:
        heapq.heapreplace(free, free[0] + time_s)
    return max(free)
