"""The simulated plan, by cases worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.benchmark.makespan import ideal_s, list_s
from pipeline.benchmark.simulate import Cluster, Costs, simulate
from pipeline.schedule import Schedule

FREE = Costs()


def cluster(actors: int, slots: int = 1, speeds: tuple[float, ...] = ()) -> Cluster:
    return Cluster(actors, slots, decode_workers=2, speeds=speeds)


@pytest.mark.parametrize(
    ("times", "pool", "schedule", "costs", "expected"),
    [
        ([1.0] * 6, cluster(2), Schedule(1, 1), FREE, 3.0),
        # Two blocks of two clips in two slots: 2 s and 1 s side by side, then the next block. With
        # one call at a time the second waits for the whole first; with two it fills the free slot.
        ([2.0, 1.0, 1.0, 2.0], cluster(1, 2), Schedule(2, 1), FREE, 4.0),
        ([2.0, 1.0, 1.0, 2.0], cluster(1, 2), Schedule(2, 2), FREE, 4.0),
        ([2.0, 1.0, 1.0, 1.0], cluster(1, 2), Schedule(2, 1), FREE, 3.0),
        ([3.0, 1.0, 1.0, 1.0], cluster(1, 2), Schedule(2, 1), FREE, 4.0),
        ([3.0, 1.0, 1.0, 1.0], cluster(1, 2), Schedule(2, 2), FREE, 3.0),
        # An actor of half the speed takes one clip of three.
        ([1.0] * 3, cluster(2, speeds=(1.0, 0.5)), Schedule(1, 1), FREE, 2.0),
        # The driver sends a block every second, whatever the actors could do.
        ([0.5] * 5, cluster(4), Schedule(1, 1), Costs(task_s=1.0), 4.5),
        # Two decode workers of 1 s a clip feed an engine that would take 0.1 s.
        ([0.1] * 6, cluster(4), Schedule(1, 1), Costs(decode_s=1.0), 2.1),
    ],
)
def test_by_hand(
    times: list[float], pool: Cluster, schedule: Schedule, costs: Costs, expected: float
) -> None:
    assert simulate(times, pool, schedule, costs) == pytest.approx(expected)


@given(
    times=st.lists(st.floats(0.01, 50), min_size=1, max_size=50),
    actors=st.integers(1, 5),
    slots=st.integers(1, 4),
    rows=st.integers(1, 8),
    calls=st.integers(1, 4),
)
def test_never_better_than_the_ideal_and_single_clips_as_good_as_a_perfect_dispatcher(
    times: list[float], actors: int, slots: int, rows: int, calls: int
) -> None:
    window_s = simulate(times, cluster(actors, slots), Schedule(rows, calls), FREE)
    assert window_s >= ideal_s(times, actors * slots) * (1 - 1e-9)
    single = simulate(times, cluster(actors), Schedule(1, 1), FREE)
    assert single == pytest.approx(list_s(times, actors))
