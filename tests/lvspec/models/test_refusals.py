"""Loading every family from a folder, and what is refused there: with the reason and the remedy."""

import copy
import json
from pathlib import Path

import pytest
import transformers as hf

import lvspec
from lvspec import DecodeSettings, Engine, Exact, FrameSettings, LoadError, ModelSettings
from lvspec.models import FAMILIES
from tests.lvspec import tiny


def config_only(folder: Path, **config) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_saved_checkpoint_loads_and_says_the_same(name, tmp_path):
    family = tiny.FAMILIES[name]
    model = family.make(0)
    model.model.save_pretrained(tmp_path)
    model.processor.save_pretrained(tmp_path)
    settings = ModelSettings(target=str(tmp_path), draft=str(tmp_path))
    pair = lvspec.load(settings)
    assert pair.shares_preparation
    (request,) = tiny.requests(1, side=family.side, most=family.most)
    assert tiny.generate(pair.target, request, 8) == tiny.generate(model, request, 8)
    spec = lvspec.frame_spec(settings, FrameSettings(count=4))
    assert (spec.fixed or (spec.factor, spec.factor)) == (family.side, family.side)
    if spec.fixed:
        with pytest.raises(LoadError, match=rf"{family.side} x {family.side} only.*max_pixels"):
            lvspec.frame_spec(settings, FrameSettings(max_pixels=10_000))


def test_a_dense_draft_serves_a_mixture_of_experts(tmp_path):
    moe, dense = (
        config_only(tmp_path / name, model_type=name) for name in ("qwen3_vl_moe", "qwen3_vl")
    )
    lvspec.check(ModelSettings(target=moe, draft=dense))
    target, draft = tiny.FAMILIES["qwen3_vl_moe"].make(0), tiny.FAMILIES["qwen3_vl"].make(1)
    requests = tiny.requests(2, side=32)
    settings = DecodeSettings(policy=Exact(), max_new_tokens=12, slots=2, draft_length=3)
    results = Engine(tiny.pair(target, draft), settings).run(requests)
    said = {r.request_id: list(r.token_ids) for r in results if isinstance(r, lvspec.Generation)}
    assert said == {r.id: tiny.generate(target, r, 12) for r in requests}


def test_a_draft_reads_the_prompt_in_the_targets_words():
    """Templates differ within a series: "thinking" models open with a tag of theirs, for one."""
    target = tiny.FAMILIES["qwen3_vl"].make(0)
    draft = tiny.noisy_copy(target, 0.0)
    draft.processor = copy.copy(target.processor)
    draft.processor.chat_template = target.processor.chat_template + "hm"
    pair = tiny.pair(target, draft)
    assert pair.shares_preparation
    settings = DecodeSettings(policy=Exact(), max_new_tokens=12, slots=1, pruning="none")
    for result in Engine(pair, settings).run(tiny.requests(2, side=32)):
        assert isinstance(result, lvspec.Generation)
        if result.finish_reason == "length":  # one token of prefill, one round of 11
            assert result.stats.draft_acceptance_rate == 1.0


def test_pixels_are_prepared_once_where_only_the_budget_of_pixels_differs():
    target, draft = tiny.qwen2_5_vl(0), tiny.qwen2_5_vl(1)
    draft.processor = tiny.make_processor()
    draft.processor.video_processor.size = {"shortest_edge": 784, "longest_edge": 7840}
    assert tiny.pair(target, draft).shares_preparation
    draft.processor.video_processor.image_mean = [0.5, 0.5, 0.5]
    assert not tiny.pair(target, draft).shares_preparation


def test_attention_is_chosen_for_the_vision_tower_only(tmp_path):
    model = tiny.qwen2_5_vl(0)
    model.model.save_pretrained(tmp_path)
    model.processor.save_pretrained(tmp_path)
    folder = str(tmp_path)
    pair = lvspec.load(ModelSettings(target=folder, draft=folder, attn_implementation="eager"))
    config = pair.target.model.config
    assert config.vision_config._attn_implementation == "eager"
    requests = tiny.requests(3)
    settings = DecodeSettings(policy=Exact(), max_new_tokens=12, slots=2, draft_length=3)
    results = Engine(pair, settings).run(requests)
    said = {r.request_id: list(r.token_ids) for r in results if isinstance(r, lvspec.Generation)}
    assert said == {r.id: tiny.generate(model, r, 12) for r in requests}
    model.model.set_attn_implementation("eager")
    with pytest.raises(LoadError, match=r'decoder is loaded with attention "eager".*"sdpa"'):
        FAMILIES["qwen2_5_vl"](model.model, model.processor)


def test_a_draft_of_another_family_is_refused(tmp_path):
    target = config_only(tmp_path / "target", model_type="qwen2_5_vl")
    draft = config_only(tmp_path / "draft", model_type="qwen2_vl")
    with pytest.raises(LoadError, match=r"qwen2_5_vl.*qwen2_vl.*use a draft of the target's"):
        lvspec.check(ModelSettings(target=target, draft=draft))


@pytest.mark.parametrize(
    "config,reason",
    [
        ({"model_type": "qwen3_5"}, r"qwen3_5: its linear_attention layers keep one running"),
        ({"model_type": "gemma3"}, r"gemma3: its sliding_attention layers drop"),
        (
            {"model_type": "internvl", "text_config": {"model_type": "mistral"}},
            r"internvl: its sliding_attention layers drop",
        ),
    ],
)
def test_models_that_cannot_take_tokens_back_are_refused_before_any_weights(
    config, reason, tmp_path
):
    folder = config_only(tmp_path, **config)
    with pytest.raises(LoadError, match=reason + r".*use a checkpoint with full attention"):
        lvspec.load(ModelSettings(target=folder, draft=None))


def test_different_placeholders_are_refused():
    target, draft = (tiny.qwen2_5_vl(seed) for seed in (0, 1))
    draft.model.config.video_token_id = target.model.config.image_token_id
    with pytest.raises(LoadError, match=r"mark video with different tokens.*same model series"):
        tiny.pair(target, draft)


def test_different_frame_sizes_are_refused():
    target, draft = (tiny.FAMILIES["smolvlm"].make(seed) for seed in (0, 1))
    small = {"longest_edge": 16}
    draft.processor = hf.SmolVLMProcessor(
        image_processor=target.processor.image_processor,
        tokenizer=target.tokenizer,
        video_processor=hf.SmolVLMVideoProcessor(size=small, max_image_size=small),
        image_seq_len=1,
    )
    with pytest.raises(LoadError, match=r"32 x 32 and 16 x 16.*use a draft with the"):
        tiny.pair(target, draft)


def test_a_video_processor_without_one_size_is_refused():
    processor = tiny.FAMILIES["internvl"].make(0).processor

    class Cropping:
        video_processor = hf.InternVLVideoProcessor(size={"shortest_edge": 28})

    with pytest.raises(LoadError, match=r"shortest_edge.*one height and width.*set its `size`"):
        FAMILIES["internvl"].frame_spec(Cropping(), 4, None, None)
    assert FAMILIES["internvl"].frame_spec(processor, 4, None, None).count == 4
