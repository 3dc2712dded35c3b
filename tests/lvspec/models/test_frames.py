"""A draft that is shown some temporal patches only: the others never enter its vision tower, and
what the kept ones look like does not change. That holds in every family: no vision tower here looks
from one temporal patch (one frame, or a pair of frames) to another.
"""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from lvspec.models import Prompt, VideoModel
from lvspec.pruning import frames, uniform
from lvspec.types import Request

NAMES = ("embeds", "positions", "is_video", "deepstack")


@pytest.fixture(scope="module")
def clips(target: VideoModel, requests: list[Request]):
    """Prepared requests with at least two temporal patches."""
    prepared = [target.prepare(r.frames, r.times_s, r.prompt or "") for r in requests]
    clips = [p for p in prepared if target.num_patches(p) > 1]
    assert clips
    return clips


def assert_same(ours: Prompt, theirs: Prompt) -> None:
    assert ours.next_position == theirs.next_position
    for name in NAMES:
        one, other = getattr(ours, name), getattr(theirs, name)
        if one is not None or other is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def tower(model: VideoModel) -> nn.Module:
    inner = model.model.model
    names = ("visual", "vision_tower", "vision_model")
    (found,) = (getattr(inner, name) for name in names if hasattr(inner, name))
    return found


def rows_seen(model: VideoModel, encode) -> int:
    """Rows of pixels, or frames, that enter the vision tower."""
    rows = []

    def count(module, args, kwargs):
        rows.append(len([*args, *kwargs.values()][0]))

    handle = tower(model).register_forward_pre_hook(count, with_kwargs=True)
    encode()
    handle.remove()
    return sum(rows)


@torch.inference_mode()
@pytest.mark.parametrize("keep", [0.1, 0.5])
def test_kept_patches_look_as_in_the_whole_video(target, clips, keep):
    """Features, deepstack features and the original positions."""
    for clip in clips:
        whole, count = target.encode(clip), target.num_patches(clip)
        kept = frames(int(whole.is_video.sum()), count, keep)
        assert len(kept) < int(whole.is_video.sum())
        assert_same(target.encode(clip, partial(frames, keep=keep)), whole.keep_video(kept))


@torch.inference_mode()
def test_dropped_patches_do_not_enter_the_vision_tower(target, clips):
    for clip in clips:
        count = target.num_patches(clip)
        all_rows = rows_seen(target, lambda clip=clip: target.encode(clip))
        keep_one = partial(frames, keep=1 / count)
        one = rows_seen(target, lambda clip=clip, s=keep_one: target.encode(clip, s))
        assert one * count == all_rows > one > 0


@torch.inference_mode()
def test_dropped_pixels_do_not_matter(target, clips):
    """They may be anything; kept ones may not."""
    for clip in clips:
        select = partial(frames, keep=1 / target.num_patches(clip))
        before = target.encode(clip, select)
        name = "pixel_values_videos" if "pixel_values_videos" in clip.inputs else "pixel_values"
        pixels = clip.inputs[name]
        for_each = _by_patch(pixels, target.num_patches(clip))
        (kept,) = uniform(target.num_patches(clip), 1 / target.num_patches(clip)).tolist()
        saved = pixels.clone()
        for patch, view in enumerate(for_each):
            if patch != kept:
                view.fill_(float("nan"))
        assert_same(target.encode(clip, select), before)
        assert target.encode(clip).embeds.isnan().any()
        pixels.copy_(saved)


def _by_patch(pixels: Tensor, patches: int) -> list[Tensor]:
    """Views of the pixels of each temporal patch, in the layouts of all families."""
    frames = pixels[0] if pixels.dim() == 5 else pixels
    return list(frames.chunk(patches))


@torch.inference_mode()
def test_keeping_all_patches_is_the_whole_prompt(target, clips):
    for clip in clips:
        whole = target.encode(clip)
        assert_same(target.encode(clip, partial(frames, keep=1.0)), whole)
        assert_same(target.encode(clip, lambda tokens, patches: torch.arange(tokens)), whole)


@torch.inference_mode()
def test_any_selection_is_placed_right(target, clips):
    """Tokens of some patches, not all of each; patches without one are left out."""
    for clip in clips:
        whole = target.encode(clip)
        tokens = int(whole.is_video.sum())
        for kept in ([tokens - 1], [0, tokens - 1], list(range(0, tokens, 3))):
            chosen = torch.tensor(kept)
            assert_same(target.encode(clip, lambda v, t, k=chosen: k), whole.keep_video(chosen))
