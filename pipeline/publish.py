"""Publish: staged rows -> the dataset people read, after proving that every clip is there exactly
once.

Everything before `_SUCCESS` can be repeated: a publish that was killed starts again from the staged
rows.
"""

import posixpath
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from pipeline.dataset import Dataset
from pipeline.errors import ReconciliationError
from pipeline.schema import CAPTIONS, ERRORS, MANIFEST, ROWS

NAMED_IDS = 10  # how many a message names
ID = "clip_id"
pc: Any = pyarrow.compute  # its functions are made at import, so type checkers see none


@dataclass(frozen=True)
class Published:
    """Rows written, and rows of earlier runs that they replaced."""

    captions: int
    errors: int
    replaced: int


def publish(dataset: Dataset, run_id: str, *, part_bytes: int) -> Published:
    """Write captions/ and errors/ of a run. Rows of the same clips in other published runs go (an
    older version of the file, or a second driver on the same output), so that a clip id stays
    unique. Raises `ReconciliationError`.
    """
    reconcile(dataset, run_id)
    rows = dataset.parquet_files(dataset.run(run_id, "rows"))
    captions = _write(dataset, rows, "ok", CAPTIONS, dataset.captions(run_id), part_bytes)
    errors = _write(dataset, rows, "error", ERRORS, dataset.errors(run_id), part_bytes)
    replaced = _drop_older(dataset, run_id)
    return Published(captions, errors, replaced)


def mark_success(dataset: Dataset, run_id: str) -> None:
    """The last write of a run: from here on its rows are part of the dataset."""
    dataset.write_bytes(dataset.success(run_id), b"")


def reconcile(dataset: Dataset, run_id: str) -> None:
    """Raise `ReconciliationError` unless manifest ids and row ids are the same, each once."""
    planned = _ids(dataset, dataset.run(run_id, "manifest"), MANIFEST)
    staged = _ids(dataset, dataset.run(run_id, "rows"), ROWS)
    counts = pc.value_counts(staged)
    found, times = counts.field("values"), counts.field("counts")
    problems = {
        "missing": planned.filter(pc.invert(pc.is_in(planned, value_set=found))),
        "doubled": found.filter(pc.greater(times, 1)),
        "not planned": found.filter(pc.invert(pc.is_in(found, value_set=planned))),
    }
    lines = [
        f"{len(ids)} {what}: {', '.join(ids[:NAMED_IDS].to_pylist())}"
        + (" ..." if len(ids) > NAMED_IDS else "")
        for what, ids in problems.items()
        if len(ids)
    ]
    if lines:
        raise ReconciliationError(
            f"run {run_id} has {len(planned)} planned clips and {len(staged)} rows. "
            + "; ".join(lines)
        )


def _ids(dataset: Dataset, folder: str, schema: pa.Schema) -> pa.Array:
    files = dataset.parquet_files(folder)
    column = dataset.scan(files, schema).to_table(columns=[ID])[ID]
    return column.combine_chunks() if column.num_chunks else pa.array([], pa.string())


def _write(
    dataset: Dataset, rows: list[str], status: str, schema: pa.Schema, folder: str, part_bytes: int
) -> int:
    """Write the rows of one status into sorted parts of about `part_bytes` (in memory). Returns how
    many.

    Ids are uniform hashes, so ranges of them are equal shares: rows are dealt to one temporary file
    per part, and each is sorted alone. Memory is bounded by one part whatever the run's size.
    """
    dataset.remove_folder(folder)
    scan = dataset.scan(rows, ROWS)
    batches = scan.to_batches(columns=schema.names, filter=pc.field("status") == status)
    total = 0
    with tempfile.TemporaryDirectory(prefix="publish-") as spill:
        for number, path in enumerate(
            _deal(batches, schema, part_bytes, rows, dataset, Path(spill))
        ):
            part = pq.read_table(path).sort_by(ID)
            dataset.write_parquet(posixpath.join(folder, f"part-{number:05d}.parquet"), part)
            total += part.num_rows
    return total


def _deal(
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    part_bytes: int,
    rows: list[str],
    dataset: Dataset,
    spill: Path,
) -> list[Path]:
    """Split batches by id range into one local Parquet file per part; the non-empty ones, in id
    order.
    """
    staged_bytes = sum(info.size or 0 for info in dataset.fs.get_file_info(rows))
    parts = max(1, -(-staged_bytes // part_bytes))
    bounds = pa.array([f"{(i << 32) // parts:08x}" for i in range(1, parts)], pa.string())
    writers: dict[int, pq.ParquetWriter] = {}
    try:
        for batch in batches:
            for index, piece in _by_range(pa.Table.from_batches([batch]), bounds):
                if index not in writers:
                    writers[index] = pq.ParquetWriter(spill / f"{index:06d}.parquet", schema)
                writers[index].write_table(piece.cast(schema))
    finally:
        for writer in writers.values():
            writer.close()
    return [spill / f"{index:06d}.parquet" for index in sorted(writers)]


def _by_range(table: pa.Table, bounds: pa.Array) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each id range that occurs: (index of the range, rows)."""
    heads = pc.utf8_slice_codeunits(table[ID], 0, 8).to_numpy().astype(str)
    index = bounds.to_numpy(zero_copy_only=False).astype(str).searchsorted(heads, side="right")
    for value in sorted(set(index.tolist())):
        yield int(value), table.filter(pa.array(index == value))


def _drop_older(dataset: Dataset, run_id: str) -> int:
    """Take the clips of this run out of the files of other runs. Returns how many rows went."""
    mine = _ids(dataset, dataset.run(run_id, "manifest"), MANIFEST)
    dropped = 0
    for other in dataset.published_runs():
        if other == run_id:
            continue
        for folder, schema in (
            (dataset.captions(other), CAPTIONS),
            (dataset.errors(other), ERRORS),
        ):
            for path in dataset.parquet_files(folder):
                dropped += _rewrite_without(dataset, path, schema, mine)
    return dropped


def _rewrite_without(dataset: Dataset, path: str, schema: pa.Schema, ids: pa.Array) -> int:
    scan = dataset.scan([path], schema)
    old = scan.to_table(columns=[ID])[ID]
    going = pc.sum(pc.is_in(old, value_set=ids)).as_py() or 0
    if going == len(old):
        dataset.fs.delete_file(path)
    elif going:
        dataset.write_parquet(path, scan.to_table(filter=~pc.field(ID).isin(ids)))
    return going
