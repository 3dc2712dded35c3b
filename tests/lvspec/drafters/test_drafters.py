"""Whoever drafts, the strict caption is the target's own."""

from dataclasses import replace

import pytest
import torch

from lvspec import DecodeSettings, Engine, Exact, LoadError, Lvspec
from tests.lvspec import tiny

MAX_NEW = 40
BASE = DecodeSettings(policy=Exact(), max_new_tokens=MAX_NEW, slots=2, draft_length=5, keep=0.3)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def target():
    return tiny.qwen2_5_vl(0, layers=3, hidden=48)


@pytest.fixture(scope="module")
def expected(target):
    return {r.id: tiny.generate(target, r, MAX_NEW) for r in tiny.requests(6)}


def run(target, draft, settings):
    engine = Engine(tiny.pair(target, draft), settings)
    return {r.request_id: r for r in engine.run(tiny.requests(6))}


def tokens(results):
    return {key: list(r.token_ids) for key, r in results.items()}


@pytest.mark.parametrize("drafter", ["self", "lookup", "lookup+model"])
@pytest.mark.parametrize("slots", [1, 3])
def test_exact_equals_generate(target, expected, drafter, slots):
    draft = tiny.noisy_copy(target, 0.02)
    results = run(target, draft, replace(BASE, drafter=drafter, slots=slots))
    assert tokens(results) == expected
    assert sum(r.stats.num_accepted_draft_tokens for r in results.values()) > 0


def test_self_speculation_needs_no_second_model(target):
    """Unpruned, the target drafts what it will say; the weights exist once."""
    engine = Engine(tiny.pair(target, None), replace(BASE, drafter="self", pruning="none"))
    held = {p.data_ptr() for p in target.model.parameters()}
    drafting = engine._drafter._slots.model.model  # the weights it runs on
    assert {p.data_ptr() for p in drafting.parameters()} == held
    for result in engine.run(tiny.requests(4)):
        if result.finish_reason == "length":
            assert result.stats.draft_acceptance_rate > 0.85  # but for the last, cut round


def test_a_draft_that_was_left_out_catches_up(target, expected):
    """With the lookup in front, the model skips rounds; its proposals stay those of a model that
    read every word: the target as its own draft is always right.
    """
    settings = replace(BASE, drafter="lookup+model", pruning="none", max_new_tokens=120, slots=1)
    results = run(target, target, settings)
    alone = run(target, target, replace(settings, drafter="none"))
    assert tokens(results) == tokens(alone)
    lookups = run(target, None, replace(settings, drafter="lookup"))
    for key, result in results.items():
        if lookups[key].stats.num_accepted_draft_tokens == 0 and result.finish_reason == "length":
            assert result.stats.mean_accepted_length > 0.9 * settings.draft_length


@pytest.mark.parametrize("drafter", ["model", "lookup+model"])
def test_a_missing_draft_is_refused_with_the_ways_out(target, drafter):
    with pytest.raises(LoadError, match=r'"self", "lookup" or "none"'):
        Engine(tiny.pair(target, None), replace(BASE, drafter=drafter))


@pytest.mark.parametrize("drafter", ["self", "lookup", "lookup+model"])
def test_loose_policies_run_with_every_drafter(target, drafter):
    """Rows without a find are filled with end tokens, which no policy keeps loosely."""
    draft = tiny.qwen2_5_vl(7, layers=1, hidden=32)
    settings = replace(BASE, drafter=drafter, policy=Lvspec(loose_share=1.0), slots=3)
    eos = set(tiny.pair(target, draft).eos_token_ids)
    for result in run(target, draft, settings).values():
        assert not eos & set(result.token_ids[:-1])
        if result.finish_reason == "length":
            assert len(result.token_ids) == MAX_NEW
