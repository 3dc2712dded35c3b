"""Rows in any order -> Parquet files of bounded size, sorted by clip id within and across files."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from pipeline.dataset import Dataset
from pipeline.record import FileRecord, write_part
from pipeline.schema import ROWS

ID = "clip_id"
DEALT_BYTES = 64 << 20  # rows gathered from staged files (a few each) before they are dealt out
pc: Any = pyarrow.compute  # its functions are made at import, so type checkers see none


def write_parts(
    dataset: Dataset,
    staged: list[str],
    wanted: Any,
    schema: pa.Schema,
    folder: str,
    max_bytes: int,
    wrote: Callable[[int], object] = lambda rows: None,
) -> list[FileRecord]:
    """Write the rows that are `wanted` (a filter) into parts of at most about `max_bytes`, as the
    staged files take them. `wrote` is told how many rows each part has.

    Ids are uniform hashes, so ranges of them are equal shares: rows are dealt to one temporary file
    per part, and each is sorted alone. Memory is bounded by one part whatever the run's size.
    """
    dataset.remove_folder(folder)
    scan = dataset.scan(staged, ROWS)
    num_rows, num_all = scan.count_rows(filter=wanted), scan.count_rows()
    if not num_rows:  # a part without rows, so that whoever reads the folder finds its columns
        empty = schema.empty_table()
        return [write_part(dataset, f"{folder}/part-00000.parquet", empty)]
    staged_bytes = sum(info.size or 0 for info in dataset.fs.get_file_info(staged))
    num_parts = max(1, -(-staged_bytes * num_rows // (num_all * max_bytes)))
    records: list[FileRecord] = []
    with tempfile.TemporaryDirectory(prefix="publish-") as spill:
        batches = scan.to_batches(columns=schema.names, filter=wanted)
        for path in _deal(_gathered(batches, schema), schema, num_parts, Path(spill)):
            name = f"{folder}/part-{len(records):05d}.parquet"
            records.append(write_part(dataset, name, pq.read_table(path).sort_by(ID)))
            path.unlink()
            wrote(records[-1].rows)
    return records


def _gathered(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    num_bytes = 0
    for batch in batches:
        waiting.append(batch)
        num_bytes += batch.nbytes
        if num_bytes >= DEALT_BYTES:
            yield pa.Table.from_batches(waiting).cast(schema)
            waiting, num_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting).cast(schema)


def _deal(tables: Iterator[pa.Table], schema: pa.Schema, num_parts: int, spill: Path) -> list[Path]:
    """Split tables by id range into one local Parquet file per part; the non-empty ones, in id
    order.
    """
    bounds = [f"{(i << 32) // num_parts:08x}" for i in range(1, num_parts)]
    writers: dict[int, pq.ParquetWriter] = {}
    try:
        for table in tables:
            for index, piece in _by_range(table, bounds):
                if index not in writers:
                    writers[index] = pq.ParquetWriter(spill / f"{index:06d}.parquet", schema)
                writers[index].write_table(piece)
    finally:
        for writer in writers.values():
            writer.close()
    return [spill / f"{index:06d}.parquet" for index in sorted(writers)]


def _by_range(table: pa.Table, bounds: list[str]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each id range that occurs: (index of the range, rows)."""
    heads = pc.utf8_slice_codeunits(table[ID], 0, 8).to_numpy().astype(str)
    index = pa.array(bounds, pa.string()).to_numpy(zero_copy_only=False).astype(str)
    index = index.searchsorted(heads, side="right")
    for value in sorted(set(index.tolist())):
        yield int(value), table.filter(pa.array(index == value))
