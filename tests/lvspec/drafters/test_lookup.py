"""Prompt lookup: the pure search."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvspec.drafters.lookup import lookup


@pytest.mark.parametrize(
    "history,expected",
    [
        ([1, 2, 3, 4, 1, 2], [3, 4, 1]),
        ([1, 2, 9, 1, 2, 8, 1, 2], [8, 1, 2]),  # the latest one
        ([5, 1, 2, 7, 6, 1, 2, 8, 5, 1, 2], [7, 6, 1]),  # three tokens beat a later two
        ([1, 2, 3, 4, 5], []),
        ([3, 3, 3], [3]),  # overlaps itself, and ends where the history does
        ([1, 9, 1], []),  # one token is not enough
        ([1], []),
        ([], []),
    ],
)
def test_lookup(history, expected):
    assert lookup(np.array(history, np.int64), 3).tolist() == expected


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 8))
def test_what_is_found_really_followed_the_same_words(history, length):
    found = lookup(np.array(history, np.int64), length).tolist()
    assert len(found) <= length
    if found:
        places = [
            start
            for start in range(len(history) - 2)
            if history[start : start + 2] == history[-2:]
            and history[start + 2 : start + 2 + length] == found
        ]
        assert places
