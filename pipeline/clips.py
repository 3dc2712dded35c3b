"""How a video becomes clips. Pure: spans in whole milliseconds, as clip ids hold them."""

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from lvspec.config import SettingError

Span = tuple[int, int]
"""Start and end in milliseconds from the start of the file; end > start."""


@dataclass(frozen=True)
class ClipSettings:
    """Which clips are cut from a video.

    mode: "whole": each row of the source is one clip, with its span where a manifest gives one.
        "windows": a clip of `length_s` every `stride_s` (null: one behind the other). "scenes":
        from cut to cut, where PySceneDetect's content score passes `threshold`.
    length_s, stride_s: of windows; a stride of null is the length.
    threshold: of scenes; PySceneDetect's own default is 27.
    minimum_s: a rest at the end that is shorter is left out of windows; scenes are at least so
        long. A video that is shorter as a whole is one clip.
    timeout_s: what cutting one video may take before it is an error row. Scenes decode all of it.
    """

    mode: Literal["whole", "windows", "scenes"] = "whole"
    length_s: float = 10.0
    stride_s: float | None = None
    minimum_s: float = 1.0
    threshold: float = 27.0
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        for key in ("length_s", "stride_s", "minimum_s", "threshold", "timeout_s"):
            value = getattr(self, key)
            if value is not None and not 0 < value < math.inf:
                raise SettingError(key, value, "a number above 0")
        for key in ("length_s", "stride_s", "minimum_s"):
            if getattr(self, key) is not None and round(getattr(self, key) * 1000) < 1:
                raise SettingError(key, getattr(self, key), "at least a millisecond")
        if self.mode == "windows" and self.minimum_s > self.length_s:
            raise SettingError("minimum_s", self.minimum_s, f"at most length_s ({self.length_s:g})")
        if self.mode == "scenes" and importlib.util.find_spec("scenedetect") is None:
            allowed = "whole or windows, until  pip install 'lvspec[scenes]'"
            raise SettingError("mode", "scenes", allowed)


def extent_ms(start_s: float, end_s: float) -> Span:
    """Whole milliseconds inside a video, at least one."""
    start = math.ceil(round(start_s * 1000, 3))
    return start, max(start + 1, math.floor(round(end_s * 1000, 3)))


def windows(extent: Span, settings: ClipSettings) -> list[Span]:
    """Windows of a video from its start on; the last one ends with it, and none lies in another.

    There is at least one.
    """
    length = round(settings.length_s * 1000)
    stride = length if settings.stride_s is None else round(settings.stride_s * 1000)
    start, end = extent
    spans = [(start, min(start + length, end))]
    while spans[-1][1] < end and start + stride < end:
        start += stride
        spans.append((start, min(start + length, end)))
    if len(spans) > 1 and spans[-1][1] - spans[-1][0] < round(settings.minimum_s * 1000):
        spans.pop()
    return spans


def scenes(extent: Span, cuts_ms: Sequence[int], settings: ClipSettings) -> list[Span]:
    """Spans from cut to cut, without gaps. A scene shorter than `minimum_s` belongs to the one
    before it, the first to the one after.

    There is at least one.
    """
    minimum = round(settings.minimum_s * 1000)
    start, end = extent
    kept: list[int] = []
    for cut in sorted(cuts_ms):
        if cut - (kept[-1] if kept else start) >= minimum and end - cut >= minimum:
            kept.append(cut)
    edges = [start, *kept, end]
    return list(pairwise(edges))
