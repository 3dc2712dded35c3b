"""Policies on hand-written logits, and what must hold for any input."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from lvspec.config import Entropy, Exact, Fly, Gate, Lvspec
from lvspec.policies import Evidence
from tests.lvspec.policies.by_hand import EOS, blocks, decide, evidence


def test_exact_accepts_the_agreeing_prefix_and_corrects():
    accepted, following, reasons = decide(
        evidence([[1, 2, 3], [4, 5, 6]], [[1, 2, 9, 0], [4, 5, 6, 7]]), Exact()
    )
    assert accepted == [2, 3]
    assert following == [9, 7]  # the correction, and the bonus token
    assert reasons == [["exact"] * 2, ["exact"] * 3]


def test_lvspec_is_loose_on_the_least_relevant_share():
    block = evidence([[1, 2, 3, 4]], [[1, 9, 8, 4, 5]], [[0.9, 0.1, 0.8, 0.2]])
    # floor(0.5 * 4) = 2 loose slots: 1 and 3; slot 2 is relevant and mismatches
    accepted, following, reasons = decide(block, Lvspec(loose_share=0.5, shift=False))
    assert (accepted, following) == ([2], [8])
    assert reasons == [["exact", "loose"]]


def test_loose_share_of_ten_slots_is_seven():
    """floor(0.7 * 10) must not be 6 for floating point's sake."""
    relevance = [[i / 10 for i in range(10)]]
    block = evidence([[1] * 10], [[2] * 11], relevance)
    assert decide(block, Lvspec(loose_share=0.7, shift=False))[0] == [7]


def test_shift_rescues_a_token_that_stands_elsewhere_in_the_block():
    block = evidence([[1, 2, 3]], [[2, 9, 9, 9]], [[0.5, 0.5, 0.5]])
    accepted, following, reasons = decide(block, Lvspec(loose_share=0))
    assert (accepted, following, reasons) == ([1], [9], [["shift"]])
    assert decide(block, Lvspec(loose_share=0, shift=False))[0] == [0]


def test_shift_window_and_direction():
    far = evidence([[1, 5, 6, 2]], [[2, 9, 9, 9, 9]], [[0.0] * 4])
    assert decide(far, Lvspec(loose_share=0, shift_window=2))[0] == [0]
    assert decide(far, Lvspec(loose_share=0, shift_window=3))[0] == [1]
    reverse = evidence([[1, 5]], [[9, 1, 9]], [[0.0] * 2])
    assert decide(reverse, Lvspec(loose_share=0))[0] == [0]
    # slot 0 by the reverse rule; slot 1 by the forward one, as its target's 1 is drafted at slot 0
    assert decide(reverse, Lvspec(loose_share=0, shift_reverse=True))[0] == [2]


def test_end_tokens_are_never_loose():
    says_end = evidence([[1, 2]], [[EOS, 2, 3]], [[0.0, 0.0]])
    drafts_end = evidence([[EOS, 2]], [[1, 2, 3]], [[0.0, 0.0]])
    for policy in (Lvspec(loose_share=1), Gate(min_probability=1e-6)):
        assert decide(says_end, policy)[0] == [0]
        assert decide(drafts_end, policy)[0] == [0]
    agreed = evidence([[EOS, 2]], [[EOS, 2, 3]], [[0.0, 0.0]])
    assert decide(agreed, Lvspec(loose_share=0))[0] == [2]


def test_fixed_scope_uses_the_threshold():
    block = evidence([[1, 2]], [[8, 9, 9]], [[0.1, 0.3]])
    assert decide(block, Lvspec(scope="fixed", threshold=0.2, shift=False))[0] == [1]


def test_plausibility_gates():
    # the rest share 0.1 over 11 ids: each drafted mismatch has probability 0.0091
    block = evidence([[1, 2]], [[8, 9, 9]], [[0.0, 0.0]])
    loose = Lvspec(loose_share=1, shift=False)
    assert decide(block, loose)[0] == [2]
    assert decide(block, Lvspec(loose_share=1, shift=False, min_probability=0.02))[0] == [0]
    assert decide(block, Lvspec(loose_share=1, shift=False, min_probability=0.005))[0] == [2]
    assert decide(block, Lvspec(loose_share=1, shift=False, top_k=1))[0] == [0]
    assert decide(block, Lvspec(loose_share=1, shift=False, top_k=2))[0] == [2]
    assert decide(block, Lvspec(loose_share=1, shift=False, min_entropy=0.9))[0] == [0]
    unsure = evidence([[1, 2]], [[8, 9, 9]], [[0.0, 0.0]], probability=0.1)
    assert decide(unsure, Lvspec(loose_share=1, shift=False, min_entropy=0.9))[0] == [2]


