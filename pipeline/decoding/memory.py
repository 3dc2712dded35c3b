"""Memory that the decoder process fills and the decode stage reads: frames are not copied between
the two.

On Linux it is a memfd: it has no name that could be left behind, is freed when its last holder dies
however it dies, and does not count against the size of /dev/shm, which is small in containers.
Elsewhere it is a temporary file.
"""

import mmap
import os
import tempfile
from math import prod
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from lvspec.video import Allocate

Shape = tuple[int, int, int, int]  # [T, H, W, 3]


class FrameMemory:
    """Room for one clip's frames, for as long as the `with` block or an array from `read` lives."""

    def __enter__(self) -> "FrameMemory":
        if hasattr(os, "memfd_create"):
            self._fd = os.memfd_create("lvspec-frames", os.MFD_CLOEXEC)
            self.path = f"/proc/{os.getpid()}/fd/{self._fd}"
        else:
            self._fd, self.path = tempfile.mkstemp(prefix="lvspec-frames-")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)
        if not self.path.startswith("/proc/"):
            Path(self.path).unlink()

    def read(self, shape: Shape) -> npt.NDArray[np.uint8]:
        """The frames that were written: a read-only view, uint8 [T, H, W, 3]."""
        mapped = mmap.mmap(self._fd, prod(shape), access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, np.uint8).reshape(shape)


def writer(path: str) -> Allocate:
    """For the decoder process: an allocator in the memory behind `path`."""

    def allocate(shape: Shape) -> npt.NDArray[np.uint8]:
        num_bytes = prod(shape)
        with Path(path).open("r+b") as file:
            file.truncate(num_bytes)
            mapped = mmap.mmap(file.fileno(), num_bytes)
        return np.frombuffer(mapped, np.uint8).reshape(shape)

    return allocate
