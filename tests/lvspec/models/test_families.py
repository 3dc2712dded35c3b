"""What every family has to prove: the engine's tokens are those of its stock `generate`, and its
prompts, slots and pruning are what one pass of the stock model says."""

import numpy as np
import pytest
import torch
from torch import Tensor

from lvspec import DecodeSettings, Engine, Exact, Generation
from lvspec.models import Prompt, VideoModel
from lvspec.slots import SlotModel
from lvspec.types import Request
from tests.lvspec import tiny

MAX_NEW = 20


@pytest.fixture(scope="module")
def expected(target: VideoModel, requests: list[Request]) -> dict[str, list[int]]:
    return {r.id: tiny.generate(target, r, MAX_NEW) for r in requests}


@pytest.fixture(scope="module")
def drafts(target: VideoModel, family: tiny.Family) -> dict[str, VideoModel]:
    """One that is often right, and one of another width, depth and vocabulary padding."""
    small = family.make(7, layers=1, hidden=32, extra_vocab=1)
    return {"good": tiny.noisy_copy(target, 0.02), "small": small}


@pytest.fixture(scope="module")
def prompts(target: VideoModel, requests: list[Request]) -> list[Prompt]:
    with torch.inference_mode():
        return [target.encode(prepare(target, r)) for r in requests[:2]]


def prepare(model: VideoModel, request: Request):
    return model.prepare(request.frames, request.times_s, request.prompt or "")


def run(target, draft, requests, **kwargs) -> dict[str, Generation]:
    settings = DecodeSettings(policy=Exact(), max_new_tokens=MAX_NEW, slots=2, **kwargs)
    results = list(Engine(tiny.pair(target, draft), settings).run(requests))
    assert all(isinstance(r, Generation) for r in results)
    return {r.request_id: r for r in results}


@pytest.mark.parametrize("length,draft", [(1, "good"), (4, "good"), (4, "small"), (10, "good")])
def test_exact_equals_generate(target, drafts, requests, expected, length, draft):
    results = run(target, drafts[draft], requests, draft_length=length, keep=0.5)
    assert {key: list(r.token_ids) for key, r in results.items()} == expected


def test_expected_texts_can_tell_a_wrong_one(expected):
    """Otherwise the test above would hold for a model that always says the same."""
    assert len({tuple(tokens) for tokens in expected.values()}) == len(expected)


def test_captions_depend_on_the_pixels(target, requests, expected):
    for request in requests:
        black = Request(request.id, request.frames * 0, request.times_s, request.prompt)
        if tiny.generate(target, black, MAX_NEW) != expected[request.id]:
            return
    pytest.fail("black frames change nothing: this model is blind")


@torch.inference_mode()
def test_prefill_and_extend_equal_one_full_forward(target, requests, prompts):
    slots, tokens = SlotModel(target, 2), some_tokens(target, 5)
    hidden = [slots.prefill(i, prompt) for i, prompt in enumerate(prompts)]
    extended = slots.extend(2, tokens)
    for i, request in enumerate(requests[:2]):
        ours = target.logits(torch.cat([hidden[i], extended[i]]))
        torch.testing.assert_close(
            ours, stock_logits(target, request, tokens[i]), rtol=1e-3, atol=1e-4
        )


@torch.inference_mode()
def test_rollback_then_extend_equals_never_having_drafted(target, prompts):
    drafted, tokens = some_tokens(target, 7, seed=1), some_tokens(target, 4)
    slots, fresh = SlotModel(target, 2), SlotModel(target, 2)
    for i, prompt in enumerate(prompts):
        slots.prefill(i, prompt)
        fresh.prefill(i, prompt)
    before = slots.lengths.copy()
    slots.extend(2, drafted)
    slots.lengths[:] = before + np.array([2, 0])  # as much was accepted in each row
    fresh.extend(2, drafted[:, :2])
    fresh.lengths[:] = before + np.array([2, 0])
    torch.testing.assert_close(
        slots.extend(2, tokens), fresh.extend(2, tokens), rtol=1e-4, atol=1e-5
    )


