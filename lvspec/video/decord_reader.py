"""decord behind the same seam, for those who have validated it on their corpus.

It returns wrong frames in silence on ordinary files (docs/decoders.md has the list) and cannot tell
damage, so it is not the default. What surrounds it is the same: the file is sniffed, its header is
checked by PyAV (size, codec, encryption, a moving picture), and the same times are asked for.
decord reads paths only; a file object is copied to a temporary file.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lvspec.video.errors import VideoError
from lvspec.video.pictures import displayed_size
from lvspec.video.pyav_open import OpenVideo
from lvspec.video.sampling import plan_span, shown_at
from lvspec.video.source import VideoSource, local_path, open_source
from lvspec.video.types import Allocate, Clip, FrameSpec, VideoInfo, on_heap

_MAX_DURATION_S: Final = 1e7  # a third of a year; where decord knows no time it says 10^20 seconds


def read(
    source: VideoSource,
    spec: FrameSpec,
    start_s: float | None = None,
    end_s: float | None = None,
    allocate: Allocate = on_heap,
) -> Clip:
    """As lvspec.video.read_clip. Raises ImportError without the package (pip install decord)."""
    decord = importlib.import_module("decord")  # optional, and it loads an FFmpeg of its own
    decord.logging.set_level(decord.logging.QUIET)  # what matters comes back as errors
    with open_source(source) as opened, OpenVideo(opened) as video, local_path(source) as path:
        reader = _open(decord, path)
        # decord counts from the stream's start; frames an edit list hides have times before it.
        first_s = float((video.stream.start_time or 0) * video.time_base)
        spans: npt.NDArray[np.float64] = np.asarray(
            reader.get_frame_timestamp(list(range(len(reader)))), np.float64
        )
        times, last_end_s = spans[:, 0] + first_s, float(spans[:, 1].max()) + first_s
        if not first_s < last_end_s < first_s + _MAX_DURATION_S:
            raise VideoError("decode_failed", "decord: has no times for this file's frames")
        plan = plan_span(spec.count, (first_s, last_end_s), video.zero_s, start_s, end_s)
        chosen = [shown_at(times.tolist(), float(t)) for t in plan.asked_s]
        height, width, _ = _native_shape(reader)
        turned = (height, width) == (video.codec.width, video.codec.height) and height != width
        stored = (height, width) if turned else (width, height)
        displayed = displayed_size(*stored, video.aspect, turned)
        info = VideoInfo(
            decoder="decord",
            codec=video.codec_name,
            container=opened.container.name,
            fps=float(reader.get_avg_fps()),
            duration_s=plan.video_end_s - plan.video_start_s,
            width=displayed[0],
            height=displayed[1],
            rotation=90 if turned else 0,  # decord turns pictures and does not say which way
            start_s=plan.start_s - plan.zero_s,
            end_s=plan.end_s - plan.zero_s,
            num_frames_requested=spec.count,
            num_frames_decoded=len(set(chosen)),
            damaged=False,
        )
        pictures = _batch(_open(decord, path, spec.size_for(*displayed)), chosen)
        frames = allocate((spec.count, *pictures.shape[1:3], 3))
        np.copyto(frames, pictures)
    return Clip(frames, plan.asked_s - plan.start_s, info)


def _open(decord: Any, path: str, size: tuple[int, int] = (-1, -1)) -> Any:
    try:
        reader = decord.VideoReader(
            path, ctx=decord.cpu(0), width=size[0], height=size[1], num_threads=1
        )
    except (decord.DECORDError, RuntimeError) as error:
        raise VideoError("decode_failed", f"decord: {_reason(error)}") from error
    if not len(reader):
        raise VideoError("no_frames", "decord finds no frames")
    return reader


def _native_shape(reader: Any) -> tuple[int, int, int]:
    return _batch(reader, [0]).shape[1:]  # type: ignore[return-value]  # of [1, H, W, 3]: three sizes, which numpy does not type


def _batch(reader: Any, indices: Sequence[int]) -> npt.NDArray[np.uint8]:
    """uint8 [len(indices), H, W, 3]. decord raises RuntimeError or its own error, as it happens."""
    try:
        return reader.get_batch(list(indices)).asnumpy()
    except Exception as error:
        if type(error).__name__ not in ("DECORDError", "RuntimeError", "DECORDLimitReachedError"):
            raise
        raise VideoError("decode_failed", f"decord: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """decord's first line without "[time] source file:line: ", so that equal causes read equal."""
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return re.sub(r"^\[[\d:]+\] \S+:\d+: ", "", first)[:200]
