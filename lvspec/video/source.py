"""Where the bytes come from: a local path or a seekable binary file object, opened and sniffed in
one place.

Local files are opened here, by Python, and reach FFmpeg as file objects with every one of FFmpeg's
own protocols switched off: whatever a file says inside, nothing else can be opened through it.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from lvspec.video.errors import VideoError
from lvspec.video.sniff import HEAD_BYTES, Container, sniff

VideoSource = str | os.PathLike[str] | BinaryIO


@dataclass(frozen=True)
class OpenSource:
    """A file at position 0, its size in bytes and what it is."""

    file: BinaryIO
    num_bytes: int
    container: Container


@contextmanager
def open_source(source: VideoSource) -> Generator[OpenSource]:
    """Open a path (closed again afterwards) or take a file object (left open) and sniff it.

    Raises VideoError missing_file, or what `sniff` raises; ValueError for a file object that
    cannot seek.
    """
    if isinstance(source, (str, os.PathLike)):
        try:
            file = Path(source).open("rb")  # noqa: SIM115  # closed below; only opening is tried
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise VideoError("missing_file", f"{os.fspath(source)}: {error.strerror}") from error
        with file:
            yield _sniffed(file)
    else:
        if not source.seekable():
            raise ValueError(
                "the file object must be seekable: an index may stand at a video's end"
            )
        yield _sniffed(source)


def _sniffed(file: BinaryIO) -> OpenSource:
    num_bytes = file.seek(0, io.SEEK_END)
    file.seek(0)
    head = file.read(HEAD_BYTES)
    file.seek(0)
    return OpenSource(file, num_bytes, sniff(head))


@contextmanager
def local_path(source: VideoSource) -> Generator[str]:
    """A path to the same bytes, for decoders that cannot read file objects; those are copied to a
    temporary file.
    """
    if isinstance(source, (str, os.PathLike)):
        yield os.fspath(source)
        return
    with tempfile.TemporaryDirectory(prefix="lvspec-video-") as folder:
        path = Path(folder) / "video"
        source.seek(0)
        with path.open("wb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
        yield str(path)
