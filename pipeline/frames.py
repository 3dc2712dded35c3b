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


def to_table(row: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """A table of one row that holds the row's `frames` (any buffer, or None) where they are.

    `Table.from_pylist` would copy them.
    """
    table = pa.Table.from_pylist([{**row, "frames": None}], schema=schema)
    if row["frames"] is None:
        return table
    frames = pa.py_buffer(row["frames"])
    offsets = pa.py_buffer(np.array([0, frames.size], np.int64))
    column = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, frames])
    index = schema.get_field_index("frames")
    return table.set_column(index, schema.field(index), column)


NO_FRAMES: Mapping[str, Any] = {"frames": None, "frames_shape": None, "times_s": None}


def unpack(table: pa.Table, row: int) -> tuple[Frames, npt.NDArray[np.float64]]:
    """Frames [T, H, W, 3] and times [T] of one row. The frames are a read-only view of the table's
    memory.
    """
    shape = table["frames_shape"][row].as_py()
    # Not `table["frames"][row].as_buffer()`: a scalar of Arrow's holds a copy.
    column = table["frames"].slice(row, 1).chunk(0)
    _, offsets, values = column.buffers()
    start, end = np.frombuffer(offsets, np.int64)[column.offset : column.offset + 2]
    frames = np.frombuffer(values, np.uint8)[start:end].reshape(shape)
    return frames, np.asarray(table["times_s"][row].as_py(), dtype=np.float64)
