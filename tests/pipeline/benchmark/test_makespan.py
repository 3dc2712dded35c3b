"""Bounds of schedules, by cases worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.benchmark.makespan import ideal_s, list_s


@pytest.mark.parametrize(
    ("times", "servers", "ideal", "greedy"),
    [
        ([], 4, 0.0, 0.0),
        ([3.0], 4, 3.0, 3.0),
        ([1.0, 1.0, 1.0, 1.0], 2, 2.0, 2.0),
        ([1.0, 1.0, 2.0], 2, 2.0, 3.0),  # the long one comes last: 1, 1 then 2
        ([2.0, 1.0, 1.0], 2, 2.0, 2.0),
        ([1.0, 1.0, 10.0], 2, 10.0, 11.0),  # the longest alone is the bound
    ],
)
def test_by_hand(times: list[float], servers: int, ideal: float, greedy: float) -> None:
    assert ideal_s(times, servers) == ideal
    assert list_s(times, servers) == greedy


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60), st.integers(1, 8))
def test_a_dispatcher_without_foresight_is_within_grahams_bound(
    times: list[float], servers: int
) -> None:
    bound = ideal_s(times, servers)
    assert bound <= list_s(times, servers) * (1 + 1e-9)
    assert list_s(times, servers) <= (2 - 1 / servers) * bound * (1 + 1e-9)
