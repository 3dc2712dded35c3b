"""Scores against values worked out by hand or by definition."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.items import letter
from pipeline.evaluation.scoring import content_kept, kept_interval, rouge_l

TEXT = st.lists(
    st.sampled_from(["red", "ring", "turns", "blue", "the", "of", "7"]), max_size=12
).map(" ".join)


@pytest.mark.parametrize(
    ("text", "reference", "value"),
    [
        ("police kill the gunman", "police killed the gunman", 3 / 4),  # Lin's own example
        ("the gunman kill police", "police killed the gunman", 2 / 4),
        ("a b c", "a b c d e", 2 * 3 / 8),
        ("", "a", 0.0),
        ("", "", 1.0),
    ],
)
def test_rouge_l(text: str, reference: str, value: float) -> None:
    assert rouge_l(text, reference) == pytest.approx(value)


@given(TEXT, TEXT)
def test_scores_are_shares_and_one_for_equal_texts(a: str, b: str) -> None:
    assert rouge_l(a, a) == content_kept(a, a) == 1.0
    assert 0 <= rouge_l(a, b) <= 1
    assert 0 <= content_kept(a, b) <= 1
    assert rouge_l(a, b) == pytest.approx(rouge_l(b, a))


def test_function_words_do_not_count_as_kept() -> None:
    assert content_kept("The and of it", "It is a red ring") == 0.0
    assert content_kept("ring, red!", "It is a red ring") == 1.0


def test_interval_of_equal_columns_is_a_point_and_holds_the_ratio_else() -> None:
    assert kept_interval([1, 0, 3], [1, 0, 3]) == (1.0, 1.0, 1.0)
    share, low, high = kept_interval([1, 0, 1, 1] * 25, [1] * 100)
    # 75 of 100: the binomial's standard deviation is 4.3 points
    assert share == 0.75
    assert low == pytest.approx(0.75 - 1.96 * 0.0433, abs=0.02)
    assert high == pytest.approx(0.75 + 1.96 * 0.0433, abs=0.02)
    assert all(math.isnan(x) for x in kept_interval([0, 0], [0, 0]))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("B", "B"),
        ("B.", "B"),
        ("(C) red", "C"),
        ("D. red.", "D"),
        ("The best answer is: A.", "A"),
        ("Answer: D", "D"),
        ("option b", "B"),
        ("A red ring moves.", ""),
        ("This clip shows one ring.", ""),
        ("", ""),
    ],
)
def test_letter_of_an_answer(text: str, named: str) -> None:
    assert letter(text) == named
