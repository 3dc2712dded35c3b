"""Which states relevance compares, and what a caption's history holds: on tiny checkpoints, against
direct computation."""

import pickle
from dataclasses import replace

import pytest
import torch

from lvspec import DecodeSettings, Engine, Exact, Generation, Lvspec, SettingError
from lvspec.layers import LayerStates
from lvspec.models import Prompt, VideoModel
from lvspec.scorer import Scorer
from lvspec.slots import SlotModel
from tests.lvspec import tiny

MAX_NEW, TOP = 24, 3
BASE = DecodeSettings(policy=Exact(), max_new_tokens=MAX_NEW, slots=3, draft_length=5, keep=0.5)
RUNNING = Lvspec(scope="running", loose_share=0.5, shift=False)
OPTIONS = [
    Lvspec(relevance_source="features"),
    Lvspec(relevance_layer=1),
    Lvspec(relevance_layer=0, relevance_source="features", relevance_slot="own"),
    Lvspec(relevance_slot="own", scope="running", running_window=7),
    Lvspec(scope="running", relevance_layer=2),
]


@pytest.fixture(scope="module")
def target() -> VideoModel:
    torch.set_num_threads(1)
    return tiny.qwen2_5_vl(0, layers=3, hidden=48)


@pytest.fixture(scope="module")
def draft(target) -> VideoModel:
    return tiny.noisy_copy(target, 0.05)


def encoded(model: VideoModel, request) -> Prompt:
    return model.encode(model.prepare(request.frames, request.times_s, request.prompt))


def run(target, draft, settings, requests) -> dict[str, Generation]:
    return {r.request_id: r for r in Engine(tiny.pair(target, draft), settings).run(requests)}


def said(results: dict[str, Generation]) -> dict[str, tuple[int, ...]]:
    return {key: r.token_ids for key, r in results.items()}


