"""The benchmark of shapes: what it draws and what it derives."""

import numpy as np
import pytest
import torch

from lvspec.benchmark.shape import SHAPES, ShapeSettings, _accepted, build, measure_shape


@pytest.mark.parametrize("tau", [3.28, 7.76])
def test_acceptance_has_the_stated_mean(tau):
    drawn = _accepted(np.random.default_rng(0), tau, 10, 20_000)
    assert drawn.mean() == pytest.approx(tau, rel=0.02)
    assert drawn.min() == 0 and drawn.max() == 10


@pytest.mark.parametrize("batch", [1, 3])
def test_a_point_is_consistent(batch):
    torch.set_num_threads(1)
    models = tuple(build(text, torch.device("cpu"), torch.float32) for text in SHAPES["tiny"])
    settings = ShapeSettings(batch=batch, context=300, rounds=6)
    point = measure_shape("tiny", settings, models)
    assert 1 <= point.tokens_per_round <= 11
    assert point.speedup == pytest.approx(point.plain_ms * point.tokens_per_round / point.round_ms)
    parts = point.draft_ms * 10 + point.verify_ms + point.policy_ms
    assert point.round_ms == pytest.approx(parts, rel=0.8)
    assert 0 < point.policy_share < 1


def test_real_shapes_are_those_of_the_checkpoints():
    """Parameters of the text decoders, as the model cards state them."""
    for text, billions in ((SHAPES["qwen2.5-vl-32b"][0], 32.8), (SHAPES["qwen2.5-vl-7b"][0], 7.6)):
        dim = text.width // text.heads
        attention = text.width * dim * (2 * text.heads + 2 * text.kv_heads)
        layer = attention + 3 * text.width * text.feed_forward
        total = text.layers * layer + 2 * text.vocabulary * text.width
        assert total / 1e9 == pytest.approx(billions, rel=0.03)
