"""Why blocks end: each cause on evidence made for it, and what must hold for any block."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from lvspec.config import Entropy, Exact, Fly, Gate, Lvspec
from lvspec.types import STOPS, Stops
from tests.lvspec.policies.by_hand import EOS, blocks, evidence, stops, verdict

LOOSE = Lvspec(loose_share=1, shift=False)
ODD = evidence([[1, 2]], [[1, 9, 9]], [[0.0, 0.0]])  # probability of the drafted 2: 0.0091
UNSURE = evidence([[1, 2]], [[1, 9, 9]], [[0.0, 0.0]], probability=0.1)  # of the drafted 2: 0.082


def test_codes_are_the_fields_in_order():
    assert Stops(*range(len(STOPS))) == Stops(**{name: i for i, name in enumerate(STOPS)})


def test_nothing_stops_a_block_that_stays():
    whole = evidence([[1, 2]], [[1, 2, 9]], [[0.0, 0.0]])
    for policy in (Exact(), Lvspec(), Gate(), Entropy(), Fly()):
        assert stops(whole, policy) == ["whole"]
    assert stops(ODD, LOOSE) == ["whole"]
    assert stops(evidence([[1, 2]], [[2, 2, 9]], [[0.0, 0.0]]), Lvspec(loose_share=0)) == ["whole"]


def test_strict_slots_stop_by_mismatch():
    assert stops(ODD, Exact()) == ["mismatch"]
    assert stops(ODD, replace(LOOSE, loose_share=0)) == ["mismatch"]
    floor = replace(LOOSE, loose_share=0, strict_probability=0.05)
    assert stops(ODD, floor) == ["mismatch"], "not by a gate of loose slots"


def test_end_tokens_stop_by_the_guard_where_the_policy_might_be_loose():
    ends = evidence([[1, EOS]], [[1, 9, 9]], [[0.0, 0.0]])
    for policy in (LOOSE, Gate(), Entropy(), Fly(), replace(LOOSE, min_probability=0.5)):
        assert stops(ends, policy) == ["guard"]
    for policy in (Exact(), replace(LOOSE, loose_share=0)):
        assert stops(ends, policy) == ["mismatch"]
    shifted = evidence([[1, EOS, 9]], [[1, 9, 9, 9]], [[0.0] * 3])
    assert stops(shifted, Lvspec(loose_share=0)) == ["guard"]


def test_every_gate_has_its_own_code():
    assert stops(ODD, Gate(min_probability=0.02)) == ["probability"]
    assert stops(ODD, Entropy(min_entropy=0.9)) == ["entropy"]
    assert stops(ODD, replace(LOOSE, min_probability=0.02)) == ["probability"]
    assert stops(ODD, replace(LOOSE, top_k=1)) == ["top_k"]
    assert stops(ODD, replace(LOOSE, min_entropy=0.9)) == ["entropy"]
    assert stops(UNSURE, replace(LOOSE, min_entropy=0.9)) == ["whole"]


def test_of_several_gates_the_first_that_refuses_counts():
    all_on = replace(LOOSE, min_probability=0.02, top_k=1, min_entropy=0.9)
    assert stops(ODD, all_on) == ["probability"]
    assert stops(UNSURE, all_on) == ["top_k"]
    assert stops(UNSURE, replace(all_on, top_k=2)) == ["whole"]
    assert stops(ODD, replace(all_on, min_probability=0.005, top_k=2)) == ["entropy"]


def test_fly_stops_by_entropy_or_by_its_window():
    assert stops(ODD, Fly(min_entropy=0.9)) == ["entropy"]
    assert stops(UNSURE, Fly(min_entropy=0.9)) == ["window"]


def test_rows_stop_for_reasons_of_their_own():
    block = evidence(
        [[1, 2], [1, EOS], [1, 2]], [[1, 9, 9], [1, 9, 9], [1, 2, 9]], [[0.0, 0.0]] * 3
    )
    policy = replace(LOOSE, min_probability=0.02)
    assert stops(block, policy) == ["probability", "guard", "whole"]


policies = st.one_of(
    st.just(Exact()),
    st.builds(
        Lvspec,
        loose_share=st.floats(0, 1),
        shift=st.booleans(),
        min_probability=st.sampled_from([0.0, 0.005, 0.05]),
        top_k=st.sampled_from([None, 1, 3]),
        min_entropy=st.sampled_from([0.0, 0.3]),
    ),
    st.builds(Gate, min_probability=st.floats(0.001, 1)),
    st.builds(Entropy, min_entropy=st.floats(0, 1)),
    st.builds(Fly, min_entropy=st.floats(0, 1), window=st.integers(1, 8)),
)


@given(blocks, policies)
def test_a_stop_is_of_the_slot_behind_the_prefix(block, policy):
    draft, target, relevance = block
    given_evidence = evidence([draft], [target], [relevance])
    (at,), (stop,) = (
        verdict(given_evidence, policy).accepted.tolist(),
        stops(given_evidence, policy),
    )
    assert (stop == "whole") == (at == len(draft))
    if at == len(draft):
        return
    if stop == "guard":
        assert EOS in (draft[at], target[at])
    if stop in ("probability", "top_k", "entropy", "window"):
        assert EOS not in (draft[at], target[at])
    if stop == "probability":
        assert float(given_evidence.draft_probability()[0, at]) < policy.min_probability
    if stop == "top_k":
        assert int(given_evidence.draft_rank()[0, at]) >= policy.top_k
    if stop == "entropy":
        assert float(given_evidence.entropy()[0, at]) < policy.min_entropy


@given(blocks, st.sampled_from([0.005, 0.05]), st.floats(0, 1))
def test_without_a_gate_the_block_that_it_stopped_goes_on(block, floor, share):
    draft, target, relevance = block
    given_evidence = evidence([draft], [target], [relevance])
    gated = Lvspec(loose_share=share, min_probability=floor)
    free = verdict(given_evidence, replace(gated, min_probability=0.0)).accepted
    longer = bool(torch.gt(free, verdict(given_evidence, gated).accepted))
    assert longer == (stops(given_evidence, gated) == ["probability"])
