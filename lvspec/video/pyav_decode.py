"""Decoding: frames one after another, each with a verdict on whether it can be trusted."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import av.error
from av.video.frame import VideoFrame

from lvspec.video.pyav_open import OpenVideo
from lvspec.video.pyav_scan import Scan

Frame = tuple[VideoFrame, bool]
"""A decoded frame and whether it is clean."""

_CANNOT_SKIP: Final = frozenset(("libdav1d", "av1", "libaom-av1"))
_MIN_SKIPPED: Final = 8  # a seek pays if it saves decoding this many frames


def decode_on(video: OpenVideo, wanted: Collection[int] | None = None) -> Iterator[Frame]:
    """Frames from where the file stands to its end.

    wanted  if given, frames of other pts that no frame refers to are skipped

    A packet that does not decode, or a frame in which the decoder hid damage, makes everything
    after it doubtful up to the next keyframe, and so is what comes before the first keyframe:
    those have clean=False. (The first keyframe is known by its packet: behind an edit list its
    frame is decoded and never shown.)
    """
    video.is_fresh = False
    codec, clean, has_begun = video.codec, False, False
    skips = wanted is not None and codec.name not in _CANNOT_SKIP
    packets = video.container.demux(video.stream)
    while True:
        try:
            packet = next(packets, None)
        except av.error.FFmpegError:
            # Cut off; the frames still inside the decoder come out below.
            packet, clean, video.has_met_damage = None, False, True
        if packet is not None and not packet.size and packet.pts is not None:
            continue  # AVI's "show the last frame again"; given to a decoder it would mean the end
        if packet is not None and wanted is not None and skips:
            codec.skip_frame = "DEFAULT" if packet.pts is None or packet.pts in wanted else "NONREF"
        if packet is not None and packet.is_keyframe and not has_begun:
            clean = has_begun = True
        try:
            frames: Sequence[VideoFrame] = codec.decode(packet)
        except av.error.EOFError:
            return
        except av.error.FFmpegError:
            frames, clean = (), False
            video.has_met_damage = True
        for frame in frames:
            if frame.is_corrupt:
                clean = False
                video.has_met_damage = True
            elif frame.key_frame:
                clean = True
            video.num_clean += clean
            yield frame, clean
        if packet is None or (not packet.size and packet.pts is None):
            codec.skip_frame = "DEFAULT"
            return


@dataclass
class _Run:
    """Frames still to come after a seek, and the pts of the last one taken."""

    frames: Iterator[Frame]
    last_pts: int | None = None


Keep = Callable[[int, VideoFrame, bool], None]
"""Called with (pts, frame, clean) for each wanted frame as it comes by."""


class Fetcher:
    """Brings frames by pts out of an indexed file: seek to the keyframe, decode on, or just decode
    on where that is cheaper.

    A seek may land too late, and leading pictures of an open group refer to the group before: then
    one keyframe earlier is tried, and at last the start of the file.
    """

    def __init__(self, video: OpenVideo, scan: Scan, keep: Keep) -> None:
        self._video, self._scan, self._keep = video, scan, keep
        self._run: _Run | None = None
        self.clean: dict[int, bool] = {}  # per pts that was found

    def fetch(self, wanted: Sequence[int]) -> None:
        """Take every pts of `wanted` (ascending); what came is in `self.clean`."""
        targets = frozenset(wanted)
        from_start_helps = True
        for pts in wanted:
            if pts in self.clean:
                continue
            self._fetch_one(pts, targets)
            if pts not in self.clean and from_start_helps:
                self._video.reopen()
                self._run = _Run(decode_on(self._video, targets))
                self._advance(self._run, pts, targets)
                from_start_helps = pts in self.clean
        self._video.codec.skip_frame = "DEFAULT"

    def _fetch_one(self, pts: int, targets: frozenset[int]) -> None:
        keys = self._scan.keys
        nearest = bisect_right(keys, pts) - 1
        for back in range(4):
            key = max(0, nearest - back)
            if back or not self._can_read_on(pts, keys[key]):
                self._run = self._seek(keys[key], targets)
            if self._run is None:
                return
            self._advance(self._run, pts, targets)
            if self.clean.get(pts) or key == 0 or (back and pts in self.clean):
                return  # found; or broken with a group's lead as well as without

    def _can_read_on(self, pts: int, key: int) -> bool:
        run = self._run
        if run is None or run.last_pts is None or run.last_pts >= pts:
            return False
        between = bisect_left(self._scan.pts, key) - bisect_right(self._scan.pts, run.last_pts)
        return key <= run.last_pts or between < _MIN_SKIPPED

    def _seek(self, key: int, targets: frozenset[int]) -> _Run | None:
        try:
            self._video.container.seek(key, stream=self._video.stream, backward=True)
        except av.error.FFmpegError:
            return None
        return _Run(decode_on(self._video, targets))

    def _advance(self, run: _Run, pts: int, targets: frozenset[int]) -> None:
        """Decode up to `pts`, keeping wanted frames on the way; a clean picture replaces a
        doubtful one.
        """
        for frame, clean in run.frames:
            if frame.pts is None:
                continue
            run.last_pts = frame.pts
            if frame.pts in targets and not self.clean.get(frame.pts, False):
                self._keep(frame.pts, frame, clean)
                self.clean[frame.pts] = clean
            if frame.pts >= pts:
                return
        self._run = None  # the end of the file: a seek is needed before anything more comes
