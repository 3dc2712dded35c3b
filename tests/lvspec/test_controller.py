"""The draft length that the controller settles on, in simulated worlds whose best is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvspec import controller

LONGEST = 12


def simulate(chance, round_s, rounds=600, rows=1, seed=0, state=None):
    """Play rounds in a world where each drafted slot is kept with `chance`; final state, tokens,
    seconds, lengths."""
    rng = np.random.default_rng(seed)
    state = state or controller.start(LONGEST)
    tokens, seconds, lengths = 0, 0.0, []
    for _ in range(rounds):
        state = controller.choose(state, round_s)
        kept = rng.random((rows, state.length)) < chance
        accepted = np.cumprod(kept, axis=1).sum(1) if state.length else np.zeros(rows)
        state = controller.learn(state, accepted.astype(np.int64), state.length)
        tokens += int(accepted.sum()) + rows
        seconds += round_s[state.length]
        lengths.append(state.length)
    return state, tokens, seconds, lengths


def costs(draft: float, verify: float) -> np.ndarray:
    """Seconds by drafted tokens, in plain steps."""
    lengths = np.arange(LONGEST + 1)
    return np.where(lengths > 0, verify + draft * lengths, 1.0)


@pytest.mark.parametrize("chance", [0.5, 0.8, 0.9, 0.97])
def test_nearly_as_fast_as_the_best_fixed_length(chance):
    round_s = costs(0.15, 1.4)
    expected = np.array([sum(chance**i for i in range(k + 1)) for k in range(LONGEST + 1)])
    best = (expected / round_s).max()
    _, tokens, seconds, _ = simulate(chance, round_s, rounds=3000)
    assert tokens / seconds > 0.965 * best


def test_a_useless_draft_costs_next_to_nothing():
    round_s = costs(0.15, 1.4)
    _, tokens, seconds, lengths = simulate(0.0, round_s, rounds=1000)
    assert tokens / seconds > 0.97
    assert lengths[-1] == 0


def test_it_comes_back_when_drafts_become_good():
    round_s = costs(0.15, 1.4)
    state, *_ = simulate(0.0, round_s, rounds=200)
    assert state.length == 0
    _, _, _, lengths = simulate(0.95, round_s, rounds=700, state=state)
    assert np.mean(lengths[-50:]) > 6


def test_unknown_costs_draft_at_full_length():
    assert controller.choose(controller.start(7), None).length == 7


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30),
    st.lists(st.floats(0.01, 10), min_size=7, max_size=7),
)
def test_lengths_and_expectations_stay_in_bounds(rounds, seconds):
    state = controller.start(6)
    for drafted, accepted in rounds:
        state = controller.learn(state, np.array([min(accepted, drafted)]), drafted)
        state = controller.choose(state, np.array(seconds))
        expected = controller.expected_tokens(state)
        assert 0 <= state.length <= 6
        assert (np.diff(expected) >= 0).all() and expected[0] == 1 and expected[-1] <= 7
