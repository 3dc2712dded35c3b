import importlib
import pickle

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lvspec.video import CODES, FrameSpec, VideoError

sides = st.integers(1, 8192)
factors = st.sampled_from([14, 28, 32])


@pytest.fixture(scope="module")
def qwen():
    return importlib.import_module("transformers.models.qwen2_vl.image_processing_qwen2_vl")


@given(sides, sides, factors, st.integers(0, 500_000), st.integers(1024, 2_000_000))
def test_size_is_qwens_where_qwens_is_within_the_limits(qwen, width, height, factor, low, high):
    assume(low <= high and max(width, height) <= 200 * min(width, height))
    h, w = qwen.smart_resize(height, width, factor, low, high)
    assume(h and w and h * w <= high)
    assert FrameSpec(1, factor, low, high).size_for(width, height) == (w, h)


@given(st.integers(1, 100_000), st.integers(1, 100_000), factors, st.integers(1024, 2_000_000))
def test_size_is_whole_blocks_within_the_budget_for_any_picture(width, height, factor, high):
    w, h = FrameSpec(1, factor, 0, high).size_for(width, height)
    assert w % factor == 0 and h % factor == 0 and w and h
    assert w * h <= high
    assert (w >= h) == (width >= height) or w == h or width == height


@given(st.integers(64, 4096), st.integers(64, 4096))
def test_aspect_is_kept_within_a_block(width, height):
    assume(max(width, height) <= 4 * min(width, height))
    w, h = FrameSpec(1, 28, 200_000, 1_000_000).size_for(width, height)
    assert abs(w - h * width / height) <= 28 * (1 + width / height)


def test_known_sizes():
    spec = FrameSpec(8, 28, 56 * 56, 14 * 14 * 4 * 1280)
    assert spec.size_for(1920, 1080) == (1316, 728)
    assert spec.size_for(112, 112) == (112, 112)
    assert spec.size_for(10_000, 10) == (9996, 56)  # an aspect of 1000 counts as 200


@pytest.mark.parametrize("bad", [(0, 28, 0, 9999), (1, 0, 0, 9999), (1, 28, 9, 8), (1, 28, 0, 783)])
def test_impossible_specs_are_refused(bad):
    with pytest.raises(ValueError, match=r"\d"):
        FrameSpec(*bad)


def test_errors_know_their_codes():
    error = VideoError("no_frames", "nothing")
    assert (error.code, error.message, str(error)) == ("no_frames", "nothing", "no_frames: nothing")
    with pytest.raises(ValueError, match="made_up"):
        VideoError("made_up", "")
    assert "decode_failed" in CODES


@given(sides, sides)
def test_one_size_is_one_size(width, height):
    spec = FrameSpec.of_one_size(8, 384, 336)
    assert spec.size_for(width, height) == (384, 336)
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    "spec,good,bad,wanted",
    [
        (FrameSpec(1, 28, 0, 9999), [(28, 56), (2800, 28)], [(27, 28), (0, 28)], "multiples of 28"),
        (FrameSpec.of_one_size(1, 32, 16), [(32, 16)], [(16, 32), (64, 32)], "exactly 32 x 16"),
    ],
)
def test_sizes_that_models_take(spec, good, bad, wanted):
    for size in good:
        spec.check(*size)
    for size in bad:
        with pytest.raises(ValueError, match=f"{size[0]} x {size[1]}.*{wanted}"):
            spec.check(*size)
