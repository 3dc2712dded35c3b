"""How the pipeline reaches files: every URI of a run goes through `open_filesystem`.

One fsspec filesystem serves reading videos, reading manifests and writing the dataset, so there is
one place for credentials (`storage:` in the config) and one set of errors.

The decoder process imports this, and starts often: neither pyarrow nor pydantic comes with it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import fsspec  # pyright: ignore[reportMissingTypeStubs]
from fsspec.implementations.local import LocalFileSystem  # pyright: ignore[reportMissingTypeStubs]

if TYPE_CHECKING:
    import pyarrow.fs

    from pipeline.config import StorageOptions

BLOCK_BYTES = 4 * 1024 * 1024  # one ranged read of a remote video
MAX_BLOCKS = 16  # kept per open video: an index at the end of the file does not evict the frames


def protocol_of(uri: str) -> str:
    """`s3://bucket/key` -> `s3`; a plain path -> `file`."""
    return uri.split("://", 1)[0].lower() if "://" in uri else "file"


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
    options = {"use_listings_cache": False, **storage.get(protocol, {})}
    fs: Any = cast(Any, fsspec).filesystem(protocol, **options)
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


@contextmanager
def open_video(uri: str, storage: StorageOptions) -> Generator[str | BinaryIO]:
    """A video as a decoder wants it: the path of a local file, else a seekable file that caches its
    blocks.
    """
    fs, path = open_filesystem(uri, storage)
    if is_local(uri):
        yield path
        return
    with _open_remote(fs, path) as file:
        yield file
