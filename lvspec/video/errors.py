"""The one exception of this package, and the table of its stable codes. Codes are data: they end
up in error rows, in retries by code and in dashboards, so a code is never renamed and never reused
for something else.
"""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, str]] = {
    "missing_file": "there is no such file, or it is a directory",
    "empty_file": "the file has no bytes",
    "not_a_video": "the first bytes belong to no known container",
    "refused_container": "a playlist, concat script, image or archive; never opened by a decoder",
    "broken_container": "a known container whose header or index cannot be read",
    "no_video_stream": "no moving picture inside (audio only, or audio with a cover)",
    "unsupported_codec": "the container opens, but this build has no decoder for the codec",
    "encrypted": "the pictures are encrypted",
    "too_large": "the picture is larger than MAX_SOURCE_PIXELS",
    "no_frames": "the video stream holds no packets at all",
    "decode_failed": "too few clean pictures near the asked times",
    "bad_span": "start_s and end_s are no part of this video",
}


class VideoError(Exception):
    """A video that cannot be read as asked. `code` is one of CODES; `message` says what was seen
    in this file.

    Errors of the storage itself (OSError from a file object's read) are not wrapped: they say
    nothing about the video, and the caller may want to try again.

    >>> import lvspec, io
    >>> lvspec.caption(lvspec.load(), io.BytesIO(b"no video"))
    Traceback (most recent call last):
        ...
    lvspec.video.errors.VideoError: not_a_video: ...
    """

    def __init__(self, code: str, message: str) -> None:
        if code not in CODES:
            raise ValueError(f"{code!r} is not one of {sorted(CODES)}")
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
