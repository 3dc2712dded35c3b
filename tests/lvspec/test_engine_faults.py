"""The engine after faults: a run that raised, fewer slots, captions that take too long."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import nn

from lvspec import DecodeSettings, Engine, Exact, Generation, Lvspec, Refusal, SettingError
from lvspec.types import REFUSALS
from tests.lvspec import tiny

BASE = DecodeSettings(policy=Exact(), max_new_tokens=40, slots=4, draft_length=4)


@pytest.fixture(scope="module")
def target():
    torch.set_num_threads(1)
    return tiny.qwen2_5_vl(0, layers=3, hidden=48)


@pytest.fixture(scope="module")
def draft(target):
    return tiny.noisy_copy(target, 0.02)


def tokens(results) -> dict[str, tuple[int, ...]]:
    return {r.request_id: r.token_ids for r in results}


@contextmanager
def in_pass(model, number: int, act: Callable[[], None]) -> Iterator[None]:
    """Do something in the middle of the model's n-th pass, as a device would: in its last layer."""
    passes = 0

    def count(layer: nn.Module, *args: object) -> None:
        nonlocal passes
        passes += 1
        if passes == number:
            act()

    hook = model.decoder.layers[-1].register_forward_hook(count)
    try:
        yield
    finally:
        hook.remove()


def fail() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.parametrize("policy", [Lvspec(scope="running"), Lvspec(relevance_layer=1)])
@pytest.mark.parametrize(("which", "number"), [("target", 1), ("draft", 2), ("target", 7)])
def test_after_a_run_that_raised_the_engine_is_as_good_as_new(target, draft, policy, which, number):
    settings = replace(BASE, policy=policy, max_new_tokens=16)
    requests = tiny.requests(5)
    expected = tokens(Engine(tiny.pair(target, draft), settings).run(requests))
    engine = Engine(tiny.pair(target, draft), settings)
    model = {"target": target, "draft": draft}[which]
    with in_pass(model, number, fail), pytest.raises(torch.OutOfMemoryError):
        list(engine.run(requests))
    for slots in (2, None):
        assert tokens(engine.run(requests, slots=slots)) == expected


def test_fewer_slots_take_less_memory(target, draft):
    pair = tiny.pair(target, draft)
    per_token = pair.target.cache_bytes + pair.draft.cache_bytes
    stated = replace(BASE, cache_gib=per_token * 4 * 512 / 2**30)
    for settings in (BASE, stated):
        engine = Engine(pair, settings)
        requests = tiny.requests(4)
        list(engine.run(requests))
        for slots in (2, 4):
            list(engine.run(requests, slots=slots))
            for model in (engine._target, engine._drafter._slots):
                assert {layer.keys.shape[0] for layer in model.cache.layers} == {slots}
        assert engine._target.cache.capacity >= (512 if settings is stated else 1)


def test_no_more_slots_than_the_settings_say(target, draft):
    taken = []

    def stream():
        for request in tiny.requests(8):
            taken.append(request.id)
            yield request

    results = Engine(tiny.pair(target, draft), BASE).run(stream(), slots=99)
    next(results)
    assert len(taken) <= BASE.slots


def test_a_caption_that_takes_too_long_is_let_go_and_its_mates_go_on(target):
    """No caption ends by itself. The mates are done within 72 passes; the 100th takes too long."""
    ends = list(tiny.pair(target, None).eos_token_ids)
    endless_target = tiny.qwen2_5_vl(0, layers=3, hidden=48, suppress_tokens=ends)
    requests = tiny.requests(6)
    settings = replace(BASE, drafter="none", max_new_tokens=12, slots=2, deadline_s=6.0)
    engine = Engine(tiny.pair(endless_target, None), settings)
    expected = tokens(engine.run(requests))
    endless = replace(requests[1], max_new_tokens=1900)
    with in_pass(endless_target, 100, lambda: time.sleep(settings.deadline_s)):
        results = {r.request_id: r for r in engine.run([requests[0], endless, *requests[2:]])}
    refusal = results.pop("1")
    assert isinstance(refusal, Refusal) and refusal.code == "generation_timeout"
    assert refusal.code in REFUSALS
    assert "6 s" in refusal.message and "of at most 1900 tokens" in refusal.message
    assert tokens(results.values()) == {key: expected[key] for key in "02345"}
    assert tokens(engine.run(requests)) == expected, "its slot is free again"


def test_a_caption_that_is_done_is_never_too_late(target):
    """One token from prefill, however long that took."""
    asked = [replace(tiny.requests(1)[0], max_new_tokens=1)]
    settings = replace(BASE, drafter="none", deadline_s=1e-9)
    (result,) = Engine(tiny.pair(target, None), settings).run(asked)
    assert isinstance(result, Generation)


@pytest.mark.parametrize("wrong", [0, -1.0])
def test_a_deadline_is_above_zero(wrong):
    with pytest.raises(SettingError, match="deadline_s"):
        replace(BASE, deadline_s=wrong)
