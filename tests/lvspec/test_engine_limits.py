"""The engine under stated limits: chunks of prefill, a stated cache, a draft length that adapts."""

from dataclasses import replace

import pytest
import torch

from lvspec import DecodeSettings, Engine, Exact, Generation, Lvspec, Refusal, SettingError
from tests.lvspec import tiny

MAX_NEW = 40
BASE = DecodeSettings(policy=Exact(), max_new_tokens=MAX_NEW, slots=2, draft_length=6)


@pytest.fixture(scope="module")
def target():
    torch.set_num_threads(1)
    return tiny.qwen2_5_vl(0, layers=3, hidden=48)


@pytest.fixture(scope="module")
def drafts(target):
    return {"good": tiny.noisy_copy(target, 0.02), "random": tiny.qwen2_5_vl(7, layers=1)}


@pytest.fixture(scope="module")
def expected(target):
    return {r.id: tiny.generate(target, r, MAX_NEW) for r in tiny.requests(8)}


def tokens(results):
    return {r.request_id: list(r.token_ids) for r in results}


@pytest.mark.parametrize("draft", ["good", "random"])
@pytest.mark.parametrize("slots", [1, 3])
def test_an_adaptive_draft_length_changes_no_strict_caption(target, drafts, expected, draft, slots):
    engine = Engine(
        tiny.pair(target, drafts[draft]), replace(BASE, adaptive=True, slots=slots, keep=0.5)
    )
    for _ in range(2):  # costs and acceptance are known in the second run
        results = list(engine.run(tiny.requests(8)))
        assert tokens(results) == expected


def test_a_useless_draft_is_left_alone(target, drafts):
    """Its tokens are hardly ever right, so after a while hardly any are drafted."""
    engine = Engine(tiny.pair(target, drafts["random"]), replace(BASE, adaptive=True))
    list(engine.run(tiny.requests(8)))
    later = [r.stats for r in engine.run(tiny.requests(8))]
    drafted = sum(s.num_draft_tokens for s in later)
    assert drafted < 0.1 * BASE.draft_length * sum(s.num_spec_steps for s in later)


@pytest.mark.parametrize("policy", [Exact(), Lvspec(loose_share=0, shift=False)])
def test_chunked_prefill_changes_no_caption(target, drafts, expected, policy):
    settings = replace(BASE, prefill_chunk=16, policy=policy)
    assert tokens(Engine(tiny.pair(target, drafts["good"]), settings).run(tiny.requests(8))) == (
        expected
    )


def gib(pair, slots: int, tokens_per_slot: int) -> float:
    return (pair.target.cache_bytes + pair.draft.cache_bytes) * slots * tokens_per_slot / 2**30


def test_a_stated_cache_is_taken_at_the_start_and_never_grows(target, drafts, expected):
    pair = tiny.pair(target, drafts["good"])
    engine = Engine(pair, replace(BASE, cache_gib=gib(pair, 2, 400)))
    held = [layer.keys.data_ptr() for layer in engine._target.cache.layers]
    assert engine._target.cache.capacity == 400
    assert tokens(engine.run(tiny.requests(8))) == expected
    assert [layer.keys.data_ptr() for layer in engine._target.cache.layers] == held


def test_what_does_not_fit_the_stated_cache_is_refused_alone(target, drafts, expected):
    pair = tiny.pair(target, drafts["good"])
    requests = tiny.requests(8)
    sizes = {
        r.id: len(target.prepare(r.frames, r.times_s, r.prompt).input_ids) + MAX_NEW
        for r in requests
    }
    room = sorted(sizes.values())[4]
    round_size = BASE.draft_length + 1  # the last round of a caption may write past its end
    stated = gib(pair, 2, room + round_size) * (1 + 1e-9)
    engine = Engine(pair, replace(BASE, cache_gib=stated))
    capacity = engine._target.cache.capacity
    results = list(engine.run(requests))
    refused = {r.request_id: r for r in results if isinstance(r, Refusal)}
    assert set(refused) == {key for key, size in sizes.items() if size > room}
    for key, refusal in refused.items():
        assert refusal.code == "too_long"
        assert str(room) in refusal.message and "cache_gib" in refusal.message
        assert str(sizes[key] - MAX_NEW) in refusal.message
    assert engine._target.cache.capacity == capacity == room + round_size
    said = tokens(r for r in results if isinstance(r, Generation))
    assert said == {key: expected[key] for key in said}


def test_a_cache_too_small_for_any_caption_is_refused_at_the_start(target, drafts):
    pair = tiny.pair(target, drafts["good"])
    with pytest.raises(SettingError, match=r"cache_gib = .*max_new_tokens \(40\).*raise it"):
        Engine(pair, replace(BASE, cache_gib=gib(pair, 2, MAX_NEW)))


@pytest.mark.parametrize("draft", ["good", "random"])
@pytest.mark.parametrize("slots", [1, 3])
def test_passes_of_fixed_shape_change_no_caption(target, drafts, expected, draft, slots):
    """The path that is compiled, without the compiler."""
    settings = replace(BASE, compiled=True, slots=slots)
    with torch.compiler.set_stance("force_eager"):
        engine = Engine(tiny.pair(target, drafts[draft]), settings)
        assert tokens(engine.run(tiny.requests(8))) == expected


def test_passes_of_fixed_shape_keep_to_a_stated_cache(target, drafts, expected):
    """600 tokens lie between two of their steps, 512 and 1024."""
    pair = tiny.pair(target, drafts["good"])
    settings = replace(BASE, compiled=True, cache_gib=gib(pair, 2, 600))
    with torch.compiler.set_stance("force_eager"):
        engine = Engine(pair, settings)
        capacity = engine._target.cache.capacity
        engine._target.lengths[:] = 550
        with torch.inference_mode():
            engine._target.extend(2, torch.zeros(2, 3, dtype=torch.int64))
        assert engine._target.cache.capacity == capacity < 1024
        assert tokens(engine.run(tiny.requests(8))) == expected


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", [Exact(), Lvspec()])
def test_compiled_passes_change_no_caption(target, drafts, policy):
    eager = Engine(tiny.pair(target, drafts["good"]), replace(BASE, policy=policy))
    compiled = Engine(
        tiny.pair(target, drafts["good"]), replace(BASE, policy=policy, compiled=True)
    )
    said = tokens(compiled.run(tiny.requests(8)))
    assert said == tokens(eager.run(tiny.requests(8)))
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert graphs >= 3  # a verify pass, and the draft's two kinds
    assert sum(torch._dynamo.utils.counters["graph_break"].values()) == 0


def test_compiled_and_adaptive_exclude_each_other():
    with pytest.raises(SettingError, match="compiled anew"):
        replace(BASE, compiled=True, adaptive=True)
