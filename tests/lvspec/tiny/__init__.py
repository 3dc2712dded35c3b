"""Tiny random models of every family with their real processors: every proof of the engine runs on
them in seconds.

To add a family: a builder beside the others, and its line in `FAMILIES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from lvspec.models import VideoModel
from lvspec.pair import Pair
from lvspec.types import Request
from tests.lvspec.tiny.qwen import (
    make_processor,
    processor,
    qwen2_5_vl,
    qwen2_vl,
    qwen3_vl,
    qwen3_vl_moe,
)
from tests.lvspec.tiny.squares import (
    INTERN_SIDE,
    LLAVA_SIDE,
    SMOL_SIDE,
    internvl,
    llava_onevision,
    smolvlm,
)

Model = TypeVar("Model", bound=VideoModel)


@dataclass(frozen=True)
class Family:
    """make: a builder. side: frames are this many pixels or a multiple, up to `most` times it."""

    make: Callable[..., VideoModel]
    side: int
    most: int = 3


FAMILIES = {
    "qwen2_vl": Family(qwen2_vl, 28),
    "qwen2_5_vl": Family(qwen2_5_vl, 28),
    "qwen3_vl": Family(qwen3_vl, 32),
    "qwen3_vl_moe": Family(qwen3_vl_moe, 32),
    "llava_onevision": Family(llava_onevision, LLAVA_SIDE, most=1),
    "internvl": Family(internvl, INTERN_SIDE, most=1),
    "smolvlm": Family(smolvlm, SMOL_SIDE, most=1),
}

__all__ = ["FAMILIES", "make_processor", "processor", "qwen2_5_vl"]


def noisy_copy(model: Model, noise: float, seed: int = 0) -> Model:
    """The same checkpoint with noise on its weights: a draft that is right most of the time."""
    torch.manual_seed(seed)
    copy = type(model.model)(model.model.config).eval()
    copy.load_state_dict(model.model.state_dict())
    with torch.no_grad():
        for weight in copy.parameters():
            weight.add_(noise * weight.std() * torch.randn_like(weight))
    copy.generation_config = model.generation_config
    return type(model)(copy, model.processor)


def pair(target: VideoModel, draft: VideoModel | None) -> Pair:
    return Pair(target, draft)


def requests(
    count: int, seed: int = 0, *, side: int = 28, most: int = 3, **kwargs: Any
) -> list[Request]:
    """Ragged requests: different numbers and sizes of frames, prompts of different lengths."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        frames, height, width = rng.integers(1, 5) * 2, *(rng.integers(1, most + 1, 2) * side)
        times = np.arange(frames) * rng.uniform(0.2, 1.5)
        pixels = rng.integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
        prompt = "Describe this. "[: rng.integers(3, 15)]
        made.append(Request(str(i), pixels, times, prompt, **kwargs))
    return made


@torch.inference_mode()
def generate(model: VideoModel, request: Request, max_new_tokens: int) -> list[int]:
    """What stock `generate` says, greedily, for the same request."""
    inputs = model.prepare(request.frames, request.times_s, request.prompt or "").inputs
    size = inputs["input_ids"].shape[1]
    out = model.model.generate(
        **inputs, max_new_tokens=max_new_tokens, do_sample=False, use_cache=True
    )
    return out[0, size:].tolist()
