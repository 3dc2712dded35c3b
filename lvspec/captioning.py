"""One clip, one call: the shortest way from a video to a caption. Many clips: use `Engine.run`."""

from pathlib import Path
from typing import BinaryIO

import numpy as np

from lvspec.config import DecodeSettings, FrameSettings
from lvspec.engine import Engine
from lvspec.pair import Pair
from lvspec.types import Generation, Refusal, Request
from lvspec.video import read_clip


def caption(
    pair: Pair,
    source: str | Path | BinaryIO | np.ndarray,
    prompt: str | None = None,
    *,
    times_s: np.ndarray | None = None,
    frames: FrameSettings | None = None,
    decode: DecodeSettings | None = None,
) -> Generation:
    """Caption a video file, or frames uint8 [T, H, W, 3] shown at `times_s` (default: 2 a second).

    Arrays must be at the model's input size already (sides a multiple of its patches). The result
    also says why each token was emitted. Raises `lvspec.video.VideoError` for a file that cannot be
    read and ValueError for a request that cannot run.
    """
    if isinstance(source, np.ndarray):
        times = np.arange(len(source)) / 2 if times_s is None else times_s
        request = Request("0", source, np.asarray(times, np.float64), prompt)
    else:
        request = _read(pair, source, prompt, frames or FrameSettings())
    engine = Engine(pair, decode or DecodeSettings(slots=1))
    (result,) = engine.run([request], reasons=True)
    if isinstance(result, Refusal):
        raise ValueError(f"{result.code}: {result.message}")
    return result


def _read(
    pair: Pair, source: str | Path | BinaryIO, prompt: str | None, frames: FrameSettings
) -> Request:
    target = pair.target
    spec = target.frame_spec(target.processor, frames.count, frames.min_pixels, frames.max_pixels)
    clip = read_clip(str(source) if isinstance(source, Path) else source, spec)
    return Request("0", clip.frames, clip.times_s, prompt)
