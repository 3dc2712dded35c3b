"""Which frame is shown when. Pure functions on times; no decoder, no file."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lvspec.video.errors import VideoError

ROUNDING_S = 1e-6
"""Times come from fractions: a frame that starts within a microsecond of t has started."""
MIN_NEAR_S = 2.0
"""A clean picture this close still stands for a broken one (or the spacing of samples, if larger).
"""
MIN_DISTINCT_SHARE = 0.5
"""Of the different frames that should be there, so many must be left in a damaged file."""
SPAN_SLACK_S = 1.0
"""An asked end may lie this far behind the video's end, and is then cut: hosts round durations."""


@dataclass(frozen=True)
class Plan:
    """When to look: all in the container's own seconds.

    asked_s                     float64 [T], ascending: the middles of the span's parts
    video_start_s, video_end_s  the first frame's time, and the end of the last one
    start_s, end_s              the span
    zero_s                      where the player's clock has its 0
    """

    asked_s: npt.NDArray[np.float64]
    video_start_s: float
    video_end_s: float
    start_s: float
    end_s: float
    zero_s: float

    @property
    def near_s(self) -> float:
        """How far from an asked time a clean picture may be taken when the right one is broken."""
        return max(MIN_NEAR_S, (self.end_s - self.start_s) / len(self.asked_s))


def plan_span(
    count: int,
    video: tuple[float, float],
    zero_s: float | None,
    start_s: float | None,
    end_s: float | None,
) -> Plan:
    """Where `count` pictures are taken.

    video           (first frame's time, end of the last frame), the container's seconds
    zero_s          the container's time at which a player's clock starts, if it has one
    start_s, end_s  the asked span on the player's clock; None for the video's own ends

    Raises VideoError bad_span.
    """
    zero = video[0] if zero_s is None else min(zero_s, video[0])
    start, end = span_of(video[0] - zero, video[1] - zero, start_s, end_s)
    asked = centres(start + zero, end + zero, count)
    return Plan(asked, video[0], video[1], start + zero, end + zero, zero)


def span_of(
    video_start_s: float, video_end_s: float, start_s: float | None, end_s: float | None
) -> tuple[float, float]:
    """The span to sample, cut to the video: (start, end) in seconds, all on one clock.

    A span may begin before the first frame (players show that frame, or sound alone, there). Raises
    VideoError bad_span if it is empty, begins after the video, or reaches further past its end than
    hosts round durations.
    """
    start = video_start_s if start_s is None else start_s
    end = video_end_s if end_s is None else end_s
    if not (math.isfinite(start) and math.isfinite(end)):
        raise VideoError("bad_span", f"start_s {start_s} and end_s {end_s} must be finite")
    asked = f"asked for {start:.3f} to {end:.3f} s"
    if start < 0:
        raise VideoError("bad_span", f"{asked}: it begins before 0")
    if start >= video_end_s or end > video_end_s + SPAN_SLACK_S:
        raise VideoError("bad_span", f"{asked}, the video ends at {video_end_s:.3f} s")
    if start >= end:
        raise VideoError("bad_span", f"{asked}: it ends before it begins")
    return start, min(end, video_end_s)


def centres(start_s: float, end_s: float, count: int) -> npt.NDArray[np.float64]:
    """The middles of `count` equal parts of [start_s, end_s]: float64 [count], ascending."""
    part_s = (end_s - start_s) / count
    return start_s + part_s * (np.arange(count, dtype=np.float64) + 0.5)


def shown_at(frame_times_s: Sequence[float], t: float) -> int:
    """Index of the frame on screen at `t`: the last with time <= t, the first frame before that.

    `frame_times_s` ascends; of frames with equal times the last one is on screen.
    """
    if not frame_times_s:
        raise ValueError("no frames")
    return max(0, bisect_right(frame_times_s, t + ROUNDING_S) - 1)


def nearest_clean(clean_times_s: Sequence[float], t: float, limit_s: float) -> int | None:
    """Index of the clean frame nearest to `t`, or None if none is within `limit_s` (ascending)."""
    after = bisect_left(clean_times_s, t)
    around = [i for i in (after - 1, after) if 0 <= i < len(clean_times_s)]
    best = min(around, key=lambda i: abs(clean_times_s[i] - t), default=None)
    return best if best is not None and abs(clean_times_s[best] - t) <= limit_s else None


def check_distinct(num_expected: int, num_got: int, found: str) -> None:
    """Raise decode_failed if replacing broken frames left too few different ones.

    `found` says what was seen, for the message.
    """
    if num_got < math.ceil(num_expected * MIN_DISTINCT_SHARE):
        what = f"{num_got} of {num_expected} frames have a clean picture nearby"
        raise VideoError("decode_failed", f"{what} ({found})")


def shown_times(
    raw_s: Sequence[float | None], frame_s: float, in_decoding_order: bool = False
) -> list[float]:
    """Ascending times of frames in output order, from what a decoder says of them.

    raw_s              per frame; None where the container has no time for it
    frame_s            duration of one frame, for the times that are missing
    in_decoding_order  the container numbered the frames as they are stored (AVI with B-frames): the
                       set of times is right and only dealt out wrongly, so they are sorted

    Otherwise a clock that jumps back (recordings joined end to end) goes on where the last frame
    left off.
    """
    known = next((i for i, t in enumerate(raw_s) if t is not None), None)
    if known is None:
        return [i * frame_s for i in range(len(raw_s))]
    first = raw_s[known]
    assert first is not None  # the `next` above chose it so
    filled = [first - (known - i) * frame_s for i in range(known)]
    for t in raw_s[known:]:
        filled.append(t if t is not None else filled[-1] + frame_s)
    if in_decoding_order:
        return sorted(filled)
    times: list[float] = []
    shift_s, previous = 0.0, -math.inf
    for t in filled:
        if t < previous:
            shift_s += previous + frame_s - t
        times.append(t + shift_s)
        previous = t
    return times
