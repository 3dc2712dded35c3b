"""Reading the right frames out of any video file: `read_clip`.

Here: containers, clocks, frames, damage. Not here: models, tensors (no torch), storage protocols,
corpora.
"""

from lvspec.video.errors import CODES, VideoError
from lvspec.video.reader import read_clip
from lvspec.video.source import VideoSource
from lvspec.video.types import (
    MAX_SOURCE_PIXELS,
    Allocate,
    Clip,
    DecoderName,
    FrameSpec,
    VideoInfo,
)

__all__ = [
    "CODES",
    "MAX_SOURCE_PIXELS",
    "Allocate",
    "Clip",
    "DecoderName",
    "FrameSpec",
    "VideoError",
    "VideoInfo",
    "VideoSource",
    "read_clip",
]
