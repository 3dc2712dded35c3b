"""How frames travel from the decode stage to the caption stage: uint8 bytes and a shape in an Arrow
row.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Frames = npt.NDArray[np.uint8]  # [T, H, W, 3]


def pack(frames: Frames, times_s: npt.NDArray[np.float64]) -> dict[str, Any]:
    """The frame columns of a row. `frames` uint8 [T, H, W, 3], `times_s` [T]."""
    contiguous = np.ascontiguousarray(frames)
    return {
        "frames": contiguous.data.cast("B"),
        "frames_shape": list(contiguous.shape),
        "times_s": times_s.tolist(),
    }


NO_FRAMES: Mapping[str, Any] = {"frames": None, "frames_shape": None, "times_s": None}


def unpack(table: pa.Table, row: int) -> tuple[Frames, npt.NDArray[np.float64]]:
    """Frames [T, H, W, 3] and times [T] of one row. The frames are a read-only view of the table's
    memory.
    """
    shape = table["frames_shape"][row].as_py()
    buffer = table["frames"][row].as_buffer()
    frames = np.frombuffer(buffer, dtype=np.uint8).reshape(shape)
    return frames, np.asarray(table["times_s"][row].as_py(), dtype=np.float64)
