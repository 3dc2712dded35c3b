"""A decoder that does what a file's name says: stands where `read_clip` stands, in the real decoder
process. The trouble is real: C code that never returns, a process that aborts, memory that is
touched.
"""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lvspec.video import Clip, FrameSpec, read_clip

MB = 1 << 20
LEAKED: list[bytes] = []
BROKEN: list[bool] = []


def hang() -> None:
    ctypes.PyDLL(None).sleep(1_000_000)  # in C, and PyDLL does not let go of the GIL


def abort() -> None:
    os.abort()


def segfault() -> None:
    ctypes.string_at(0)


def leave() -> None:
    os._exit(7)


def grow() -> None:
    blocks: list[bytes] = []
    while True:
        blocks.append(b"x" * (16 * MB))


def huge() -> None:
    print(len(b"x" * (1 << 46)))  # malloc refuses


def leak() -> None:
    LEAKED.append(b"x" * (300 * MB))


def break_heap() -> None:
    """Nothing happens to this clip; the process dies of the next one."""
    BROKEN.append(True)


def odd() -> None:
    raise ValueError("no such thing as this file")


TROUBLE: dict[str, Callable[[], None]] = {
    f.__name__: f for f in (hang, abort, segfault, leave, grow, huge, leak, break_heap, odd)
}


def abort_each_time(folder: Path) -> None:
    with (folder / "runs").open("a") as runs:
        runs.write("run\n")
    os.abort()


def read(source: Any, spec: FrameSpec, **options: Any) -> Clip:
    """Read `<folder>/<trouble>_<anything>` with that trouble; other names are real videos."""
    path = Path(source)
    if BROKEN:
        os.abort()
    if path.stem.startswith("count"):
        abort_each_time(path.parent)
    trouble = TROUBLE.get(path.stem.rsplit("_", 1)[0])
    if trouble is not None:
        trouble()
        path = path.with_name("good.mp4")
    return read_clip(path, spec, **options)
