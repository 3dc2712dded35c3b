"""What goes into the reader and what comes out. Plain frozen data; nothing here opens a file."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

DecoderName = Literal["pyav", "decord"]
Allocate = Callable[[tuple[int, int, int, int]], npt.NDArray[np.uint8]]
"""Memory for a clip's pictures, by its shape [T, H, W, 3]. It is asked again where reading starts
over; what it gave before is then no longer used.
"""

MAX_ASPECT: Final = (
    200  # beyond it Qwen's smart_resize refuses; here the short side is taken as long / 200
)
MAX_SOURCE_PIXELS: Final = 8192 * 4352
"""Largest picture that is decoded (8K UHD and a little). One 12288 x 12288 frame costs 2 to 4.6 GB
in any decoder.
"""


@dataclass(frozen=True)
class FrameSpec:
    """How many pictures a model wants, and how large.

    count       pictures per clip
    factor      width and height are multiples of this (patch size x merge size: 28 for Qwen2.5-VL)
    min_pixels  fewest pixels per picture, kept unless max_pixels forbids it
    max_pixels  most pixels per picture; at least factor * factor
    fixed       (width, height) that every picture is stretched to, whatever its aspect, for models
                with one input size; the three above then say nothing. See `of_one_size`
    """

    count: int
    factor: int
    min_pixels: int
    max_pixels: int
    fixed: tuple[int, int] | None = None

    @classmethod
    def of_one_size(cls, count: int, width: int, height: int) -> FrameSpec:
        """For a model that takes pictures of this size only."""
        return cls(count, 1, width * height, width * height, (width, height))

    def __post_init__(self) -> None:
        if self.count < 1 or self.factor < 1:
            raise ValueError(
                f"count and factor must be at least 1, got {self.count} and {self.factor}"
            )
        if not 0 <= self.min_pixels <= self.max_pixels:
            raise ValueError(
                f"need 0 <= min_pixels <= max_pixels, got {self.min_pixels} and {self.max_pixels}"
            )
        if self.max_pixels < self.factor**2:
            raise ValueError(f"max_pixels {self.max_pixels} is less than one factor x factor block")

    def size_for(self, width: int, height: int) -> tuple[int, int]:
        """The model's (width, height) for a displayed picture of this size.

        Qwen's smart_resize (transformers, qwen2_vl/image_processing_qwen2_vl.py) for one picture:
        multiples of `factor`, aspect kept as well as that allows, pixels inside [min_pixels,
        max_pixels]. It differs where that function gives up: an aspect over 200 is clamped instead
        of refused, and a long thin picture is shortened rather than let through above max_pixels.
        """
        if width < 1 or height < 1:
            raise ValueError(f"a picture of {width} x {height} has no pixels")
        if self.fixed:
            return self.fixed
        w = max(float(width), height / MAX_ASPECT)
        h = max(float(height), width / MAX_ASPECT)
        out_w, out_h = round(w / self.factor) * self.factor, round(h / self.factor) * self.factor
        if out_w * out_h > self.max_pixels:
            shrink = math.sqrt(w * h / self.max_pixels)
            out_w = math.floor(w / shrink / self.factor) * self.factor
            out_h = math.floor(h / shrink / self.factor) * self.factor
        elif out_w * out_h < self.min_pixels:
            grow = math.sqrt(self.min_pixels / (w * h))
            out_w = math.ceil(w * grow / self.factor) * self.factor
            out_h = math.ceil(h * grow / self.factor) * self.factor
        out_w, out_h = max(self.factor, out_w), max(self.factor, out_h)
        longest = self.max_pixels // min(out_w, out_h) // self.factor * self.factor
        longest = max(longest, self.factor)
        return min(out_w, longest), min(out_h, longest)

    def check(self, width: int, height: int) -> None:
        """ValueError unless pictures of this size can enter the model as they are.

        The budget of pixels is not looked at: it is a choice, not a property of the model.
        """
        if self.fixed and (width, height) != self.fixed:
            wanted = "exactly {} x {}".format(*self.fixed)
        elif width < 1 or height < 1 or width % self.factor or height % self.factor:
            wanted = f"sides that are multiples of {self.factor}"
        else:
            return
        raise ValueError(
            f"pictures of {width} x {height}, but the model takes {wanted}; read or resize them "
            "to what FrameSpec.size_for says"
        )


@dataclass(frozen=True)
class VideoInfo:
    """What was read, for the row in the dataset.

    decoder               "pyav" or "decord"
    codec, container      e.g. "h264", "mp4"; the container is what the bytes say, not the file's
                          name
    fps                   average rate of the shown frames over the video
    duration_s            from the first frame's time to the end of the last one
    width, height         as displayed: upright, sample aspect ratio applied
    rotation              clockwise degrees a player turns the stored picture by: 0, 90, 180, 270
    start_s, end_s        the span that was sampled, on the player's clock
    num_frames_requested  pictures asked for
    num_frames_decoded    distinct frames among them (fewer when a frame is shown at several of the
                          asked times)
    damaged               something in the file is broken or missing; pictures in a Clip are clean
                          ones all the same
    """

    decoder: DecoderName
    codec: str
    container: str
    fps: float
    duration_s: float
    width: int
    height: int
    rotation: int
    start_s: float
    end_s: float
    num_frames_requested: int
    num_frames_decoded: int
    damaged: bool


@dataclass(frozen=True)
class Clip:
    """frames uint8 [T, H, W, 3] RGB at the model's size; times_s float64 [T], seconds from the
    start of the span.
    """

    frames: npt.NDArray[np.uint8]
    times_s: npt.NDArray[np.float64]
    info: VideoInfo


def on_heap(shape: tuple[int, int, int, int]) -> npt.NDArray[np.uint8]:
    """Ordinary memory of this process."""
    return np.empty(shape, np.uint8)
