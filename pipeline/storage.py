"""How the pipeline reaches files: every URI of a run goes through `open_filesystem`.

One fsspec filesystem serves reading videos, reading manifests and writing the dataset, so there is
one place for credentials (`storage:` in the config), for asking again (`pipeline.remote`) and for
errors: OSErrors only, without secrets.

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

from pipeline.secrets import signed

if TYPE_CHECKING:
    import pyarrow.fs

    from pipeline.config import StorageOptions

PART_BYTES = 1 << 18  # one read of an archive for a video in it
RETRY = "retry_s"  # beside the protocols in `storage`: how long a call may go on failing
RETRY_S = 300.0  # if it is not set
NO_QUERIES: Mapping[str, str] = {}


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


def address_of(uri: str, queries: Mapping[str, str]) -> str:
    """Where to read a video of a row now: rows are without what signs an address."""
    return signed(uri, queries.get(shard_of(uri) or uri))


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
    """The fsspec filesystem of `uri` and the path inside it. A remote one is asked again while it
    fails in a way that passes, for as long as `storage` says.
    """
    if is_local(uri):
        return LocalFileSystem(auto_mkdir=True), absolute(uri)
    from pipeline.remote import RemoteFileSystem  # noqa: PLC0415  # see above

    protocol = protocol_of(uri)
    aliases = cast(Any, fsspec).get_filesystem_class(protocol).protocol  # ("s3", "s3a"), or a text
    names = (protocol, *((aliases,) if isinstance(aliases, str) else aliases))
    given = next((storage[name] for name in names if name in storage), {})
    fs = RemoteFileSystem(protocol, given, patience_of(storage))
    return fs, str(fs.raw._strip_protocol(uri))  # the only spelling fsspec offers for this


def open_file(uri: str, storage: StorageOptions, block_bytes: int = 1 << 20) -> BinaryIO:
    """A file for reading from its start on; `block_bytes` come with one request."""
    if is_local(uri):
        return Path(absolute(uri)).open("rb")
    fs, path = open_filesystem(uri, storage)
    return cast(BinaryIO, io.BufferedReader(fs.open(path, block_bytes=block_bytes), 1 << 16))


def with_patience(storage: StorageOptions, most_s: float) -> StorageOptions:
    """The same storage, asked again for at most `most_s`."""
    return {**storage, RETRY: min(most_s, patience_of(storage))}


def patience_of(storage: StorageOptions) -> float:
    """For how many seconds a call may go on failing."""
    return storage.get(RETRY, RETRY_S)


def arrow_filesystem(uri: str, storage: StorageOptions) -> tuple[pyarrow.fs.FileSystem, str]:
    """The same as a pyarrow filesystem, which Parquet writers and Ray Data take."""
    import pyarrow.fs  # noqa: PLC0415  # see above

    if is_local(uri):
        return pyarrow.fs.LocalFileSystem(), absolute(uri)
    from pipeline.arrow_storage import StorageHandler  # noqa: PLC0415  # see above

    fs, path = open_filesystem(uri, storage)
    return pyarrow.fs.PyFileSystem(StorageHandler(fs)), path


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

    Raises OSErrors only, also at the end of the block: a decoder may take bytes that did not come
    for the end of the video, and show what it has.
    """
    archive = shard_of(uri) if uri.startswith("tar://") else None
    if archive is not None and part is None:
        raise ValueError(f"{uri}: its place in the archive is not given")
    if is_local(archive or uri):
        if part is None:
            yield absolute(uri)
            return
        with Path(absolute(archive or uri)).open("rb") as file:
            yield cast(BinaryIO, io.BufferedReader(_Part(file, *part), PART_BYTES))
        return
    from pipeline.remote import Patience  # noqa: PLC0415  # see above

    fs, path = open_filesystem(archive or uri, storage)
    with fs.open(path, Patience(fs.retry_s)) as file:
        try:
            whole = None if part is None else io.BufferedReader(_Part(file, *part), PART_BYTES)
            yield cast(BinaryIO, whole or file)
        except Exception:
            if file.failure is None:
                raise
        if file.failure is not None:
            raise file.failure


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
