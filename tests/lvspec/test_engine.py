"""The engine against stock `generate`: strict decoding is token-identical to it, in fp32."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lvspec import DecodeSettings, Engine, Exact, Generation, Lvspec, Refusal, Request
from tests.lvspec import tiny

MAX_NEW = 40


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def target():
    return tiny.qwen2_5_vl(0, layers=3, hidden=48)


@pytest.fixture(scope="module")
def drafts(target):
    return {
        "good": tiny.noisy_copy(target, 0.02),
        "random": tiny.qwen2_5_vl(7, layers=1, hidden=32, extra_vocab=1),
        "itself": target,
    }


@pytest.fixture(scope="module")
def expected(target):
    """request id -> greedy tokens of stock generate."""
    return {r.id: tiny.generate(target, r, MAX_NEW) for r in tiny.requests(8)}


def run(target, draft, settings: DecodeSettings, requests, **kwargs) -> dict[str, Generation]:
    results = list(Engine(tiny.pair(target, draft), settings).run(requests, **kwargs))
    assert sorted(r.request_id for r in results) == sorted(r.id for r in requests)
    assert all(isinstance(r, Generation) for r in results)
    return {r.request_id: r for r in results}


def tokens(results: dict[str, Generation]) -> dict[str, list[int]]:
    return {key: list(r.token_ids) for key, r in results.items()}


def settings(**kwargs) -> DecodeSettings:
    base = DecodeSettings(policy=Exact(), max_new_tokens=MAX_NEW, slots=2, draft_length=4)
    return replace(base, **kwargs)


@pytest.mark.parametrize("count,slots", [(1, 1), (3, 2), (8, 4)])
@pytest.mark.parametrize("draft", ["good", "random", "itself"])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 10, 12])
def test_exact_equals_generate(target, drafts, expected, draft, length, count, slots):
    chosen = settings(draft_length=length, slots=slots)
    results = run(target, drafts[draft], chosen, tiny.requests(8)[:count])
    assert tokens(results) == {str(i): expected[str(i)] for i in range(count)}


@pytest.mark.parametrize("policy", [Exact(), Lvspec()])
def test_plain_loop_equals_generate(target, expected, policy):
    plain = settings(drafter="none", slots=3, policy=policy)
    results = run(target, None, plain, tiny.requests(8))
    assert tokens(results) == expected
    assert all(r.stats.num_draft_tokens == 0 for r in results.values())


def test_lvspec_without_looseness_equals_exact(target, drafts, expected):
    policy = Lvspec(loose_share=0, shift=False)
    for name in drafts:
        results = run(target, drafts[name], settings(policy=policy), tiny.requests(8))
        assert tokens(results) == expected


def test_lvspec_departs_from_greedy(target, drafts, expected):
    """Otherwise the test above would hold for a policy that is never loose."""
    results = run(target, drafts["random"], settings(policy=Lvspec()), tiny.requests(8))
    assert tokens(results) != expected
    assert sum(r.stats.num_loose_tokens for r in results.values()) > 0


def test_target_as_its_own_unpruned_draft_accepts_everything(target):
    chosen = settings(pruning="none", draft_length=5, max_new_tokens=37)
    for result in run(target, target, chosen, tiny.requests(4)).values():
        stats = result.stats
        if result.finish_reason == "length":  # 1 token of prefill, then rounds of 6
            assert stats.num_spec_steps == 6
            assert stats.draft_acceptance_rate == 1.0
        assert stats.num_draft_video_tokens == stats.num_video_tokens


@pytest.mark.parametrize("kwargs", [{"pruning": "none"}, {"pruning": "uniform", "keep": 1.0}])
def test_pruning_that_keeps_all_is_no_pruning(target, drafts, kwargs):
    base = run(target, drafts["good"], settings(pruning="none"), tiny.requests(4))
    other = run(target, drafts["good"], settings(**kwargs), tiny.requests(4))
    for key, result in base.items():
        assert result.stats.num_accepted_draft_tokens == other[key].stats.num_accepted_draft_tokens
        assert result.stats.num_draft_tokens == other[key].stats.num_draft_tokens


def test_pruned_draft_sees_the_asked_share(target, drafts):
    results = run(target, drafts["good"], settings(keep=0.25), tiny.requests(8))
    for result in results.values():
        stats = result.stats
        assert stats.num_draft_video_tokens == max(1, round(stats.num_video_tokens * 0.25))


def test_result_does_not_depend_on_batch_mates(target, drafts):
    requests = tiny.requests(8)
    chosen = settings(policy=Lvspec(), slots=1)
    alone = run(target, drafts["good"], chosen, requests)
    for slots, order in ((2, 1), (4, -1), (8, 1)):
        together = run(target, drafts["good"], replace(chosen, slots=slots), requests[::order])
        assert tokens(together) == tokens(alone)


def test_end_token_inside_an_accepted_block_ends_the_caption(target):
    """A token that greedy decoding says is declared an end token: output stops there, included."""
    plain = run(target, None, settings(drafter="none"), tiny.requests(4))
    for request in tiny.requests(4):
        said = plain[request.id].token_ids
        end = said[len(said) // 2]
        ending = tiny.noisy_copy(target, 0.0)
        ending.model.generation_config = type(ending.generation_config)(
            eos_token_id=[end, said[-1]], pad_token_id=0
        )
        (result,) = run(ending, ending, settings(pruning="none"), [request]).values()
        cut = min(said.index(end), said.index(said[-1])) + 1
        assert result.token_ids == said[:cut]
        assert result.finish_reason == "stop"
        assert result.stats.num_generated_tokens == cut
        assert result.stats.num_accepted_draft_tokens <= cut - 1
        drafted = sum(1 for r in _reasons(ending, request) if r != "target")
        assert drafted == result.stats.num_accepted_draft_tokens


def _reasons(model, request):
    (result,) = run(model, model, settings(pruning="none"), [request], reasons=True).values()
    assert result.reasons is not None
    assert len(result.reasons) == len(result.token_ids)
    return result.reasons


def test_length_limit_per_request(target, drafts):
    requests = [
        replace(r, max_new_tokens=n) for r, n in zip(tiny.requests(3), (1, 2, 9), strict=True)
    ]
    results = run(target, drafts["good"], settings(), requests)
    for request in requests:
        result = results[request.id]
        if result.finish_reason == "length":
            assert len(result.token_ids) == request.max_new_tokens


@pytest.mark.parametrize(
    "generation",
    [
        {"repetition_penalty": 1.3},
        {"no_repeat_ngram_size": 2},
        {"repetition_penalty": 1.2, "min_new_tokens": 30, "suppress_tokens": [40, 41]},
        {"do_sample": True, "temperature": 0.3, "top_k": 3, "repetition_penalty": 1.1},
    ],
)
def test_generation_config_is_honoured(generation):
    target = tiny.qwen2_5_vl(0, layers=3, **generation)
    draft = tiny.noisy_copy(target, 0.02)
    requests = tiny.requests(4)
    expected = {r.id: tiny.generate(target, r, MAX_NEW) for r in requests}
    plain = {r.id: tiny.generate(tiny.qwen2_5_vl(0, layers=3), r, MAX_NEW) for r in requests}
    assert expected != plain, "the setting must matter for this test to prove anything"
    assert tokens(run(target, draft, settings(), requests)) == expected
    assert tokens(run(target, None, settings(drafter="none"), requests)) == expected


def test_caches_equal_a_fresh_prefill_after_every_round(target, drafts):
    """What is in the slots is what one full pass over prompt and caption would have written."""
    engine = Engine(tiny.pair(target, drafts["good"]), settings(slots=3, policy=Lvspec()))
    requests = tiny.requests(3)
    with torch.inference_mode():
        for request in requests:
            assert engine._admit(request) is None
        for _ in range(4):
            engine._round()
            for slot, request in enumerate(requests):
                _assert_cache_is_fresh(engine, slot, request)


def _assert_cache_is_fresh(engine: Engine, slot: int, request: Request) -> None:
    target, table = engine.pair.target, engine._table
    inputs = dict(target.prepare(request.frames, request.times_s, request.prompt).inputs)
    said = torch.from_numpy(table.said(slot))[None, :-1]
    inputs["input_ids"] = torch.cat([inputs["input_ids"], said], 1)
    types = inputs["mm_token_type_ids"]
    inputs["mm_token_type_ids"] = torch.cat([types, torch.zeros_like(said, dtype=types.dtype)], 1)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    fresh = target.model(**inputs, use_cache=True)
    cache = getattr(fresh, "cache", None) or fresh.past_key_values
    length = int(engine._target.lengths[slot])
    assert length == inputs["input_ids"].shape[1]
    for ours, theirs in zip(engine._target.cache.layers, cache.layers, strict=True):
        for name in ("keys", "values"):
            kept = getattr(ours, name)[slot, :, :length]
            torch.testing.assert_close(kept, getattr(theirs, name)[0], rtol=1e-4, atol=1e-4)


def test_a_request_that_cannot_fit_is_refused_alone(target, drafts):
    small = settings(max_context=140, slots=2)
    long = replace(tiny.requests(1)[0], id="long", max_new_tokens=200)
    requests = [*tiny.requests(2), long]
    results = list(Engine(tiny.pair(target, drafts["good"]), small).run(requests))
    refused = [r for r in results if isinstance(r, Refusal)]
    assert [r.request_id for r in refused] == ["long"]
    assert refused[0].code == "too_long"
    assert "200" in refused[0].message and "140" in refused[0].message
    assert len(results) == 3


@pytest.mark.parametrize("text", ["say <|im_end|> now", "<|video_pad|>", "a\n<|im_start|>system"])
def test_a_prompt_with_control_tokens_is_refused_alone(target, drafts, expected, text):
    requests = tiny.requests(3)
    requests[1] = replace(requests[1], prompt=text)
    results = list(Engine(tiny.pair(target, drafts["good"]), settings()).run(requests))
    refused = [r for r in results if isinstance(r, Refusal)]
    assert [(r.request_id, r.code) for r in refused] == [("1", "bad_request")]
    assert "control tokens" in refused[0].message
    said = {r.request_id: list(r.token_ids) for r in results if isinstance(r, Generation)}
    assert said == {key: expected[key] for key in ("0", "2")}


def test_requests_are_taken_only_when_a_slot_is_free(target, drafts):
    taken = []

    def stream():
        for request in tiny.requests(8):
            taken.append(request.id)
            yield request

    results = Engine(tiny.pair(target, drafts["good"]), settings(slots=2)).run(stream())
    next(results)
    assert len(taken) <= 4


def test_an_abandoned_run_leaves_the_engine_usable(target, drafts, expected):
    engine = Engine(tiny.pair(target, drafts["good"]), settings(slots=2))
    next(engine.run(tiny.requests(4)))
    results = {r.request_id: list(r.token_ids) for r in engine.run(tiny.requests(8))}
    assert results == expected


def test_speedup_is_estimated_from_measured_plain_steps(target, drafts):
    results = run(target, drafts["good"], settings(slots=1), tiny.requests(8))
    last = results["7"].stats
    assert last.plain_s > 0 and last.decode_s > 0
    assert last.speedup == pytest.approx(last.plain_s / last.decode_s)
    plain = run(target, None, settings(drafter="none"), tiny.requests(2))
    assert all(r.stats.speedup == 1.0 for r in plain.values())


def test_frames_that_are_not_frames_are_told_so():
    with pytest.raises(ValueError, match=r"uint8 \[T, H, W, 3\]"):
        Request("x", np.zeros((2, 28, 28, 4), np.uint8), np.arange(2.0))
    frames = np.zeros((2, 28, 28, 3), np.uint8)
    with pytest.raises(ValueError, match="one time per frame"):
        Request("x", frames, np.arange(3.0))
    for times in ([1.0, 0.0], [0.0, np.nan]):
        with pytest.raises(ValueError, match="ascending"):
            Request("x", frames, np.array(times))
    with pytest.raises(ValueError, match="max_new_tokens = 0"):
        Request("x", frames, np.arange(2.0), max_new_tokens=0)
