"""A folder or object prefix with globs, or a single file, on any allowed protocol."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fsspec.utils import glob_translate  # pyright: ignore  # fsspec brings no types

from pipeline.config import StorageOptions
from pipeline.errors import SourceError
from pipeline.secrets import scrub
from pipeline.sources.listing import list_files
from pipeline.sources.look_up import look_up
from pipeline.sources.video_ref import VideoRef, size_of, source_version
from pipeline.storage import absolute, is_local, open_filesystem, protocol_of
from pipeline.transient import StorageUnavailableError

WEB = ("http", "https")
Wanted = Callable[[str], bool]


def list_prefix(prefix: str, globs: Sequence[str], storage: StorageOptions) -> Iterator[VideoRef]:
    """Stream the files under `prefix` whose path below it matches one of `globs`; a prefix that is
    itself a file gives that file.

    `video_id` is the path below the prefix. The listing is never held as a whole.
    """
    refs = _list(prefix, _matcher(globs), ", ".join(globs), storage)
    # A web server's folder page names files only.
    return look_up(refs, storage) if protocol_of(prefix) in WEB else refs


def covered_by_prefix(
    prefix: str, globs: Sequence[str], storage: StorageOptions
) -> Callable[[str], bool]:
    """Whether a URI is one that `list_prefix` yields when the file is there."""
    _, root = open_filesystem(prefix, storage)
    top = _uri(prefix, root.rstrip("/"))
    below, wanted = f"{top}/", _matcher(globs)
    return lambda uri: uri == top or (uri.startswith(below) and wanted(uri[len(below) :]))


def _list(prefix: str, wanted: Wanted, globs: str, storage: StorageOptions) -> Iterator[VideoRef]:
    seen = matched = 0
    try:
        fs, root = open_filesystem(prefix, storage)
        root = root.rstrip("/") or "/"
        if _is_file(fs, root, prefix):
            yield _ref(prefix, root, root.rsplit("/", 1)[-1], fs.info(root))
            return
        for path, info in list_files(fs, root):
            seen += 1
            relative = path[len(root) :].lstrip("/")
            if wanted(relative):
                matched += 1
                yield _ref(prefix, path, relative, info)
        found = bool(seen) or (protocol_of(prefix) not in WEB and bool(fs.info(root)))
    except StorageUnavailableError as error:
        said = f"source.prefix: cannot list {scrub(prefix)}: {error}"
        raise StorageUnavailableError(said) from None
    except Exception as error:  # credentials, permissions: of the source, not of one video
        if seen or not isinstance(error, FileNotFoundError):
            raise SourceError(f"source.prefix: cannot list {prefix}: {error}") from error
        found = False
    if not found:
        raise SourceError(f"source.prefix: there is no folder, prefix or file {prefix}")
    if not matched:
        files = "1 file" if seen == 1 else f"{seen} files"
        raise SourceError(
            f"source.prefix: none of the {files} below {prefix} matches source.glob ({globs})"
        )


def _is_file(fs: Any, root: str, prefix: str) -> bool:
    if prefix.endswith("/"):
        return False
    if protocol_of(prefix) in WEB:  # all is a file to its client; a page with links is not
        try:
            return not fs.ls(root)
        except ValueError:  # no text
            return True
    return fs.info(root)["type"] == "file"


def _ref(prefix: str, path: str, video_id: str, info: Mapping[str, Any] | None) -> VideoRef:
    return VideoRef(
        uri=_uri(prefix, path),
        video_id=video_id,
        size_bytes=size_of(info),
        source_version=source_version(info),
    )


def _matcher(globs: Sequence[str]) -> Wanted:
    pattern = "|".join(f"(?:{glob_translate(glob)})" for glob in globs)
    wanted = re.compile(pattern, re.IGNORECASE)  # cameras write .MP4
    return lambda relative: wanted.fullmatch(relative) is not None


def _uri(prefix: str, path: str) -> str:
    """One spelling of a path that the filesystem of `prefix` names."""
    if is_local(prefix):
        return absolute(path)
    return path if "://" in path else f"{protocol_of(prefix)}://{path.lstrip('/')}"
