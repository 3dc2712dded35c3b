"""Whatever the draft is shown, and whoever drafts, the strict caption is the target's own; and the
draft is shown what the way of pruning says.
"""

import copy

import pytest
import torch

import lvspec.engine
from lvspec import DecodeSettings, Engine, Exact, Generation, LoadError
from lvspec.attention import VideoAttention
from lvspec.models import VideoModel
from lvspec.pruning import attention
from lvspec.slots import SlotModel
from lvspec.types import Request
from tests.lvspec import tiny

MAX_NEW, KEEP = 16, 0.3


@pytest.fixture(scope="module")
def expected(target: VideoModel, requests: list[Request]) -> dict[str, list[int]]:
    return {r.id: tiny.generate(target, r, MAX_NEW) for r in requests}


@pytest.fixture(scope="module")
def draft(target: VideoModel) -> VideoModel:
    return tiny.noisy_copy(target, 0.02)


def settings(**kwargs) -> DecodeSettings:
    base = {"policy": Exact(), "max_new_tokens": MAX_NEW, "slots": 2, "draft_length": 4}
    return DecodeSettings(**{**base, "keep": KEEP, **kwargs})


def run(target, draft, requests, **kwargs) -> dict[str, Generation]:
    results = list(Engine(tiny.pair(target, draft), settings(**kwargs)).run(requests))
    assert all(isinstance(r, Generation) for r in results)
    return {r.request_id: r for r in results}


@pytest.mark.parametrize("chunk", [None, 40])
@pytest.mark.parametrize("drafter", ["model", "self"])
@pytest.mark.parametrize("pruning", ["frames", "attention"])
def test_exact_equals_generate(target, draft, requests, expected, pruning, drafter, chunk):
    """Ragged requests, more of them than slots."""
    chosen = {"pruning": pruning, "drafter": drafter, "prefill_chunk": chunk}
    results = run(target, draft if drafter == "model" else None, requests, **chosen)
    assert {key: list(r.token_ids) for key, r in results.items()} == expected
    assert sum(r.stats.num_accepted_draft_tokens for r in results.values()) > 0
    for request in requests:
        stats, prepared = results[request.id].stats, prepare(target, request)
        count = target.num_patches(prepared) if pruning == "frames" else stats.num_video_tokens
        share = max(1, round(count * KEEP)) / count
        assert stats.num_draft_video_tokens == round(share * stats.num_video_tokens)


def prepare(model: VideoModel, request: Request):
    return model.prepare(request.frames, request.times_s, request.prompt or "")


@pytest.mark.parametrize("pruning", ["frames", "attention"])
def test_a_draft_that_keeps_every_video_token_is_unpruned(target, draft, requests, pruning):
    full = run(target, draft, requests[:3], pruning="none")
    kept = run(target, draft, requests[:3], pruning=pruning, keep=1.0)
    for key, result in full.items():
        ours, theirs = result.stats, kept[key].stats
        assert theirs.num_draft_video_tokens == theirs.num_video_tokens
        assert ours.num_accepted_draft_tokens == theirs.num_accepted_draft_tokens
        assert ours.num_draft_tokens == theirs.num_draft_tokens


@pytest.mark.parametrize("drafter", ["model", "self"])
@torch.inference_mode()
def test_the_draft_is_shown_what_the_target_looks_at(target, draft, requests, drafter):
    """Also in a slot that held another prompt before."""
    engine = Engine(tiny.pair(target, draft), settings(pruning="attention", drafter=drafter))
    arrivals = []
    admit = engine._drafter.admit
    engine._drafter.admit = lambda slot, arrival: arrivals.append(arrival) or admit(slot, arrival)
    list(engine.run(requests))
    for request, arrival in zip(requests, arrivals, strict=True):
        prepared = prepare(target, request)
        prompt = target.encode(prepared)
        with VideoAttention(prompt.is_video) as seen:
            SlotModel(target, 1).prefill(0, prompt)
        torch.testing.assert_close(arrival.attention, seen.weights())
        whole = prompt if drafter == "self" else draft.encode(prepared)
        shown = engine._drafter._pruned(arrival)
        wanted = whole.keep_video(attention(seen.weights(), KEEP))
        assert torch.equal(shown.positions, wanted.positions)
        torch.testing.assert_close(shown.embeds, wanted.embeds, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("drafter,pruning", [("lookup", "attention"), ("model", "frames")])
def test_nobody_watches_who_need_not(target, draft, requests, monkeypatch, drafter, pruning):
    monkeypatch.setattr(lvspec.engine, "VideoAttention", None)  # calling it would fail
    run(target, draft, requests[:2], pruning=pruning, drafter=drafter)


@pytest.mark.parametrize("name", ["internvl", "smolvlm"])
def test_a_draft_with_other_video_tokens_cannot_follow_the_targets_eyes(name):
    target, draft = (tiny.FAMILIES[name].make(seed) for seed in (0, 1))
    draft.processor = copy.copy(target.processor)
    draft.processor.image_seq_length = draft.processor.image_seq_len = 1
    pair = tiny.pair(target, draft)
    Engine(pair, settings(pruning="frames"))
    Engine(pair, settings(pruning="attention", drafter="self"))
    with pytest.raises(LoadError, match=r'in 8 tokens, the draft in 2.*"uniform" or "frames"'):
        Engine(pair, settings(pruning="attention"))
