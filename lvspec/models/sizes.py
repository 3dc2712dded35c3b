"""Frames of one size only: what the processors of several families want."""

from typing import Any

from lvspec.types import LoadError
from lvspec.video import FrameSpec


def one_size(
    processor: Any, count: int, min_pixels: int | None, max_pixels: int | None
) -> FrameSpec:
    """For video processors that stretch every frame to `size` = {"height", "width"}."""
    size = processor.video_processor.size
    height, width = size.get("height"), size.get("width")
    if not height or not width:
        raise LoadError(
            f"the video processor resizes to {dict(size)}, not to one height and width: frames "
            "cannot be read at the model's size; set its `size` to the vision tower's image size"
        )
    return square_of(count, width, height, min_pixels, max_pixels)


def square_of(
    count: int, width: int, height: int, min_pixels: int | None, max_pixels: int | None
) -> FrameSpec:
    """Frames of width x height; LoadError for a wish that the model cannot follow."""
    if min_pixels or max_pixels:
        raise LoadError(
            f"the model takes frames of {width} x {height} only: leave out frames.min_pixels and "
            "frames.max_pixels"
        )
    return FrameSpec.of_one_size(count, width, height)
