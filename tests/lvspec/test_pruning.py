"""Pruning keeps the asked share, in order, evenly spread."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lvspec.pruning import none, uniform


@given(st.integers(1, 20_000), st.floats(0.001, 1))
def test_uniform_is_ascending_even_and_of_the_asked_size(count, keep):
    kept = uniform(count, keep).tolist()
    assert len(kept) == max(1, round(count * keep))
    assert kept == sorted(set(kept))
    assert kept[0] >= 0
    assert kept[-1] < count
    gaps = {b - a for a, b in pairwise(kept)}
    assert not gaps or max(gaps) - min(gaps) <= 1


@given(st.integers(1, 1000))
def test_keeping_all_is_no_pruning(count):
    assert uniform(count, 1.0).tolist() == none(count, 0.1).tolist() == list(range(count))