def nothing(rows: int, tail: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """A round in which nothing is drafted."""
    return tail.new_empty(rows, 0)


def by_hand(states: torch.Tensor, video: torch.Tensor) -> torch.Tensor:
    """Relevance [q] of states [q, D]: mean of the TOP largest cosines."""
    unit, seen = (x / x.norm(dim=-1, keepdim=True) for x in (states.double(), video.double()))
    cosines = unit @ seen.T
    return cosines.sort(descending=True).values[:, :TOP].mean(-1)


@torch.inference_mode()
@pytest.mark.parametrize("name", list(tiny.FAMILIES))
@pytest.mark.parametrize("chunk", [None, 7])
def test_the_last_layers_states_become_the_last_hidden_states_by_the_final_norm(name, chunk):
    family = tiny.FAMILIES[name]
    model = family.make(0, layers=3)
    (request,) = tiny.requests(1, side=family.side, most=family.most)
    prompt, states = encoded(model, request), LayerStates(model.decoder, 2)
    with states.watch():
        hidden = SlotModel(model, 1).prefill(0, prompt, chunk)
    last = states.take(like=hidden)
    assert last.shape == hidden.shape and not torch.allclose(last, hidden)
    torch.testing.assert_close(model.decoder.norm(last), hidden)


@torch.inference_mode()
def test_layers_are_those_that_transformers_counts(target):
    """Against the states of all layers, from one pass of the stock model."""
    (request,) = tiny.requests(1)
    inputs = target.prepare(request.frames, request.times_s, request.prompt).inputs
    every = target.model(**inputs, output_hidden_states=True, use_cache=False).hidden_states
    for layer in (0, 1):
        states = LayerStates(target.decoder, layer)
        with states.watch():
            hidden = SlotModel(target, 1).prefill(0, encoded(target, request))
        torch.testing.assert_close(states.take(like=hidden), every[layer + 1][0])


def test_no_hook_stays_behind(target, draft):
    hooks = target.decoder.layers[1]._forward_hooks
    before = list(hooks)  # transformers may have one of its own
    run(target, draft, replace(BASE, policy=Lvspec(relevance_layer=1)), tiny.requests(2))
    assert list(hooks) == before
    with pytest.raises(ZeroDivisionError), LayerStates(target.decoder, 1).watch():
        assert len(hooks) == len(before) + 1
        _ = 1 / 0
    assert list(hooks) == before


def test_the_target_as_its_own_draft_is_not_mistaken_for_the_verifier(target):
    """It runs through the same layers, which must be watched in the target's passes only."""
    settings = replace(BASE, policy=Lvspec(relevance_layer=1))
    itself = run(target, None, replace(settings, drafter="self"), tiny.requests(4))
    copy = run(target, tiny.noisy_copy(target, 0.0), settings, tiny.requests(4))
    assert said(itself) == said(copy)


def scores(model, policy, prompt, tokens, chunk=None):
    """Relevance of drafted tokens [1, K] behind a prompt, and the states that it may be of."""
    scorer = Scorer(policy, model, 2)
    slots = SlotModel(model, 2)
    with scorer.watch():
        read = slots.prefill(0, prompt, chunk)
    scorer.admit(0, prompt, read)
    with scorer.watch():
        hidden = slots.extend(1, tokens)
    return scorer.score(hidden)[0], read, hidden


@torch.inference_mode()
@pytest.mark.parametrize("scope", ["block", "running"])
def test_relevance_of_every_source_and_slot_by_hand(target, scope):
    (request,) = tiny.requests(1)
    prompt, tokens = encoded(target, request), torch.tensor([[40, 41, 42, 43]])
    for source in ("states", "features"):
        for slot, which in (("predicting", slice(0, 3)), ("own", slice(1, 4))):
            policy = Lvspec(
                relevance_top=TOP, relevance_source=source, relevance_slot=slot, scope=scope
            )
            got, read, hidden = scores(target, policy, prompt, tokens)
            video = (read if source == "states" else prompt.embeds)[prompt.is_video]
            expected = by_hand(hidden[0, which], video)
            torch.testing.assert_close(got[0].double(), expected, rtol=0, atol=1e-5)


@torch.inference_mode()
def test_relevance_of_a_layer_by_hand(target):
    (request,) = tiny.requests(1)
    prompt, tokens = encoded(target, request), torch.tensor([[40, 41, 42, 43]])
    got, _, _ = scores(target, Lvspec(relevance_top=TOP, relevance_layer=1), prompt, tokens)
    inputs = dict(target.prepare(request.frames, request.times_s, request.prompt).inputs)
    inputs["input_ids"] = torch.cat([inputs["input_ids"], tokens], 1)
    kinds = inputs["mm_token_type_ids"]
    inputs["mm_token_type_ids"] = torch.cat([kinds, kinds.new_zeros(1, 4)], 1)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    states = target.model(**inputs, output_hidden_states=True, use_cache=False).hidden_states[2][0]
    size = len(prompt.is_video)
    expected = by_hand(states[size : size + 3], states[:size][prompt.is_video])
    torch.testing.assert_close(got[0].double(), expected, rtol=0, atol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("policy", [Lvspec(), *OPTIONS])
def test_a_prompt_read_in_chunks_has_the_same_relevance(target, policy):
    tokens = torch.tensor([[40, 41, 42, 43]])
    for request in tiny.requests(2):
        prompt = encoded(target, request)
        whole = scores(target, policy, prompt, tokens)[0]
        for chunk in (1, 16):
            parts = scores(target, policy, prompt, tokens, chunk)[0]
            torch.testing.assert_close(parts, whole, rtol=0, atol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("slot", ["predicting", "own"])
def test_the_history_is_the_relevance_of_every_committed_state(target, draft, slot):
    """After rounds of ragged rows: what one pass over each caption alone says, latest last."""
    policy = replace(RUNNING, relevance_slot=slot, relevance_top=TOP, running_window=12)
    engine = Engine(tiny.pair(target, draft), replace(BASE, policy=policy))
    requests = tiny.requests(3)
    for request in requests:
        assert engine._admit(request) is None
    scorer = engine._judge._scorer
    assert scorer is not None and scorer._recent is not None
    drafted = engine._draft
    for number in range(4):
        engine._draft = nothing if number == 1 else drafted  # as an adaptive engine may
        engine._round()
        for row, request in enumerate(requests):
            read = engine._table.said(row)[:-1]  # the last one is yet to be read
            prompt, slots = encoded(target, request), SlotModel(target, 1)
            video = slots.prefill(0, prompt)[prompt.is_video]
            expected = by_hand(slots.extend(1, torch.from_numpy(read)[None])[0], video)[-12:]
            recent = scorer._recent[row]
            assert int((~recent.isinf()).sum()) == len(expected)
            torch.testing.assert_close(
                recent[-len(expected) :].double(), expected, rtol=0, atol=1e-4
            )
    assert len({engine._table.generated[row] for row in range(3)}) > 1, "rows must be ragged"


@pytest.mark.parametrize("policy", [RUNNING, *OPTIONS])
def test_results_do_not_depend_on_batch_mates(target, draft, policy):
    requests = tiny.requests(6)
    settings = replace(BASE, policy=policy)
    alone = run(target, draft, replace(settings, slots=1), requests)
    for slots, order in ((2, 1), (4, -1)):
        together = run(target, draft, replace(settings, slots=slots), requests[::order])
        assert said(together) == said(alone)
        assert {k: r.stats.stops for k, r in together.items()} == {
            k: r.stats.stops for k, r in alone.items()
        }


def test_options_differ_from_the_default(target, draft):
    """Otherwise the tests above would hold for settings that nobody reads."""
    requests = tiny.requests(6)
    base = Lvspec(loose_share=0.5, shift=False)
    default = said(run(target, draft, replace(BASE, policy=base), requests))
    for change in (
        {"relevance_source": "features"},
        {"relevance_layer": 0},
        {"relevance_slot": "own"},
        {"scope": "running"},
    ):
        policy = replace(base, **change)
        assert said(run(target, draft, replace(BASE, policy=policy), requests)) != default, change


@pytest.mark.parametrize("policy", OPTIONS)
def test_without_looseness_every_option_is_exact(target, draft, policy):
    requests = tiny.requests(4)
    strict = replace(policy, loose_share=0, shift=False)
    plain = run(target, None, replace(BASE, drafter="none"), requests)
    assert said(run(target, draft, replace(BASE, policy=strict), requests)) == said(plain)


def test_a_layer_that_the_target_lacks_is_told_so(target, draft):
    with pytest.raises(SettingError, match="0 to 2") as caught:
        Engine(tiny.pair(target, draft), replace(BASE, policy=Lvspec(relevance_layer=3)))
    assert caught.value.key == "policy.relevance_layer"


def test_layers_of_compiled_passes_are_refused():
    with pytest.raises(SettingError, match="relevance_layer") as caught:
        replace(BASE, policy=Lvspec(relevance_layer=1), compiled=True)
    assert caught.value.key == "compiled"


@pytest.mark.parametrize("policy", [Exact(), Lvspec(), Lvspec(min_probability=0.3, top_k=2)])
@pytest.mark.parametrize("adaptive", [False, True])
def test_every_drafted_block_has_one_stop(target, draft, policy, adaptive):
    settings = replace(BASE, policy=policy, adaptive=adaptive)
    for result in run(target, draft, settings, tiny.requests(6)).values():
        stats = result.stats
        count = sum(vars(stats.stops).values())
        assert count <= stats.num_spec_steps if adaptive else count == stats.num_spec_steps
        assert count > 0 or adaptive or len(result.token_ids) == 1
        if isinstance(policy, Exact):
            assert count == stats.stops.whole + stats.stops.mismatch + stats.stops.end
        assert pickle.loads(pickle.dumps(stats)) == stats and hash(stats)


def test_plain_decoding_has_no_stops(target):
    for result in run(target, None, replace(BASE, drafter="none"), tiny.requests(2)).values():
        assert not any(vars(result.stats.stops).values())
