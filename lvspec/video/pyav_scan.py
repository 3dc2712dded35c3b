"""What the packets say, without decoding: when each frame is shown, and where decoding may begin.

A full scan reads the whole file once (no decoding; about 1 ms per 1,000 packets and a read of the
file). Where the container has an index (MP4, Matroska with cues) and the file is large, only the
packets around the asked times are read: a seek per group of times, one group of pictures each.
What is found there is checked, and anything odd falls back to the full scan.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import av.error
from av.packet import Packet
from av.video.stream import VideoStream

from lvspec.video.errors import VideoError
from lvspec.video.pyav_open import OpenVideo
from lvspec.video.sampling import ROUNDING_S

MIN_INDEXED_BYTES: Final = 32 << 20  # below, a full scan costs no more than the seeks
_INDEXED: Final = frozenset(("mp4", "matroska"))
_PROMISE_SLACK_S: Final = 0.1  # headers round; a video this much shorter than its header is cut off
_CONTINUE_S: Final = 4.0  # times this close are reached by reading on, not by another seek


@dataclass(frozen=True)
class Scan:
    """Packets of the video stream.

    pts            ascending, in the stream's time base: one per frame to be shown (partial: only
                   around the asked times)
    keys           pts of keyframes, ascending
    end_pts        when the last frame ends
    num_packets    packets seen
    is_indexed     frames can be found by pts and reached by seeking; otherwise decode from the
                   start and count
    made_up_times  the pts are in decoding order although the codec reorders frames
    """

    pts: tuple[int, ...]
    keys: tuple[int, ...]
    end_pts: int
    num_packets: int
    is_indexed: bool
    made_up_times: bool


class _Seen:
    """What one pass over packets gathers."""

    def __init__(self) -> None:
        self.pts: list[int] = []
        self.keys: list[int] = []
        self.end_pts = 0
        self.num_packets = 0
        self.num_without_pts = 0
        self.is_reordered = False
        self.has_begun = False

    def add(self, packet: Packet[VideoStream]) -> None:
        if packet.has_sidedata("encryption_info"):
            raise VideoError("encrypted", "the packets are encrypted (CENC)")
        self.num_packets += 1
        self.has_begun |= packet.is_keyframe
        if not self.has_begun:
            return  # recorded from the middle of a group of pictures on: no decoder shows these
        if packet.is_discard or not packet.size:
            return  # outside the edit list; or a repeat of the last frame
        if packet.pts is None:
            self.num_without_pts += 1
            return
        self.pts.append(packet.pts)
        self.end_pts = max(self.end_pts, packet.pts + (packet.duration or 0))
        self.is_reordered |= packet.pts != packet.dts
        if packet.is_keyframe:
            self.keys.append(packet.pts)


def scan_all(video: OpenVideo) -> Scan:
    """Read every packet. Raises VideoError no_frames or encrypted."""
    video.reopen()
    video.is_fresh = False
    seen = _Seen()
    try:
        for packet in video.container.demux(video.stream):
            if packet.size or packet.pts is not None:  # not PyAV's flush packet at the end
                seen.add(packet)
                video.has_met_damage |= not seen.has_begun
    except av.error.FFmpegError:
        video.has_met_damage = True  # what came so far counts
    video.has_met_damage |= _ends_early(video, seen)
    return _judge(video, seen)


def _judge(video: OpenVideo, seen: _Seen) -> Scan:
    if not seen.pts and not seen.num_without_pts:
        raise VideoError("no_frames", f"{seen.num_packets} packets, none holds a picture to show")
    pts = sorted(seen.pts)
    reorders = bool(video.codec.has_b_frames)
    made_up = reorders and (not seen.is_reordered or video.source.container.name == "avi")
    ascends = all(a < b for a, b in pairwise(pts))
    keys_ascend = all(a < b for a, b in pairwise(seen.keys))  # else the clock jumped back
    return Scan(
        pts=tuple(pts),
        keys=tuple(seen.keys),
        end_pts=_end_pts(seen, pts, video),
        num_packets=seen.num_packets,
        is_indexed=not seen.num_without_pts
        and not made_up
        and bool(seen.keys)
        and ascends
        and keys_ascend,
        made_up_times=made_up,
    )


def _end_pts(seen: _Seen, pts: list[int], video: OpenVideo) -> int:
    if not pts:
        return 0
    if seen.end_pts > pts[-1]:
        return seen.end_pts
    return pts[-1] + max(1, round(video.frame_s / float(video.time_base)))


def _ends_early(video: OpenVideo, seen: _Seen) -> bool:
    """Does the header promise more than the file holds?"""
    source, stream = video.source, video.stream
    if source.container.packet_bytes:
        return source.num_bytes % source.container.packet_bytes != 0
    if source.container.name == "mp4":
        return seen.num_packets < len(stream.index_entries)
    promised_s = _tagged_duration_s(stream.metadata.get("DURATION", ""))  # Matroska, per stream
    if promised_s is None or not seen.pts:
        return False
    return float(seen.end_pts * video.time_base) < promised_s - 2 * video.frame_s - _PROMISE_SLACK_S


def _tagged_duration_s(tag: str) -> float | None:
    """Seconds in Matroska's "00:00:10.000000000", or None."""
    parts = tag.split(":")
    try:
        hours, minutes, seconds = (float(part) for part in parts)
    except ValueError:
        return None
    return hours * 3600 + minutes * 60 + seconds


