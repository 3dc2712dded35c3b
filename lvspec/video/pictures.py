"""From a decoded frame to its place in the clip's array: colour, scale, upright. One swscale pass
and one copy.
"""

from __future__ import annotations

from typing import Final, cast

import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from lvspec.video.errors import VideoError
from lvspec.video.types import MAX_SOURCE_PIXELS, Allocate, FrameSpec

_MAX_BICUBIC_SHRINK: Final = (
    16  # swscale's filter tables end near 64 to 1 for bicubic; areas go further
)


class Canvas:
    """uint8 [T, H, W, 3] being filled. The first picture fixes size and turn for all of them."""

    def __init__(self, spec: FrameSpec, allocate: Allocate) -> None:
        self.spec = spec
        self._allocate = allocate
        self.frames: npt.NDArray[np.uint8] | None = None
        self.displayed = (0, 0)
        self.rotation = 0
        self._scaler = VideoReformatter()
        self._turns: dict[int, tuple[bool, bool, bool]] = {}  # orientation by `frame.rotation`

    def put(self, slot: int, frame: VideoFrame, aspect: float) -> None:
        """Write `frame` into place `slot`. `aspect` is width over height of one stored sample (1.0
        for square ones).

        Raises VideoError too_large for a picture that grew over the limit in mid-stream.
        """
        if frame.width * frame.height > MAX_SOURCE_PIXELS:
            raise VideoError("too_large", f"a frame of {frame.width} x {frame.height} pixels")
        if frame.rotation not in self._turns:
            # Once per angle, not per frame: a frame whose side data was looked at is a reference
            # cycle (PyAV 18), and stays until Python's collector happens to run.
            self._turns[frame.rotation] = orientation(frame)
        swap, flip_x, flip_y = self._turns[frame.rotation]
        if self.frames is None:
            self.displayed = displayed_size(frame.width, frame.height, aspect, swap)
            self.rotation = (270 if flip_y else 90) if swap else (180 if flip_x and flip_y else 0)
            width, height = self.spec.size_for(*self.displayed)
            self.frames = self._allocate((self.spec.count, height, width, 3))
        height, width = self.frames.shape[1:3]
        stored = (height, width) if swap else (width, height)
        picture = _rgb(self._scaler, frame, *stored)
        picture = picture.transpose(1, 0, 2) if swap else picture
        self.frames[slot] = picture[:: -1 if flip_y else 1, :: -1 if flip_x else 1]

    def repeat(self, slot: int, of: int) -> None:
        """The picture of place `of` is on screen at the time of `slot` too."""
        assert self.frames is not None  # `of` was put before
        self.frames[slot] = self.frames[of]


def displayed_size(width: int, height: int, aspect: float, swap: bool) -> tuple[int, int]:
    """(width, height) on screen: samples stretched to squares (never shrunk below what is stored),
    then turned.
    """
    shown_w = max(1, round(width * aspect))
    return (height, shown_w) if swap else (shown_w, height)


def orientation(frame: VideoFrame) -> tuple[bool, bool, bool]:
    """How to turn the stored picture upright: (swap axes first, then mirror x, then mirror y).

    From the display matrix a b / c d (16.16 fixed point): a stored point (x, y) is shown at (a x +
    c y, b x + d y). Cameras write quarter turns and mirrors only; anything else is taken as the
    nearest of those.
    """
    if not len(frame.side_data):
        return False, False, False
    side = frame.side_data.get("DISPLAYMATRIX")
    if side is None:
        return False, False, False
    a, b, _, c, d = (int(v) for v in np.frombuffer(bytes(side), np.int32)[:5])
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return False, a < 0, d < 0
    return True, c < 0, b < 0


def _rgb(
    scaler: VideoReformatter, frame: VideoFrame, width: int, height: int
) -> npt.NDArray[np.uint8]:
    """A view [height, width, 3] on the scaled frame. Colour matrix and range are the frame's own,
    or FFmpeg's default (BT.601, limited) where it has none; PQ and HLG are not tone-mapped.
    """
    shrink = max(frame.width / width, frame.height / height)
    method = Interpolation.BICUBIC if shrink <= _MAX_BICUBIC_SHRINK else Interpolation.AREA
    rgb = scaler.reformat(frame, width, height, "rgb24", interpolation=method, threads=1)
    plane = rgb.planes[0]
    rows = np.frombuffer(memoryview(cast("bytes", plane)), np.uint8).reshape(
        height, plane.line_size
    )
    return rows[:, : width * 3].reshape(height, width, 3)
