"""How the pipeline reaches files: every URI of a run goes through `open_filesystem`.

One fsspec filesystem serves reading videos, reading manifests and writing the dataset, so there is
one place for credentials (`storage:` in the config) and one set of errors.

The decoder process imports this, and starts often: neither pyarrow nor pydantic comes with it.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

# fsspec brings no types: not here, nor below
import fsspec  # pyright: ignore[reportMissingTypeStubs]
from fsspec.implementations.local import LocalFileSystem  # pyright: ignore[reportMissingTypeStubs]

if TYPE_CHECKING:
    import pyarrow.fs

    from pipeline.config import StorageOptions

PART_BYTES = 1 << 18  # one read of an archive for a video in it
BLOCK_BYTES = 4 * 1024 * 1024  # one ranged read of a remote video
MAX_BLOCKS = 16  # kept per open video: an index at the end of the file does not evict the frames


def protocol_of(uri: str) -> str:
    """`s3://bucket/key` -> `s3`; a plain path -> `file`."""
    return uri.split("://", 1)[0].lower() if "://" in uri else "file"


@cache
def client_problem(protocol: str) -> str | None:
    """Why files of a protocol cannot be reached at all: unknown, or its client is not installed."""
    try:
        cast(Any, fsspec).get_filesystem_class(protocol)
    except (ImportError, ValueError) as error:
        return str(error)
    return None


def tar_uri(member: str, shard: str) -> str:
    """A file inside a tar archive, as fsspec writes it."""
    return f"tar://{member}::{shard}"


def shard_of(uri: str) -> str | None:
    """The tar archive that a URI names, or names a member of; None for others."""
    if uri.startswith("tar://"):
        return uri.rpartition("::")[2]
    return uri if uri.lower().endswith(".tar") else None


def is_local(uri: str) -> bool:
    return protocol_of(uri) in ("file", "local")


def absolute(uri: str, base: str | None = None) -> str:
    """One spelling per file: an absolute path for local files, the URI itself otherwise.

    A relative path is meant from `base` (a local folder or a URI), or from the working directory.
    """
    if not is_local(uri):
        return uri
    path = uri.split("://", 1)[-1]
    if base is not None and not is_local(base) and not path.startswith(("/", "~")):
        return f"{base.rstrip('/')}/{path}"
    root = Path.cwd() if base is None else Path(absolute(base))
    return str((root / Path(path).expanduser()).absolute())


def open_filesystem(uri: str, storage: StorageOptions) -> tuple[Any, str]:
    """The fsspec filesystem of `uri` and the path inside it.

    Listings are never cached: the driver looks at folders that workers write to.
    """
    if is_local(uri):
        return LocalFileSystem(auto_mkdir=True), absolute(uri)
    protocol = protocol_of(uri)
    library = cast(Any, fsspec)
    aliases = library.get_filesystem_class(protocol).protocol  # a text, or several: ("s3", "s3a")
    names = (protocol, *((aliases,) if isinstance(aliases, str) else aliases))
    given = next((storage[name] for name in names if name in storage), {})
    fs: Any = library.filesystem(protocol, **{"use_listings_cache": False, **given})
    return fs, str(fs._strip_protocol(uri))  # the only spelling fsspec offers for this


def arrow_filesystem(uri: str, storage: StorageOptions) -> tuple[pyarrow.fs.FileSystem, str]:
    """The same as a pyarrow filesystem, which Parquet writers and Ray Data take."""
    import pyarrow.fs  # noqa: PLC0415  # see above

    if is_local(uri):
        return pyarrow.fs.LocalFileSystem(), absolute(uri)
    fs, path = open_filesystem(uri, storage)
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs)), path


def is_missing(error: FileNotFoundError) -> bool:
    """Is the file really not there? fsspec's web client says so of every failure, a refused
    connection included, and keeps the failure as the cause.
    """
    cause = error.__cause__
    if not isinstance(cause, TimeoutError) and not type(cause).__module__.startswith("aiohttp"):
        return True
    return getattr(cause, "status", None) in (404, 410)


def _open_remote(fs: Any, path: str) -> BinaryIO:
    """Raises OSError only: FileNotFoundError for what is not there, PermissionError, or others."""
    cache = {"cache_type": "blockcache", "cache_options": {"maxblocks": MAX_BLOCKS}}
    try:
        return fs.open(path, "rb", block_size=BLOCK_BYTES, **cache)
    except Exception as error:
        masked = isinstance(error, FileNotFoundError) and not is_missing(error)
        if isinstance(error, OSError) and not masked:
            raise
        cause = error.__cause__ if masked else error  # botocore's errors are no OSErrors
        kind = PermissionError if getattr(cause, "status", None) in (401, 403) else OSError
        raise kind(f"{type(cause).__name__}: {cause}") from error


def part_of(row: Mapping[str, Any]) -> tuple[int, int] | None:
    """Where the video of a row lies in its archive: (offset, size), for `open_video`."""
    offset = row.get("offset_bytes")
    return None if offset is None else (offset, row["size_bytes"])


@contextmanager
def open_video(
    uri: str, storage: StorageOptions, part: tuple[int, int] | None = None
) -> Generator[str | BinaryIO]:
    """A video as a decoder wants it: the path of a local file, else a seekable file that caches its
    blocks. `part` is where a video inside a tar archive lies: (offset, size) in bytes.
    """
    if uri.startswith("tar://"):
        if part is None:
            raise ValueError(f"{uri}: its place in the archive is not given")
        with _open_file(shard_of(uri) or uri, storage) as file:
            yield cast(BinaryIO, io.BufferedReader(_Part(file, *part), PART_BYTES))
    elif is_local(uri):
        yield absolute(uri)
    else:
        with _open_file(uri, storage) as file:
            yield file


def _open_file(uri: str, storage: StorageOptions) -> BinaryIO:
    fs, path = open_filesystem(uri, storage)
    return fs.open(path, "rb") if is_local(uri) else _open_remote(fs, path)


class _Part(io.RawIOBase):
    """Some bytes of a file as a file of their own."""

    def __init__(self, file: BinaryIO, offset: int, size: int) -> None:
        self._file, self._offset, self._size, self._at = file, offset, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._offset + self._at)
        data = self._file.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
