"""The alternatives of the lvspec policy: running scope, and where the gates apply."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lvspec.config import Exact, Gate, Lvspec
from lvspec.policies import Evidence
from tests.lvspec.policies.by_hand import VOCAB, blocks, decide, evidence, special, verdict

NONE = math.inf


def accepted(draft, target, relevance, so_far, policy) -> int:
    return decide(evidence([draft], [target], [relevance], so_far=[so_far]), policy)[0][0]


def running(share, **kwargs) -> Lvspec:
    return Lvspec(loose_share=share, scope="running", shift=False, **kwargs)


def test_running_scope_ranks_the_block_among_what_was_said_before():
    draft, target = [1, 2], [8, 9, 9]  # nothing agrees
    # half of the four known values are loose: both of the block, one, or none
    assert accepted(draft, target, [0.5, 0.6], [NONE, 0.9, 0.8], running(0.5)) == 2
    assert accepted(draft, target, [0.5, 0.6], [NONE, 0.1, 0.8], running(0.5)) == 1
    assert accepted(draft, target, [0.5, 0.6], [NONE, 0.1, 0.2], running(0.5)) == 0
    # floor(0.4 * 4) = 1 loose value, and that is the block's first
    assert accepted(draft, target, [0.5, 0.6], [NONE, 0.9, 0.8], running(0.4)) == 1


def test_among_equals_what_was_said_earlier_is_loose_first():
    assert accepted([1, 2], [8, 9, 9], [0.5, 0.5], [0.5, 0.5], running(0.75)) == 1


def test_rows_have_histories_of_their_own():
    draft, target = [[1, 2]] * 3, [[8, 9, 9]] * 3
    past = [[NONE, NONE], [0.1, 0.2], [0.9, 0.8]]
    block = evidence(draft, target, [[0.5, 0.6]] * 3, so_far=past)
    assert decide(block, running(0.5))[0] == [1, 0, 2]


def test_running_scope_asks_for_a_history():
    with pytest.raises(ValueError, match="so far"):
        decide(evidence([[1]], [[8, 9]], [[0.5]]), running(0.5))


histories = st.lists(st.floats(-1, 1, width=32), max_size=6)
shares = st.one_of(st.floats(0, 1), st.integers(0, 10).map(lambda tenths: tenths / 10))


@given(blocks, shares)
def test_with_an_empty_history_running_scope_is_block_scope(block, share):
    draft, target, relevance = block
    empty = evidence([draft], [target], [relevance], so_far=[[NONE] * 4])
    block_scope = Lvspec(loose_share=share, shift=False)
    assert decide(empty, running(share)) == decide(empty, block_scope)


@given(blocks, histories, st.integers(0, 20))
def test_running_scope_is_a_quantile(block, history, twentieths):
    """Against the definition: loose is what is not above the n-th lowest of all known values."""
    draft, _, relevance = block
    relevance = [round(r, 3) for r in relevance]
    pool = sorted(relevance + [round(h, 3) for h in history])
    if len(set(pool)) < len(pool):
        return  # ties have a test of their own
    count = twentieths * len(pool) // 20
    loose = [count > 0 and r <= pool[count - 1] for r in relevance]
    expected = [*loose, False].index(False)
    draft = [d % 5 for d in draft]  # nothing agrees, nothing is special
    differing = [(d + 1) % 5 for d in draft] + [0]
    past = [NONE] * 2 + [round(h, 3) for h in history]
    assert accepted(draft, differing, relevance, past, running(twentieths / 20)) == expected


@given(
    blocks, histories, shares, shares, st.booleans(), st.sampled_from(["block", "running"]),
    st.sampled_from([None, 0.005, 0.5]),
)  # fmt: skip
def test_raising_the_loose_share_never_shortens_a_prefix(
    block, history, one, other, shift, scope, floor
):
    draft, target, relevance = block
    low, high = sorted((one, other))
    policy = Lvspec(scope=scope, shift=shift, strict_probability=floor)
    past = [NONE, *history]
    shorter = accepted(draft, target, relevance, past, replace(policy, loose_share=low))
    longer = accepted(draft, target, relevance, past, replace(policy, loose_share=high))
    assert shorter <= longer


def random_block(seed: int, slots: int = 6) -> Evidence:
    """Any logits; the target's tokens are their likeliest, a third of the draft agrees."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(1, slots + 1, VOCAB, generator=generator)
    said = logits.argmax(-1)
    draft = torch.randint(0, VOCAB, (1, slots), generator=generator)
    agree = torch.rand(1, slots, generator=generator) < 1 / 3
    relevance = torch.rand(1, slots, generator=generator)
    return Evidence(torch.where(agree, said[:, :-1], draft), logits, said, relevance, special())


def slot_by_slot(block: Evidence, loose_policy, strict_policy, share: float) -> int:
    """Length of the prefix in which every slot, alone, passes the policy that its rank names."""
    assert block.relevance is not None
    slots = block.draft_tokens.shape[1]
    lowest = block.relevance[0].sort().indices[: int(share * slots + 1e-9)].tolist()
    for slot in range(slots):
        alone = Evidence(
            block.draft_tokens[:, slot : slot + 1],
            block.target_logits[:, slot : slot + 2],
            block.target_tokens[:, slot : slot + 2],
            None,
            block.special,
        )
        policy = loose_policy if slot in lowest else strict_policy
        if decide(alone, policy)[0] == [0]:
            return slot
    return slots


@given(st.integers(0, 2**31), st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]))
def test_min_probability_lets_relevance_decide_where_the_gate_applies(seed, share):
    block = random_block(seed)
    policy = Lvspec(loose_share=share, min_probability=0.05, shift=False)
    expected = slot_by_slot(block, Gate(min_probability=0.05), Exact(), share)
    assert decide(block, policy)[0] == [expected]


@given(st.integers(0, 2**31), st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]))
def test_strict_probability_is_the_inverse(seed, share):
    block = random_block(seed)
    policy = Lvspec(loose_share=share, strict_probability=0.05, shift=False)
    anything = Gate(min_probability=1e-30)
    expected = slot_by_slot(block, anything, Gate(min_probability=0.05), share)
    assert decide(block, policy)[0] == [expected]


@given(st.integers(0, 2**31), shares)
def test_one_floor_everywhere_is_the_gate_without_vision(seed, share):
    block = random_block(seed)
    both = Lvspec(loose_share=share, min_probability=0.05, strict_probability=0.05, shift=False)
    ours, gate = verdict(block, both), verdict(block, Gate(min_probability=0.05))
    assert torch.equal(ours.accepted, gate.accepted)
    assert torch.equal(ours.next_token, gate.next_token)


def test_a_token_kept_by_strict_probability_says_loose():
    block = evidence([[1, 2]], [[8, 9, 9]], [[0.1, 0.9]])
    policy = Lvspec(loose_share=0, shift=False, strict_probability=0.005)
    assert decide(block, policy) == ([2], [9], [["loose", "loose"]])
