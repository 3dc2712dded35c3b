"""Loading: what cannot work together is refused at once, with the reason and the remedy."""

import json
from pathlib import Path

import pytest

import lvspec
from lvspec import LoadError, ModelSettings
from tests.lvspec import tiny


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A folder with a tiny checkpoint and its processor, as `save_pretrained` leaves them."""
    folder = tmp_path_factory.mktemp("checkpoint")
    model = tiny.qwen2_5_vl(0, repetition_penalty=1.05)
    model.model.save_pretrained(folder)
    model.processor.save_pretrained(folder)
    return folder


def test_a_saved_pair_loads_and_captions(saved):
    pair = lvspec.load(ModelSettings(target=str(saved), draft=str(saved)))
    assert pair.shares_preparation
    assert pair.target.generation_config.repetition_penalty == 1.05
    request = tiny.requests(1)[0]
    result = lvspec.caption(
        pair,
        request.frames,
        request.prompt,
        times_s=request.times_s,
        decode=lvspec.DecodeSettings(policy=lvspec.Exact(), slots=1, max_new_tokens=12),
    )
    assert list(result.token_ids) == tiny.generate(pair.target, request, 12)
    assert result.reasons is not None and result.reasons[0] == "target"
    assert result.stats.num_prompt_tokens > result.stats.num_video_tokens > 0


def test_frame_spec_comes_from_the_processor(saved):
    spec = lvspec.frame_spec(
        ModelSettings(target=str(saved)), lvspec.FrameSettings(count=6, max_pixels=100_000)
    )
    assert (spec.count, spec.factor, spec.min_pixels, spec.max_pixels) == (6, 28, 784, 100_000)


def test_a_missing_checkpoint_says_which(tmp_path):
    with pytest.raises(LoadError, match="no-such-checkpoint"):
        lvspec.check(ModelSettings(target=str(tmp_path / "no-such-checkpoint")))


def test_an_unsupported_family_lists_the_supported(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava_next_video"}))
    with pytest.raises(LoadError, match=r"llava_next_video.*supported are.*qwen2_5_vl"):
        lvspec.check(ModelSettings(target=str(tmp_path), draft=None))


def test_different_tokenizers_are_refused(saved, tmp_path):
    draft = tiny.qwen2_5_vl(1)
    draft.model.save_pretrained(tmp_path)
    processor = tiny.make_processor("é")
    processor.save_pretrained(tmp_path)
    with pytest.raises(LoadError, match="different tokenizers"):
        lvspec.load(ModelSettings(target=str(saved), draft=str(tmp_path)))


def test_layers_that_cannot_roll_back_are_refused():
    model = tiny.qwen2_5_vl(0).model
    model.config.text_config.layer_types = ["sliding_attention", "full_attention"]
    with pytest.raises(LoadError, match="rolled back"):
        lvspec.models.qwen2_5_vl.Qwen25VL(model, tiny.processor())


def test_drafting_without_a_draft_is_refused(saved):
    pair = lvspec.load(ModelSettings(target=str(saved), draft=None))
    with pytest.raises(LoadError, match="needs a draft"):
        lvspec.Engine(pair, lvspec.DecodeSettings())


def test_device_and_dtype_are_honoured(saved):
    pair = lvspec.load(ModelSettings(target=str(saved), draft=None, dtype="bfloat16", device="cpu"))
    assert {str(w.dtype) for w in pair.target.model.parameters()} == {"torch.bfloat16"}
    auto = lvspec.load(ModelSettings(target=str(saved), draft=None, device="cpu"))
    assert {str(w.dtype) for w in auto.target.model.parameters()} == {"torch.float32"}
