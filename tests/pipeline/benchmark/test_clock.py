"""Rates after a warm-up, by hand."""

import pytest

from pipeline.benchmark.clock import Answer, steady


def test_rates_are_of_what_comes_after_the_warm_up() -> None:
    answers = [Answer(str(n), 10.0 + n / 2, 7) for n in range(9)]  # 2 a second
    assert steady(answers, 1) == pytest.approx((2.0, 14.0))
    slow_start = [Answer("slow", -100.0, 500), *answers]
    assert steady(slow_start, 2) == pytest.approx((2.0, 14.0))


def test_nothing_left_to_measure_is_an_error() -> None:
    with pytest.raises(ValueError, match="1 answers with 1 to warm up"):
        steady([Answer("a", 1.0, 1)], 1)
