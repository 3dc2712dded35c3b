"""The default reader: PyAV. Plans which frames are shown at the asked times, brings them, and
deals with damage.

Indexed files (nearly all): packet scan, then seek and decode only what is needed. Others (no
usable times: raw streams, clocks that jump, AVI with B-frames): decode twice from the start, once
to count and once to keep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import av.error
from av.video.frame import VideoFrame

from lvspec.video.errors import VideoError
from lvspec.video.pictures import Canvas
from lvspec.video.pyav_decode import Fetcher, decode_on
from lvspec.video.pyav_open import OpenVideo
from lvspec.video.pyav_scan import MIN_INDEXED_BYTES, Scan, indexed_bounds, scan_all, scan_around
from lvspec.video.sampling import (
    Plan,
    check_distinct,
    nearest_clean,
    plan_span,
    shown_at,
    shown_times,
)
from lvspec.video.source import VideoSource, open_source
from lvspec.video.types import Allocate, Clip, FrameSpec, VideoInfo, on_heap


@dataclass(frozen=True)
class _Job:
    """One call of the reader."""

    video: OpenVideo
    spec: FrameSpec
    start_s: float | None
    end_s: float | None
    allocate: Allocate

    def canvas(self) -> Canvas:
        return Canvas(self.spec, self.allocate)

    def plan(self, first_s: float, end_s: float) -> Plan:
        """Plan for a video that shows its first frame at `first_s` and ends at `end_s`."""
        zero_s = self.video.zero_s
        return plan_span(self.spec.count, (first_s, end_s), zero_s, self.start_s, self.end_s)

    def clip(self, canvas: Canvas, plan: Plan, fps: float, distinct: int) -> Clip:
        assert canvas.frames is not None  # every caller has put its pictures
        info = VideoInfo(
            decoder="pyav",
            codec=self.video.codec_name,
            container=self.video.source.container.name,
            fps=fps,
            duration_s=plan.video_end_s - plan.video_start_s,
            width=canvas.displayed[0],
            height=canvas.displayed[1],
            rotation=canvas.rotation,
            start_s=plan.start_s - plan.zero_s,
            end_s=plan.end_s - plan.zero_s,
            num_frames_requested=self.spec.count,
            num_frames_decoded=distinct,
            damaged=self.video.has_met_damage,
        )
        return Clip(canvas.frames, plan.asked_s - plan.start_s, info)


def read(
    source: VideoSource,
    spec: FrameSpec,
    start_s: float | None = None,
    end_s: float | None = None,
    allocate: Allocate = on_heap,
    min_indexed_bytes: int = MIN_INDEXED_BYTES,
) -> Clip:
    """As lvspec.video.read_clip. Files from `min_indexed_bytes` on are read by their index where
    they have one.
    """
    with open_source(source) as opened, OpenVideo(opened) as video:
        job = _Job(video, spec, start_s, end_s, allocate)
        try:
            return _read(job, min_indexed_bytes)
        except VideoError as error:
            if error.code != "decode_failed" or video.num_clean or not video.is_strict:
                raise
            # Not one clean frame: rather a habit of the encoder (an extra message that strict
            # decoding fails on, with every frame) than damage. Once more, and marked.
            video.relax()
            return _read(job, min_indexed_bytes)


def _read(job: _Job, min_indexed_bytes: int) -> Clip:
    video, tb = job.video, float(job.video.time_base)
    bounds = indexed_bounds(video, min_indexed_bytes)
    if bounds is not None:
        plan = job.plan(bounds.start_s, bounds.end_s)
        scan = scan_around(video, plan.asked_s.tolist(), bounds)
        if scan is not None:
            filled = _fill(job, scan, plan)
            if not filled.broken:  # else the whole scan must say what lies around the damage
                fps = float(video.stream.average_rate or 0)
                return job.clip(filled.canvas, plan, fps, len(set(filled.chosen)))
    scan = scan_all(video)
    if not scan.is_indexed:
        return _read_in_order(job, scan)
    plan = job.plan(scan.pts[0] * tb, scan.end_pts * tb)
    return _read_indexed(job, scan, plan)


# ---- files whose frames are found by their times


@dataclass(frozen=True)
class _Filled:
    """A canvas, the pts chosen per slot, and the slots whose frame did not come clean."""

    canvas: Canvas
    chosen: list[int]
    broken: list[int]


def _fill(job: _Job, scan: Scan, plan: Plan) -> _Filled:
    times = [pts * float(job.video.time_base) for pts in scan.pts]
    chosen = [scan.pts[shown_at(times, t)] for t in plan.asked_s]
    canvas = job.canvas()
    clean = _bring(job, scan, chosen, canvas)
    return _Filled(canvas, chosen, [i for i, pts in enumerate(chosen) if pts not in clean])


def _read_indexed(job: _Job, scan: Scan, plan: Plan) -> Clip:
    filled = _fill(job, scan, plan)
    chosen, broken = list(filled.chosen), filled.broken
    if broken:
        job.video.has_met_damage = True
        for slot, pts in _replace(job, scan, plan, broken).items():
            chosen[slot] = pts
        clean = _bring(job, scan, chosen, filled.canvas)
        found = f"{len(broken)} of {job.spec.count} asked frames are broken"
        check_distinct(len(set(filled.chosen)), len(clean & set(chosen)), found)
        if any(pts not in clean for pts in chosen):
            what = f"{found} and have no clean frame within {plan.near_s:.1f} s"
            raise VideoError("decode_failed", what)
    fps = len(scan.pts) / (plan.video_end_s - plan.video_start_s)
    return job.clip(filled.canvas, plan, fps, len(set(chosen)))


def _bring(job: _Job, scan: Scan, chosen: Sequence[int], canvas: Canvas) -> set[int]:
    """Put the frames with pts `chosen` (one per slot) on the canvas. Returns those that came
    clean.
    """
    slots: dict[int, list[int]] = defaultdict(list)
    for slot, pts in enumerate(chosen):
        slots[pts].append(slot)

    def keep(pts: int, frame: VideoFrame, clean: bool) -> None:
        if clean:
            canvas.put(slots[pts][0], frame, job.video.aspect)

    fetcher = Fetcher(job.video, scan, keep)
    fetcher.fetch(sorted(slots))
    clean = {pts for pts, is_clean in fetcher.clean.items() if is_clean}
    for pts in clean:
        for slot in slots[pts][1:]:
            canvas.repeat(slot, of=slots[pts][0])
    return clean


def _replace(job: _Job, scan: Scan, plan: Plan, broken: Sequence[int]) -> dict[int, int]:
    """For each broken slot the pts of the clean frame nearest to its time, where one is near
    enough.
    """
    tb = float(job.video.time_base)
    clean: set[int] = set()
    done_s = float("-inf")
    for slot in broken:
        low, high = plan.asked_s[slot] - plan.near_s, plan.asked_s[slot] + plan.near_s
        if high > done_s:
            clean |= _clean_between(job.video, scan, round(max(low, done_s) / tb), round(high / tb))
            done_s = high
    ordered = sorted(clean)
    times = [pts * tb for pts in ordered]
    nearest = {slot: nearest_clean(times, plan.asked_s[slot], plan.near_s) for slot in broken}
    return {slot: ordered[i] for slot, i in nearest.items() if i is not None}


def _clean_between(video: OpenVideo, scan: Scan, low: int, high: int) -> set[int]:
    """pts of frames that decode clean between `low` and `high`."""
    before = [key for key in scan.keys if key <= low]
    try:
        video.container.seek(
            before[-1] if before else scan.keys[0], stream=video.stream, backward=True
        )
    except av.error.FFmpegError:
        video.reopen()
    found: set[int] = set()
    for frame, clean in decode_on(video):
        if frame.pts is None:
            continue
        if frame.pts > high:
            break
        if clean:
            found.add(frame.pts)
    return found


# ---- files whose frames are only found by decoding from the start


def _read_in_order(job: _Job, scan: Scan) -> Clip:
    video, tb = job.video, float(job.video.time_base)
    video.reopen()
    seen = [(frame.pts, clean) for frame, clean in decode_on(video)]
    if not any(clean for _, clean in seen):
        what = f"{scan.num_packets} packets, {len(seen)} pictures, none of them clean"
        raise VideoError("decode_failed", what)
    num_pictures = f"{len(seen)} pictures from {scan.num_packets} packets"
    check_distinct(
        scan.num_packets, len(seen), num_pictures
    )  # lost ones would shift all later times
    raw = [None if pts is None else pts * tb for pts, _ in seen]
    times = shown_times(raw, video.frame_s, scan.made_up_times)
    steps = [b - a for a, b in pairwise(times) if b > a]
    plan = job.plan(times[0], times[-1] + (median(steps) if steps else video.frame_s))
    shown = [shown_at(times, t) for t in plan.asked_s]
    chosen = _clean_instead(shown, times, [clean for _, clean in seen], plan)
    canvas = job.canvas()
    slots: dict[int, list[int]] = defaultdict(list)
    for slot, i in enumerate(chosen):
        slots[i].append(slot)
    video.reopen()
    for i, (frame, _) in enumerate(decode_on(video)):
        if i in slots:
            canvas.put(slots[i][0], frame, job.video.aspect)
            for slot in slots[i][1:]:
                canvas.repeat(slot, of=slots[i][0])
        if i >= max(slots):
            break
    fps = len(times) / (plan.video_end_s - plan.video_start_s)
    return job.clip(canvas, plan, fps, len(slots))


def _clean_instead(
    shown: Sequence[int], times: Sequence[float], clean: Sequence[bool], plan: Plan
) -> list[int]:
    """`shown`, with broken frames replaced by the nearest clean one. Raises VideoError
    decode_failed without one.
    """
    clean_at = [i for i, is_clean in enumerate(clean) if is_clean]
    clean_times = [times[i] for i in clean_at]
    chosen: list[int] = []
    for i, t in zip(shown, plan.asked_s, strict=True):
        near = None if clean[i] else nearest_clean(clean_times, t, plan.near_s)
        if not clean[i] and near is None:
            raise VideoError(
                "decode_failed",
                f"no clean frame within {plan.near_s:.1f} s of {t - plan.zero_s:.2f} s",
            )
        chosen.append(i if near is None else clean_at[near])
    check_distinct(
        len(set(shown)), len(set(chosen)), f"{clean.count(False)} of {len(clean)} frames are broken"
    )
    return chosen
