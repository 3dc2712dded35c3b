"""Small videos made on the spot, each frame carrying its own index: 4 x 4 cells, 8 bits of index
and 8 check bits. `read` tells which frame a picture is, and whether it is upright."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

DARK, BRIGHT = 30, 225


def paint(index: int, width: int = 96, height: int = 64) -> np.ndarray:
    """uint8 [height, width, 3]"""
    word = (index & 255) << 8 | ((index * 37 + 91) & 255)
    bits = np.array([word >> (15 - k) & 1 for k in range(16)], np.uint8).reshape(4, 4)
    rows = np.arange(height) * 4 // height
    columns = np.arange(width) * 4 // width
    grey = np.where(bits[rows][:, columns] == 1, BRIGHT, DARK).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def read(picture: np.ndarray) -> int:
    """Index of an upright picture, -1 for anything else."""
    grey = picture.astype(np.float32).mean(axis=2)
    height, width = grey.shape
    word = 0
    for r in range(4):
        for c in range(4):
            y0, y1 = height * r // 4 + height // 16, height * (r + 1) // 4 - height // 16
            x0, x1 = width * c // 4 + width // 16, width * (c + 1) // 4 - width // 16
            word = word << 1 | int(grey[y0:y1, x0:x1].mean() > (DARK + BRIGHT) / 2)
    index = word >> 8
    return index if (index * 37 + 91) & 255 == word & 255 else -1


def write(  # one place for everything a test may want of a file
    path: Path,
    count: int = 40,
    *,
    codec: str = "libx264",
    fps: int = 20,
    size: tuple[int, int] = (96, 64),
    options: dict[str, str] | None = None,
    pts_ms: Sequence[int] | None = None,
    rotate: float | None = None,
    hflip: bool = False,
    sample_aspect: Fraction | None = None,
    with_audio_s: float = 0.0,
    audio_only: bool = False,
) -> Path:
    """Frames 0..count-1, keyframe every 10; B-frames come with the codec's defaults."""
    with av.open(str(path), "w") as out:
        if not audio_only:
            video = out.add_stream(codec, rate=fps, options=options or {})
            video.width, video.height = size
            video.pix_fmt = "yuv420p"
            video.gop_size = 10
            video.codec_context.thread_count = 1
            video.codec_context.time_base = Fraction(1, 1000 if pts_ms else fps)
            if sample_aspect is not None:
                video.codec_context.sample_aspect_ratio = sample_aspect
            if rotate is not None or hflip:
                video.set_display_rotation(rotate or 0.0, hflip=hflip)
        if with_audio_s:
            audio = out.add_stream("aac", rate=16000)
        if not audio_only:
            for i in range(count):
                frame = av.VideoFrame.from_ndarray(paint(i, *size), "rgb24")
                frame.pts = pts_ms[i] if pts_ms else i
                frame.time_base = video.codec_context.time_base
                out.mux(video.encode(frame))
            out.mux(video.encode())
        if with_audio_s:
            for start in range(0, int(16000 * with_audio_s), 1024):
                silence = av.AudioFrame.from_ndarray(
                    np.zeros((1, 1024), np.float32), "fltp", "mono"
                )
                silence.sample_rate, silence.pts = 16000, start
                out.mux(audio.encode(silence))
            out.mux(audio.encode())
    return path


def has_encoder(name: str) -> bool:
    try:
        av.codec.Codec(name, "w")
    except av.codec.codec.UnknownCodecError:
        return False
    return True
