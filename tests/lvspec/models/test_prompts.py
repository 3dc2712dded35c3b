"""Golden tests: a prompt is what the family's processor and stock model make of the same frames."""

import numpy as np
import pytest
import torch

from lvspec.models import VideoModel
from lvspec.types import Request
from tests.lvspec import tiny


def prepare(model: VideoModel, request: Request):
    return model.prepare(request.frames, request.times_s, request.prompt or "")


@pytest.fixture(scope="module", params=[2, 3, 8])
def clip(request: pytest.FixtureRequest, family: tiny.Family) -> Request:
    """Odd numbers of frames too: some families pair frames."""
    rng = np.random.default_rng(request.param)
    sides = rng.integers(1, family.most + 1, 2) * family.side
    pixels = rng.integers(0, 256, (request.param, *sides, 3), dtype=np.uint8)
    return Request("clip", pixels, np.arange(request.param) * 1.5 + 0.75, "Say it.")


def test_inputs_equal_the_processors_own_path(target, clip):
    """Chat template, resizing and tokenizing in one call of the processor, as its users do."""
    content = [{"type": "video", "video": clip.frames}, {"type": "text", "text": clip.prompt}]
    own = target.processor.apply_chat_template(
        [{"role": "user", "content": content}],
        tokenize=True,
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={
            "do_sample_frames": False,
            "video_metadata": [target.metadata(clip.times_s)],
        },
    )
    ours = prepare(target, clip).inputs
    assert set(ours) == set(own)
    for key, value in own.items():
        assert torch.equal(torch.as_tensor(ours[key]), torch.as_tensor(value)), key


@torch.inference_mode()
def test_prompt_equals_what_stock_generate_gives_its_decoder(target, clip):
    """Embeddings, positions and deepstack features of the prefill, and the next text position."""
    prepared, calls = prepare(target, clip), []

    def spy(module, args, kwargs):
        calls.append({key: kwargs.get(key) for key in watched})

    watched = ("inputs_embeds", "position_ids", "visual_pos_masks", "deepstack_visual_embeds")
    handle = target.decoder.register_forward_pre_hook(spy, with_kwargs=True)
    target.model.generate(**prepared.inputs, max_new_tokens=2, min_new_tokens=2, do_sample=False)
    handle.remove()
    prompt, (prefill, step) = target.encode(prepared), calls
    axes = target.position_axes
    torch.testing.assert_close(prompt.embeds, prefill["inputs_embeds"][0])
    positions = prefill["position_ids"].reshape(-1, len(prompt.is_video))[-axes:]
    assert torch.equal(prompt.positions, positions)
    assert step["position_ids"].reshape(-1)[-1] == prompt.next_position
    if prompt.deepstack is None:
        assert not prefill["deepstack_visual_embeds"]
        return
    assert torch.equal(prompt.is_video, prefill["visual_pos_masks"][0])
    for ours, theirs in zip(prompt.deepstack, prefill["deepstack_visual_embeds"], strict=True):
        torch.testing.assert_close(ours, theirs)


def test_video_tokens_are_the_frames_features(target, clip):
    inputs = prepare(target, clip).inputs
    with torch.inference_mode():
        prompt = target.encode(prepare(target, clip))
    placeholders = int((inputs["input_ids"] == target.video_token_id).sum())
    newline = target.model.config.model_type == "llava_onevision"
    assert int(prompt.is_video.sum()) == placeholders - newline


def test_frames_of_another_size_are_refused(target, family):
    side = family.side + 1
    with pytest.raises(ValueError, match=rf"pictures of {side} x {side}.*FrameSpec"):
        target.prepare(np.zeros((2, side, side, 3), np.uint8), np.arange(2.0), "x")


def test_the_frame_spec_is_the_processors(target, family):
    spec = target.frame_spec(target.processor, 4, None, None)
    if family.most == 1:
        assert spec.size_for(1920, 1080) == spec.size_for(3, 500) == (family.side,) * 2
    else:
        width, height = spec.size_for(1920, 1080)
        assert width % family.side == height % family.side == 0 and width > height


@pytest.mark.parametrize(
    "name,said",
    [
        ("qwen3_vl", ["<1.5 seconds>", "<4.5 seconds>"]),  # means of pairs of frames
        ("smolvlm", ["series of four frames from a 0:00:06", "Frame from 00:03:", "00:05:"]),
        ("internvl", ["Frame1: <img>", "Frame4: <img>"]),
    ],
)
def test_prompts_say_when_frames_were_shown(name, said):
    """Four frames in the middle of four parts of 6 s: at 0.75, 2.25, 3.75 and 5.25 s."""
    family = tiny.FAMILIES[name]
    model = family.make(0, layers=1)
    frames = np.zeros((4, family.side, family.side, 3), np.uint8)
    prepared = model.prepare(frames, np.arange(4) * 1.5 + 0.75, "x")
    text = model.tokenizer.decode(prepared.input_ids)
    for words in said:
        assert words in text