@torch.inference_mode()
@pytest.mark.parametrize("chunk", [1, 7, 16])
def test_a_prompt_read_in_chunks_is_read_the_same(target, prompts, chunk):
    whole, parts = SlotModel(target, 2), SlotModel(target, 2)
    for slot, prompt in enumerate(prompts):
        at_once = whole.prefill(slot, prompt)
        torch.testing.assert_close(
            parts.prefill(slot, prompt, chunk), at_once, rtol=1e-3, atol=1e-4
        )
    tokens = some_tokens(target, 3)
    torch.testing.assert_close(
        parts.extend(2, tokens), whole.extend(2, tokens), rtol=1e-3, atol=1e-4
    )


@torch.inference_mode()
def test_cache_bytes_are_what_the_slots_hold(target, prompts):
    slots = SlotModel(target, 2)
    slots.prefill(0, prompts[0])
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in slots.cache.layers)
    assert held == target.cache_bytes * slots.cache.capacity * 2


@torch.inference_mode()
def test_keeping_every_video_token_keeps_the_prompt(prompts):
    for prompt in prompts:
        kept = prompt.keep_video(torch.arange(int(prompt.is_video.sum())))
        for name in ("embeds", "positions", "is_video", "deepstack"):
            ours, theirs = getattr(kept, name), getattr(prompt, name)
            assert ours is theirs is None or torch.equal(ours, theirs)
        assert kept.next_position == prompt.next_position


def test_a_draft_that_keeps_every_video_token_is_unpruned(target, drafts, requests):
    full = run(target, drafts["good"], requests[:3], draft_length=4, pruning="none")
    kept = run(target, drafts["good"], requests[:3], draft_length=4, pruning="uniform", keep=1.0)
    for key, result in full.items():
        ours, theirs = result.stats, kept[key].stats
        assert ours.num_draft_video_tokens == ours.num_video_tokens > 0
        assert ours.num_accepted_draft_tokens == theirs.num_accepted_draft_tokens
        assert ours.num_draft_tokens == theirs.num_draft_tokens


@torch.inference_mode()
def test_a_pruned_prompt_is_the_whole_one_with_tokens_hidden(target, prompts):
    """Positions and deepstack features stay with their tokens."""
    for prompt in prompts:
        kept = torch.arange(0, int(prompt.is_video.sum()), 2)
        seen = ~prompt.is_video
        seen[prompt.is_video.nonzero()[kept, 0]] = True
        size = len(seen)
        mask = torch.ones(size, size, dtype=torch.bool).tril() & seen
        axes = prompt.positions[:, None]
        whole = target.decoder(
            inputs_embeds=prompt.embeds[None],
            position_ids=axes if target.position_axes > 1 else axes[0],
            attention_mask=mask[None, None],
            use_cache=False,
            **target.extras(prompt),
        ).last_hidden_state[0]
        pruned = SlotModel(target, 1).prefill(0, prompt.keep_video(kept))
        torch.testing.assert_close(pruned, whole[seen], rtol=1e-3, atol=1e-4)


def some_tokens(model: VideoModel, length: int, seed: int = 0) -> Tensor:
    """int64 [2, length] of ordinary letters."""
    torch.manual_seed(seed)
    return torch.randint(0, 90, (2, length), device=model.device)


def stock_logits(model: VideoModel, request: Request, tokens: Tensor) -> Tensor:
    """[P + q, V] of one pass of the stock model over prompt and tokens, without a cache."""
    inputs = dict(prepare(model, request).inputs)
    inputs["input_ids"] = torch.cat([inputs["input_ids"], tokens[None]], 1)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if (kinds := inputs.get("mm_token_type_ids")) is not None:
        inputs["mm_token_type_ids"] = torch.cat([kinds, torch.zeros_like(tokens[None])], 1)
    return model.model(**inputs, use_cache=False).logits[0]
