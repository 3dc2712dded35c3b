"""Opening a container with PyAV: the one demuxer allowed, the right video stream, limits set
before anything is decoded.
"""

from __future__ import annotations

from fractions import Fraction
from types import TracebackType
from typing import Any, Final, cast

import av
import av.error
import av.logging
from av.container import InputContainer
from av.stream import Discard, Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from lvspec.video.errors import VideoError
from lvspec.video.source import OpenSource
from lvspec.video.types import MAX_SOURCE_PIXELS

BUFFER_BYTES: Final = (
    1 << 18
)  # per read of the file object: a range request on object storage, a page-cache copy on disk

# PyAV 19 dropped the keyword and always replaces what is no UTF-8; below, a Windows tag would make
# the file unreadable.
_METADATA: Final[dict[str, Any]] = (
    {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
)


class OpenVideo:
    """An opened file and its video stream. `reopen` starts again from byte 0: some files only read
    right that way.
    """

    def __init__(self, source: OpenSource) -> None:
        self.source = source
        self.is_fresh = False
        self.has_met_damage = False  # set by whoever reads packets or decodes
        self.num_clean = 0  # frames that decoded clean
        self._may_be_strict = True
        self.container, self.stream = self._open()

    @property
    def codec(self) -> VideoCodecContext:
        return self.stream.codec_context

    @property
    def time_base(self) -> Fraction:
        return self.stream.time_base or Fraction(1, 1000)

    @property
    def frame_s(self) -> float:
        """Nominal duration of one frame in seconds; FFmpeg's guess, which knows field rates from
        frame rates.
        """
        rate = self.stream.guessed_rate or self.stream.average_rate or Fraction(25)
        return float(1 / rate) if rate > 0 else 0.04

    @property
    def aspect(self) -> float:
        """Width over height of one stored sample."""
        aspect = self.stream.sample_aspect_ratio
        return float(aspect) if aspect else 1.0

    @property
    def codec_name(self) -> str:
        """FFmpeg's name of the format ("av1"), not of the decoder that reads it ("libdav1d")."""
        return self.codec.codec.canonical_name

    @property
    def zero_s(self) -> float | None:
        """Where the player's clock starts, in the container's own seconds; None where the
        container has no clock.
        """
        start_time = cast("int | None", self.container.start_time)  # the stub knows no None
        return None if start_time is None else start_time / 1e6  # AV_TIME_BASE

    def reopen(self) -> None:
        if not self.is_fresh:
            self.close()
            self.container, self.stream = self._open()

    def relax(self) -> None:
        """Decode what strict decoding refuses, from the start, and call the file damaged."""
        self._may_be_strict, self.has_met_damage, self.is_fresh = False, True, False
        self.reopen()

    def close(self) -> None:
        self.container.close()

    def __enter__(self) -> OpenVideo:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> tuple[InputContainer, VideoStream]:
        av.logging.set_level(
            None
        )  # what matters comes back as exceptions and flags; a corpus would flood stderr
        self.source.file.seek(0)
        limits = {
            "max_pixels": str(MAX_SOURCE_PIXELS)
        }  # also while FFmpeg probes the streams by decoding
        demuxers = self.source.container.demuxers
        try:
            container = av.open(
                self.source.file,
                "r",
                options=limits,
                container_options={"format_whitelist": demuxers, "protocol_whitelist": "none"},
                buffer_size=BUFFER_BYTES,
                **_METADATA,
            )
        except (av.error.FFmpegError, ValueError) as error:
            name = self.source.container.name
            raise VideoError(
                "broken_container", f"{name} does not open: {type(error).__name__}"
            ) from error
        try:
            stream = _main_stream(container)
            _check_size(stream)
        except BaseException:
            container.close()
            raise
        for other in container.streams:
            if other.index != stream.index:
                other.discard = Discard.all
        # FFmpeg's H.264 marks frames in which it hid damage; its HEVC only says so when told to
        # fail on it.
        self.is_strict = self._may_be_strict and stream.codec_context.name == "hevc"
        strict = {"err_detect": "explode"} if self.is_strict else {}
        stream.codec_context.options = limits | strict
        stream.codec_context.thread_count = (
            1  # the corpus is the parallelism; threads only add latency and memory
        )
        self.is_fresh = True
        return container, stream


def _main_stream(container: InputContainer) -> VideoStream:
    """The stream a player shows. Covers are no video; a one-picture track (camera thumbnails)
    loses to a moving one.
    """
    moving = [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]
    if not moving:
        kinds = ["cover" if s.type == "video" else s.type for s in container.streams]
        what = f"no moving pictures, only {', '.join(kinds)}" if kinds else "no streams at all"
        raise VideoError("no_video_stream", what)
    decodable = [s for s in moving if _has_decoder(s)]
    if not decodable:
        raise VideoError("unsupported_codec", f"no decoder for stream tag {moving[0].codec_tag!r}")
    return max(
        decodable,
        key=lambda s: (s.frames != 1, bool(s.disposition & Disposition.default), -s.index),
    )


def _has_decoder(stream: VideoStream) -> bool:
    return cast("VideoCodecContext | None", stream.codec_context) is not None  # as above


def _check_size(stream: VideoStream) -> None:
    width, height = stream.codec_context.width, stream.codec_context.height
    if width * height > MAX_SOURCE_PIXELS:
        raise VideoError(
            "too_large", f"{width} x {height} pixels, the limit is {MAX_SOURCE_PIXELS}"
        )