@dataclass(frozen=True)
class Bounds:
    """First frame and end of the video by its header alone, in seconds of the container."""

    start_s: float
    end_s: float


def indexed_bounds(video: OpenVideo, min_bytes: int) -> Bounds | None:
    """Where the video starts and ends, if this file is worth reading by its index.

    The header's word for the end is checked by reading the last group of pictures. None asks for a
    full scan.
    """
    stream, tb = video.stream, float(video.time_base)
    if video.source.num_bytes < min_bytes or video.source.container.name not in _INDEXED:
        return None
    if stream.start_time is None or not len(stream.index_entries):
        return None
    last = stream.index_entries[-1]
    if last.pos + last.size > video.source.num_bytes:
        return None  # cut off
    duration_s = float((stream.duration or 0) * video.time_base)
    if not stream.duration:
        duration_s = _tagged_duration_s(stream.metadata.get("DURATION", "")) or 0.0
    start_s = stream.start_time * tb
    tail = _Seen()
    try:
        for packet in _land(video, start_s + duration_s) or ():
            if packet.size:
                tail.add(packet)
    except av.error.FFmpegError:
        return None
    end_s = _end_pts(tail, sorted(tail.pts), video) * tb
    ends_early = end_s < start_s + duration_s - 2 * video.frame_s - _PROMISE_SLACK_S
    return Bounds(start_s, end_s) if tail.pts and duration_s and not ends_early else None


def scan_around(video: OpenVideo, times_s: Sequence[float], bounds: Bounds) -> Scan | None:
    """Read only the packets around `times_s` (ascending, the container's seconds).

    None where the frame shown at one of them is not certain: then only a full scan tells. Certain
    means: reading began at a keyframe shown by then, and went on to a packet decoded after it (pts
    >= dts, so nothing shown earlier can follow).
    """
    seen = _Seen()
    tb = float(video.time_base)
    places: set[tuple[int, int | None]] = set()  # of packets seen: a seek may land on known ground
    packets: Iterator[Packet[VideoStream]] | None = None
    reached_s = -math.inf  # the dts up to which packets are known without a hole since the seek
    try:
        for t in (max(t, bounds.start_s) for t in times_s):
            if packets is None or t - reached_s > _CONTINUE_S:
                packets = _land(video, t)
                if packets is None:
                    return None
                reached_s = -math.inf
            while reached_s <= t:
                packet = next(packets, None)
                if packet is None or (not packet.size and packet.pts is None):
                    reached_s = math.inf  # the end, with PyAV's flush packet
                    break
                if packet.pts is None or (packet.dts is not None and packet.pts < packet.dts):
                    return None
                if (packet.pts, packet.pos) not in places:
                    places.add((packet.pts, packet.pos))
                    seen.add(packet)
                if packet.dts is not None:  # Matroska has none for the first B-frames
                    reached_s = packet.dts * tb
    except av.error.FFmpegError:
        return None
    seen.keys.sort()
    seen.end_pts = round(bounds.end_s / tb)
    scan = _judge(video, seen)
    return scan if scan.is_indexed else None


def _land(video: OpenVideo, t: float) -> Iterator[Packet[VideoStream]] | None:
    """Packets from the last keyframe shown by `t` on; None if seeking does not land on one."""
    tb = float(video.time_base)
    video.is_fresh = False
    for back_s in (0.0, 2.0):
        video.container.seek(math.floor((t - back_s) / tb), stream=video.stream, backward=True)
        packets = video.container.demux(video.stream)
        first = next(packets, None)
        if (
            first is not None
            and first.is_keyframe
            and first.pts is not None
            and first.pts * tb <= t + ROUNDING_S
        ):
            return itertools.chain((first,), packets)
    return None
