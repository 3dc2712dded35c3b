"""Videos in, captions out: the shortest way from files, arrays or tensors to text.

One clip: `caption`. Many: `generate`, which reads and captions as it goes. For requests made
elsewhere (the pipeline's), use `Engine.run` itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from lvspec.config import DecodeSettings, FrameSettings
from lvspec.engine import Engine
from lvspec.pair import Pair
from lvspec.types import Generation, Refusal, Request
from lvspec.video import FrameSpec, VideoError, read_clip

Source = str | Path | BinaryIO | np.ndarray | torch.Tensor | Request
"""A video file (path or open file), frames uint8 [T, H, W, 3] (tensors also [T, 3, H, W]) at the
model's input size shown twice a second, or a request, which brings its own times and prompt."""


def caption(
    pair: Pair,
    source: Source,
    prompt: str | None = None,
    *,
    times_s: np.ndarray | None = None,
    frames: FrameSettings | None = None,
    decode: DecodeSettings | None = None,
) -> Generation:
    """Caption one clip; also says why each token was emitted (`reasons`) and how much it
    depends on the video (`relevance`).

    times_s: seconds of each frame of an array or tensor; default: 2 frames a second.
    Raises `lvspec.VideoError` for a file that cannot be read and ValueError for a request that
    cannot run.

    >>> import lvspec, numpy as np
    >>> frames = np.full((8, 112, 112, 3), 128, np.uint8)
    >>> result = lvspec.caption(lvspec.load(), frames)
    >>> result.finish_reason, len(result.reasons) == len(result.token_ids)
    ('stop', True)
    """
    request = _request(pair, "0", source, prompt, frames or FrameSettings())
    if times_s is not None:
        request = replace(request, times_s=np.asarray(times_s, np.float64))
    engine = Engine(pair, decode or DecodeSettings(slots=1))
    (result,) = engine.run([request], reasons=True, relevance=True)
    if isinstance(result, Refusal):
        raise ValueError(f"{result.code}: {result.message}")
    return result


def generate(
    pair: Pair,
    sources: Iterable[Source],
    prompt: str | None = None,
    *,
    frames: FrameSettings | None = None,
    decode: DecodeSettings | None = None,
    reasons: bool = False,
) -> Iterator[Generation | Refusal]:
    """Caption many clips; results come as they finish, `request_id` is the place in `sources`
    ("0", "1", ...) or a request's own id.

    `decode.slots` clips run together, and `sources` is asked for the next only when one is free, so
    it may be endless. A file that cannot be read is a `Refusal` with its code; the others go on.

    >>> import lvspec, numpy as np
    >>> clips = (np.full((8, 112, 112, 3), shade, np.uint8) for shade in (20, 120, 220))
    >>> results = lvspec.generate(lvspec.load(), clips)
    >>> sorted(result.request_id for result in results)
    ['0', '1', '2']
    """
    unread: list[Refusal] = []

    def requests() -> Iterator[Request]:
        for number, source in enumerate(sources):
            try:
                yield _request(pair, str(number), source, prompt, frames or FrameSettings())
            except VideoError as error:
                unread.append(Refusal(str(number), error.code, f"{source}: {error}"))

    for result in Engine(pair, decode or DecodeSettings()).run(requests(), reasons=reasons):
        yield from _taken(unread)
        yield result
    yield from _taken(unread)


def _taken(refusals: list[Refusal]) -> list[Refusal]:
    taken = refusals.copy()
    refusals.clear()
    return taken


def _request(
    pair: Pair, name: str, source: Source, prompt: str | None, settings: FrameSettings
) -> Request:
    if isinstance(source, Request):
        return source
    if isinstance(source, torch.Tensor):
        channels_first = source.ndim == 4 and source.shape[1] == 3 and source.shape[-1] != 3
        source = (source.movedim(1, -1) if channels_first else source).cpu().numpy()
    if isinstance(source, np.ndarray):
        # torch takes neither negative strides nor arrays that others may not write to
        pixels = np.require(source, requirements=["C", "W"])
        return Request(name, pixels, np.arange(len(source)) / 2, prompt)
    clip = read_clip(str(source) if isinstance(source, Path) else source, _spec(pair, settings))
    return Request(name, clip.frames, clip.times_s, prompt)


def _spec(pair: Pair, settings: FrameSettings) -> FrameSpec:
    target = pair.target
    count, least, most = settings.count, settings.min_pixels, settings.max_pixels
    return target.frame_spec(target.processor, count, least, most)
