"""`VideoRef`: one clip that a source asks for, and how the state of its file is told apart from
another.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.secrets import signed

MISSING_VERSION = "missing"
UNKNOWN_VERSION = "unknown"  # storage did not answer
UNSEEN_VERSIONS = (MISSING_VERSION, UNKNOWN_VERSION)


@dataclass(frozen=True)
class VideoRef:
    """One clip: a span of one video. `start_s`/`end_s` are seconds from the start of the file, None
    = its ends. `offset_bytes` is where the video begins in its tar shard (None: it is a file of
    its own). `place` is where the source names it (`clips.csv:7`), for messages. `query` is that of
    a signed address: it comes and goes, serves for reading only and is never kept.
    """

    uri: str
    video_id: str
    start_s: float | None = None
    end_s: float | None = None
    prompt: str | None = None
    size_bytes: int | None = None
    offset_bytes: int | None = None
    source_version: str = MISSING_VERSION
    place: str | None = None
    query: str | None = None

    @property
    def address(self) -> str:
        """Where to read it now."""
        return signed(self.uri, self.query)


def source_version(info: Mapping[str, Any] | None) -> str:
    """Name the state of a file by what its storage says: the ETag where there is one, else size and
    mtime.

    `info` is what fsspec returns for one path; None means that the file is not there, so that a
    file that turns up later counts as changed.
    """
    if info is None:
        return MISSING_VERSION
    size = info.get("size")
    for key in ("ETag", "etag", "md5Hash", "md5", "content_md5"):
        if info.get(key):
            return f"size={size};etag={str(info[key]).strip(chr(34))}"
    for key in ("mtime", "LastModified", "Last-Modified", "last_modified", "updated"):
        if info.get(key):
            return f"size={size};mtime={info[key]}"
    return f"size={size}"


def size_of(info: Mapping[str, Any] | None) -> int | None:
    """Bytes of the file, where its storage says so."""
    size = None if info is None else info.get("size")
    return None if size is None else int(size)
