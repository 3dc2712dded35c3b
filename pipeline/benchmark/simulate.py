"""The plan of a run as a simulation of events: how long a cluster would take, from costs measured
on a few machines.

What is modelled: one driver that spends time on every task, in turn; decode workers; actors that
hold a bounded number of blocks and serve their clips in slots, first come first served. What is
not: storage and network limits, memory pressure, failures.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.schedule import Schedule

TASKS_PER_BLOCK = 2  # decode, caption; writes are shared by the blocks of a commit


@dataclass(frozen=True)
class Costs:
    """Measured seconds. task_s: of the driver for one task. decode_s: of a decode worker for one
    clip. start_s: between a call's end and the start of the next block that the actor is sent.
    """

    task_s: float = 0.0
    decode_s: float = 0.0
    start_s: float = 0.0


@dataclass(frozen=True)
class Cluster:
    """`speeds`: of each actor, 1 = as measured."""

    actors: int
    slots: int
    decode_workers: int
    speeds: tuple[float, ...] = ()


def simulate(
    service_s: Sequence[float], cluster: Cluster, schedule: Schedule, costs: Costs
) -> float:
    """Seconds from the first clip that enters a slot to the last that leaves one.

    service_s: how long each clip holds a slot, in the order of the run.
    """
    ready = _ready_times(len(service_s), cluster, schedule, costs)
    size = schedule.rows_per_block
    blocks = [service_s[i : i + size] for i in range(0, len(service_s), size)]
    engines = [_Engine(cluster.slots, _speed(cluster, n)) for n in range(cluster.actors)]
    # When each actor can take another block: one entry for each call that it may have at once.
    places = [
        (0.0, call, n) for n in range(cluster.actors) for call in range(schedule.calls_per_actor)
    ]
    heapq.heapify(places)
    driver, first, last = 0.0, float("inf"), 0.0
    for block, decoded in zip(blocks, ready, strict=True):
        free, call, number = heapq.heappop(places)
        driver = max(driver, free, decoded) + costs.task_s
        start, end = engines[number].serve(block, driver + costs.start_s)
        first, last = min(first, start), max(last, end)
        heapq.heappush(places, (end, call, number))
    return last - first


def _speed(cluster: Cluster, number: int) -> float:
    return cluster.speeds[number] if cluster.speeds else 1.0


class _Engine:
    """One actor's slots."""

    def __init__(self, slots: int, speed: float) -> None:
        self._free, self._speed = [0.0] * slots, speed

    def serve(self, clips: Sequence[float], at: float) -> tuple[float, float]:
        """When the first of `clips` enters a slot and the last leaves one."""
        start, end = float("inf"), at
        for seconds in clips:
            begin = max(at, self._free[0])
            heapq.heapreplace(self._free, begin + seconds / self._speed)
            start, end = min(start, begin), max(end, begin + seconds / self._speed)
        return start, end


def _ready_times(rows: int, cluster: Cluster, schedule: Schedule, costs: Costs) -> list[float]:
    """When each block is decoded, workers never waiting for the actors."""
    size, workers = schedule.rows_per_block, [0.0] * cluster.decode_workers
    ready, driver = [], 0.0
    for start in range(0, rows, size):
        driver = max(driver + costs.task_s, 0.0)
        end = max(driver, workers[0]) + costs.decode_s * min(size, rows - start)
        heapq.heapreplace(workers, end)
        ready.append(end)
    return ready
