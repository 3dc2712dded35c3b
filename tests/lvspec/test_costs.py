"""What rounds cost: what was measured, a line between, and nothing learned from warm-up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvspec.costs import StepCosts

PLAIN, START, PER_TOKEN = 0.009, 0.012, 0.0012


def measured(lengths, rounds=12, noise=0.0, rows=1):
    """Costs after `rounds` rounds that drafted `lengths` in turn."""
    rng, costs = np.random.default_rng(0), StepCosts()
    for number in range(rounds):
        if costs.due(rows):
            costs.add(rows, 0, PLAIN)
        length = lengths[number % len(lengths)]
        spread = 1 + noise * rng.standard_normal()
        costs.add(rows, length, (START + PER_TOKEN * length) * spread)
    return costs


def test_nothing_is_said_before_a_plain_step_and_a_draft_were_measured():
    costs = StepCosts()
    assert costs.round_s(1, 8) is None
    assert costs.plain_step_s(1) is None
    for _ in range(3):
        costs.due(1)
    costs.add(1, 8, 0.02)
    assert costs.round_s(1, 8) is None
    costs.add(1, 0, 0.01)
    assert costs.round_s(1, 8) is not None


def test_one_draft_and_a_plain_step_give_a_first_line():
    line = measured([20]).round_s(1, 20)
    assert line[[0, 20]] == pytest.approx([PLAIN, START + 20 * PER_TOKEN])
    assert line[10] == pytest.approx((line[0] + line[20]) / 2)


@given(st.lists(st.integers(1, 20), min_size=2, max_size=6, unique=True))
def test_two_lengths_give_all(lengths):
    line = measured(lengths).round_s(1, 20)
    expected = START + PER_TOKEN * np.arange(21)
    assert line[0] == PLAIN
    assert line[1:] == pytest.approx(expected[1:])


def test_noise_does_not_make_one_length_look_cheap():
    line = measured([4, 6, 8, 10, 12], rounds=60, noise=0.1).round_s(1, 20)
    assert (np.diff(line[1:]) > 0).all()
    assert line[10] == pytest.approx(START + 10 * PER_TOKEN, rel=0.1)


def test_the_first_rounds_judge_no_length():
    costs = StepCosts()
    for number in range(6):
        if costs.due(1):
            costs.add(1, 0, PLAIN)
        costs.add(1, 10, 1.0 if number < 2 else 0.024)
    assert costs.round_s(1, 10)[10] == pytest.approx(0.024)


def test_plain_steps_are_measured_rarely():
    costs = StepCosts()
    assert sum(costs.due(4) for _ in range(1280)) <= 5 + 10


def test_a_length_that_was_dear_long_ago_is_tried_again():
    costs = measured([20], rounds=12)
    costs._seconds[1][20].extend([0.2] * 9)  # while something else had the processor
    for number in range(400):
        if costs.due(1):
            costs.add(1, 0, PLAIN)
        costs.add(1, 4 + number % 2, START + PER_TOKEN * (4 + number % 2))
    assert costs.round_s(1, 20)[20] == pytest.approx(START + 20 * PER_TOKEN)


def test_other_row_counts_lend_their_plain_step():
    costs = measured([8], rows=4)
    assert costs.plain_step_s(3) == PLAIN
    assert costs.round_s(3, 8) is None
