"""Relevance per token, and plain decoding by an engine that drafts."""

import pytest
import torch

from lvspec import DecodeSettings, Engine, Exact, Gate, Generation, Lvspec
from tests.lvspec import tiny

MAX_NEW = 40


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def pair():
    target = tiny.qwen2_5_vl(0, layers=3, hidden=48)
    return tiny.pair(target, tiny.noisy_copy(target, 0.02))


def settings(policy, **more) -> DecodeSettings:
    return DecodeSettings(policy=policy, max_new_tokens=MAX_NEW, slots=3, draft_length=4, **more)


def run(engine: Engine, **asked) -> dict[str, Generation]:
    return {r.request_id: r for r in engine.run(tiny.requests(6), **asked)}


def test_relevance_comes_per_token_and_changes_nothing_else(pair):
    base = run(Engine(pair, settings(Lvspec())), reasons=True)
    traced = run(Engine(pair, settings(Lvspec())), reasons=True, relevance=True)
    for key, result in traced.items():
        assert (result.token_ids, result.reasons) == (base[key].token_ids, base[key].reasons)
        assert base[key].relevance is None
        assert result.relevance is not None and result.reasons is not None
        assert len(result.relevance) == len(result.token_ids)
        assert result.relevance[0] is None  # said by prefill: no block was drafted for it
        known = [score for score in result.relevance if score is not None]
        assert known or len(result.token_ids) == 1
        assert all(-1.0001 <= score <= 1.0001 for score in known)
        drafted = [
            s for s, r in zip(result.relevance, result.reasons, strict=True) if r != "target"
        ]
        assert None not in drafted


def test_relevance_is_what_the_policy_saw(pair):
    """Below a fixed threshold mismatches stay as `loose`, above it never."""
    threshold = 0.5
    traced = run(
        Engine(pair, settings(Lvspec(scope="fixed", threshold=threshold, shift=False))),
        reasons=True, relevance=True,
    )  # fmt: skip
    pairs = [
        (score, why)
        for r in traced.values()
        for score, why in zip(r.relevance or (), r.reasons or (), strict=True)
    ]
    assert all(score < threshold for score, why in pairs if why == "loose")


def test_policies_that_look_at_no_relevance_have_none(pair):
    for result in run(Engine(pair, settings(Gate())), relevance=True).values():
        assert result.relevance is not None
        assert set(result.relevance) == {None}


@pytest.mark.parametrize(
    "more", [{}, {"adaptive": True}, {"pruning": "attention"}, {"drafter": "lookup+model"}]
)
def test_a_plain_run_is_plain_decoding_and_leaves_the_engine_as_it_was(pair, more):
    expected = run(Engine(pair, settings(Exact(), drafter="none")))
    engine = Engine(pair, settings(Lvspec(), **more))
    for _ in range(2):
        first = run(engine)
        plain = run(engine, plain=True)
        assert {k: r.token_ids for k, r in plain.items()} == {
            k: r.token_ids for k, r in expected.items()
        }
        assert all(r.stats.num_draft_tokens == 0 for r in plain.values())
        if not engine.settings.adaptive:  # there captions follow the clock
            assert {k: r.token_ids for k, r in run(engine).items()} == {
                k: r.token_ids for k, r in first.items()
            }


def test_a_plain_run_is_compared_with_what_others_measured(pair):
    engine = Engine(pair, settings(Exact()))
    run(engine)
    costs = {rows: engine._costs.plain_step_s(rows) for rows in (1, 2, 3)}
    stats = run(engine, plain=True)["0"].stats
    assert stats.plain_s > 0 and stats.plain_s != stats.decode_s
    assert {rows: engine._costs.plain_step_s(rows) for rows in (1, 2, 3)} == costs
