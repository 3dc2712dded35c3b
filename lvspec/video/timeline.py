"""How long a video is, and all of its pictures in order: what cutting it into clips needs.

Times are on the player's clock, as `read_clip` takes them: 0 is where the file starts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import median

import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from lvspec.video.errors import VideoError
from lvspec.video.pyav_decode import decode_on
from lvspec.video.pyav_open import OpenVideo
from lvspec.video.pyav_scan import MIN_INDEXED_BYTES, Scan, indexed_bounds, scan_all
from lvspec.video.sampling import shown_times
from lvspec.video.source import VideoSource, open_source

See = Callable[[int, npt.NDArray[np.uint8]], None]
"""Called with (number from 0, picture uint8 [H, W, 3] in BGR) for each picture as it is shown."""


def read_extent(source: VideoSource) -> tuple[float, float]:
    """When a video's first picture appears and its last one ends, in seconds.

    Files with an index are not read through and nothing is decoded, but for those without usable
    times (see docs/decoders.md). Raises VideoError as `read_clip`.
    """
    with open_source(source) as opened, OpenVideo(opened) as video:
        bounds = indexed_bounds(video, MIN_INDEXED_BYTES)
        if bounds is not None:
            return _on_players_clock(video, bounds.start_s, bounds.end_s)
        scan = scan_all(video)
        if scan.is_indexed:
            tb = float(video.time_base)
            return _on_players_clock(video, scan.pts[0] * tb, scan.end_pts * tb)
        video.reopen()
        times, end_s = _times(video, scan, [frame.pts for frame, _ in decode_on(video)])
        return _on_players_clock(video, times[0], end_s)


def see_all(source: VideoSource, see: See, side: int) -> tuple[list[float], float]:
    """Decode every picture in order and show it to `see`, its longer side scaled down to `side`.

    Returns the time of each picture, ascending whatever the frame rate does, and when the last one
    ends. Pictures are neither turned nor stretched. Raises VideoError as `read_clip`.
    """
    with open_source(source) as opened, OpenVideo(opened) as video:
        scan = scan_all(video)
        shown = frozenset(scan.pts) if scan.is_indexed else None
        video.reopen()
        scaler, pts = VideoReformatter(), list[int | None]()
        for frame, _ in decode_on(video):
            if shown is None or frame.pts in shown:  # else outside the edit list
                see(len(pts), _small(scaler, frame, side))
                pts.append(frame.pts)
        if not pts:
            raise VideoError("decode_failed", f"{scan.num_packets} packets, none gives a picture")
        times, end_s = _times(video, scan, pts)
        start_s, end_s = _on_players_clock(video, times[0], end_s)
        return [start_s + t - times[0] for t in times], end_s


def _times(video: OpenVideo, scan: Scan, pts: list[int | None]) -> tuple[list[float], float]:
    """Times of decoded pictures and the end of the last one, in the container's own seconds."""
    if not pts:
        raise VideoError("decode_failed", f"{scan.num_packets} packets, none gives a picture")
    tb = float(video.time_base)
    raw = [None if p is None else p * tb for p in pts]
    times = shown_times(raw, video.frame_s, scan.made_up_times)
    if scan.is_indexed:
        return times, max(scan.end_pts * tb, times[-1])
    steps = [b - a for a, b in pairwise(times) if b > a]
    return times, times[-1] + (median(steps) if steps else video.frame_s)


def _on_players_clock(video: OpenVideo, start_s: float, end_s: float) -> tuple[float, float]:
    zero_s = start_s if video.zero_s is None else min(video.zero_s, start_s)
    return start_s - zero_s, end_s - zero_s


def _small(scaler: VideoReformatter, frame: VideoFrame, side: int) -> npt.NDArray[np.uint8]:
    shrink = max(1.0, max(frame.width, frame.height) / side)
    width, height = (max(1, round(n / shrink)) for n in (frame.width, frame.height))
    small = scaler.reformat(
        frame, width, height, "bgr24", interpolation=Interpolation.AREA, threads=1
    )
    return np.asarray(small.to_ndarray(), dtype=np.uint8)
