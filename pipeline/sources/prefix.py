"""A folder or object prefix, and globs, on any fsspec protocol."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fsspec.utils import glob_translate  # pyright: ignore

from pipeline.config import StorageOptions
from pipeline.errors import SourceError
from pipeline.sources.video_ref import VideoRef, size_of, source_version
from pipeline.storage import absolute, is_local, open_filesystem, protocol_of


def list_prefix(prefix: str, globs: Sequence[str], storage: StorageOptions) -> Iterator[VideoRef]:
    """Stream the files under `prefix` whose path below it matches one of `globs`.

    `video_id` is that path. The listing walks folder by folder and is never held as a whole.
    """
    try:
        fs, root = open_filesystem(prefix, storage)
    except (ValueError, ImportError, TypeError) as error:  # no such protocol, or no client for it
        raise SourceError(f"source.prefix: {prefix}: {error}") from error
    root = root.rstrip("/")
    wanted = _pattern(globs)
    found_folder, seen, matched = False, 0, 0
    for folder, _, files in _walk(fs, root, prefix):
        found_folder = True
        for name in sorted(files):
            path = f"{folder.rstrip('/')}/{name}"
            relative = path[len(root) :].lstrip("/")
            seen += 1
            if wanted.fullmatch(relative):
                matched += 1
                info = files[name]
                yield VideoRef(
                    uri=_uri(prefix, path),
                    video_id=relative,
                    size_bytes=size_of(info),
                    source_version=source_version(info),
                )
    if not found_folder:
        raise SourceError(f"source.prefix: there is no folder or prefix {prefix}")
    if not matched:
        raise SourceError(
            f"source.prefix: none of the {seen} files below {prefix} matches source.glob "
            f"({', '.join(globs)})"
        )


def covered_by_prefix(
    prefix: str, globs: Sequence[str], storage: StorageOptions
) -> Callable[[str], bool]:
    """Whether a URI is one that `list_prefix` yields when the file is there."""
    _, root = open_filesystem(prefix, storage)
    below, wanted = _uri(prefix, root).rstrip("/") + "/", _pattern(globs)
    return lambda uri: uri.startswith(below) and bool(wanted.fullmatch(uri[len(below) :]))


def _pattern(globs: Sequence[str]) -> re.Pattern[str]:
    pattern = "|".join(f"(?:{glob_translate(glob)})" for glob in globs)
    return re.compile(pattern, re.IGNORECASE)  # cameras write .MP4


def _uri(prefix: str, path: str) -> str:
    """One spelling of a path that the filesystem of `prefix` names."""
    return absolute(path) if is_local(prefix) else f"{protocol_of(prefix)}://{path.lstrip('/')}"


def _walk(fs: Any, root: str, prefix: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    try:
        if not fs.isdir(root):
            raise SourceError(f"source.prefix: there is no folder or prefix {prefix}")
        yield from fs.walk(root, detail=True, on_error="raise")
    except SourceError:
        raise
    except Exception as error:
        # Credentials, endpoint, permissions, in the words of whichever client it is (botocore's
        # errors are no OSErrors): the source, not one video.
        raise SourceError(f"source.prefix: cannot list {prefix}: {error}") from error
