"""Small real video files for pipeline tests."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np


def write_video(path: Path, brightness: int, frames: int = 12) -> Path:
    """A 64 x 64 H.264 clip of one grey, 24 frames per second."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = np.full((64, 64, 3), brightness, np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=24)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for _ in range(frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def write_greys(path: Path, greys: Sequence[int], pts_ms: Sequence[int]) -> Path:
    """A 64 x 64 H.264 clip of one grey per frame, shown at these times: any frame rate."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for grey, pts in zip(greys, pts_ms, strict=True):
            picture = np.full((64, 64, 3), grey, np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = pts, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def write_corpus(folder: Path, good: int) -> Path:
    """`good` clips, and two that fail: an empty file and one that is no video."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(good):
        write_video(folder / f"clip_{index:02d}.mp4", brightness=10 * index)
    (folder / "empty.mp4").write_bytes(b"")
    (folder / "junk.mp4").write_bytes(b"this is text\n" * 50)
    return folder