def test_entropy_accepts_where_the_target_is_undecided():
    sure, unsure = (evidence([[1, 2]], [[8, 9, 9]], probability=p) for p in (0.99, 0.1))
    assert decide(sure, Entropy(min_entropy=0.3))[0] == [0]
    assert decide(unsure, Entropy(min_entropy=0.3))[0] == [2]


def test_fly_wants_agreement_for_a_window_after_a_mismatch():
    # mismatch at slot 1, then agreement in slots 2 and 3 and the end of the block
    block = evidence([[1, 2, 3, 4]], [[1, 9, 3, 4, 5]], probability=0.1)
    assert decide(block, Fly(window=2))[0] == [4]
    assert decide(block, Fly(window=2))[2] == [["exact", "loose", "exact", "exact"]]
    assert decide(block, Fly(window=3))[0] == [1], "the window must lie inside the block"
    assert decide(block, Fly(window=2, min_entropy=1.0))[0] == [1]
    again = evidence([[1, 2, 3, 4]], [[1, 9, 3, 8, 5]], probability=0.1)
    assert decide(again, Fly(window=2))[0] == [1]


def test_entropy_ignores_forbidden_ids():
    block = evidence([[1]], [[8, 9]], probability=0.5)
    forbidden = block.target_logits.clone()
    forbidden[..., 3] = -torch.inf
    entropy = Evidence(block.draft_tokens, forbidden, block.target_tokens, None, block.special)
    assert torch.isfinite(entropy.entropy()).all()


def test_gate_needs_the_targets_probability():
    block = evidence([[1, 2]], [[8, 9, 9]])
    assert decide(block, Gate(min_probability=0.02))[0] == [0]
    assert decide(block, Gate(min_probability=0.005))[0] == [2]


policies = st.one_of(
    st.just(Exact()),
    st.builds(Lvspec, loose_share=st.floats(0, 1), shift=st.booleans()),
    st.builds(Gate, min_probability=st.floats(0.001, 1)),
    st.builds(Entropy, min_entropy=st.floats(0, 1)),
    st.builds(Fly, min_entropy=st.floats(0, 1), window=st.integers(1, 8)),
)


@given(blocks, policies)
def test_accepted_is_a_prefix_and_the_next_token_is_the_targets(block, policy):
    draft, target, relevance = block
    (accepted,), (following,), (reasons,) = decide(evidence([draft], [target], [relevance]), policy)
    assert 0 <= accepted <= len(draft)
    assert following == target[accepted]
    for i, reason in enumerate(reasons):
        assert (reason == "exact") == (draft[i] == target[i])
    if accepted < len(draft):
        assert draft[accepted] != target[accepted]


@given(blocks, st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_raising_the_loose_share_never_shortens_a_prefix(block, one, other, shift):
    draft, target, relevance = block
    low, high = sorted((one, other))
    given_evidence = evidence([draft], [target], [relevance])
    shorter = decide(given_evidence, Lvspec(loose_share=low, shift=shift))[0][0]
    assert shorter <= decide(given_evidence, Lvspec(loose_share=high, shift=shift))[0][0]


@given(blocks)
def test_a_loose_share_of_one_accepts_all_but_end_tokens(block):
    draft, target, relevance = block
    (accepted,) = decide(evidence([draft], [target], [relevance]), Lvspec(loose_share=1))[0]
    stops = [
        i
        for i, (d, t) in enumerate(zip(draft, target[:-1], strict=True))
        if d != t and EOS in (d, t)
    ]
    assert accepted == (stops[0] if stops else len(draft))


@given(blocks)
def test_lvspec_with_nothing_loose_is_exact(block):
    draft, target, relevance = block
    given_evidence = evidence([draft], [target], [relevance])
    strict = Lvspec(loose_share=0, shift=False)
    assert decide(given_evidence, strict)[:2] == decide(given_evidence, Exact())[:2]
