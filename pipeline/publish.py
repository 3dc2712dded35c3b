"""Publish: staged rows -> the dataset people read, after proving that every clip is there exactly
once.

Everything before `_SUCCESS` can be repeated: a publish that was killed starts again from the staged
rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute

from pipeline.dataset import Dataset
from pipeline.parts import write_parts
from pipeline.reconcile import planned_ids, reconcile
from pipeline.record import RunRecord, encode_part, read_record, write_record
from pipeline.schema import CAPTIONS, ERRORS, MANIFEST, SAMPLES

pc: Any = pyarrow.compute  # its functions are made at import, so type checkers see none


@dataclass(frozen=True)
class Published:
    """Rows written, and rows of earlier runs that they replaced."""

    captions: int
    errors: int
    replaced: int


def publish(
    dataset: Dataset,
    run_id: str,
    *,
    part_bytes: int,
    wrote: Callable[[int], object] = lambda rows: None,
) -> Published:
    """Write captions/, errors/ and samples/ of a run. Rows of the same clips in other published
    runs go (of an older version of the file, or a failure tried again), so that a clip id stays
    unique. `wrote` is told of captions and errors as they are written.

    Raises `ReconciliationError`.
    """
    reconcile(dataset, run_id)
    staged = [
        path
        for folder in ("rows", "uncut")
        for path in dataset.parquet_files(dataset.run(run_id, folder))
    ]
    status = pc.field("status")
    sampled = (status == "ok") & pc.field("flags").is_valid()  # an empty list: for no flag
    captions, errors = (
        write_parts(dataset, staged, wanted, schema, folder, part_bytes, wrote)
        for wanted, schema, folder in (
            (status == "ok", CAPTIONS, dataset.captions(run_id)),
            (status == "error", ERRORS, dataset.errors(run_id)),
        )
    )
    samples = write_parts(dataset, staged, sampled, SAMPLES, dataset.samples(run_id), part_bytes)
    num_captions, num_errors = (sum(part.rows for part in parts) for parts in (captions, errors))
    record = RunRecord(num_captions, num_errors, (*captions, *errors, *samples))
    write_record(dataset, run_id, record)
    going = _Going.of(dataset, run_id)
    others = (other for other in dataset.published_runs() if other != run_id)
    return Published(
        num_captions, num_errors, sum(_drop(dataset, other, going) for other in others)
    )


def mark_success(dataset: Dataset, run_id: str) -> None:
    """The last write of a run: from here on its rows are part of the dataset."""
    dataset.write_bytes(dataset.success(run_id), b"")


@dataclass(frozen=True)
class _Going:
    """Which rows of earlier runs make place for a run: those of its own clips and, where it cut
    videos into clips, those that an earlier version of such a video was cut into, or that said it
    could not be cut.
    """

    clips: pa.Array
    uris: pa.Array
    versions: pa.Array  # "uri\nsource_version"

    @classmethod
    def of(cls, dataset: Dataset, run_id: str) -> "_Going":
        videos = dataset.scan(dataset.parquet_files(dataset.run(run_id, "videos")), MANIFEST)
        table = videos.to_table(columns=["uri", "source_version"]).combine_chunks()
        return cls(planned_ids(dataset, run_id), _array(table["uri"]), _versions(table))

    def among(self, table: pa.Table) -> pa.Array:
        """For each row of a table with clip_id, uri, source_version and perhaps error_stage."""
        mask = pc.is_in(table["clip_id"], value_set=self.clips)
        if not len(self.uris):
            return mask
        other = pc.invert(pc.is_in(_versions(table), value_set=self.versions))
        if "error_stage" in table.column_names:
            other = pc.or_(other, pc.equal(table["error_stage"], "cut"))
        same_video = pc.is_in(table["uri"], value_set=self.uris)
        return pc.or_(mask, pc.and_(same_video, other))


def _versions(table: pa.Table) -> pa.Array:
    joined = pc.binary_join_element_wise(table["uri"], table["source_version"], "\n")
    return _array(joined)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def _drop(dataset: Dataset, run_id: str, going: _Going) -> int:
    """Take rows out of the files of a run, and correct its record. Returns how many went."""
    dropped = 0
    looked_at = ["clip_id", "uri", "source_version"]
    for folder, schema, columns in (
        (dataset.captions(run_id), CAPTIONS, looked_at),
        (dataset.errors(run_id), ERRORS, [*looked_at, "error_stage"]),
        (dataset.samples(run_id), SAMPLES, looked_at),
    ):
        for path in dataset.parquet_files(folder):
            scan = dataset.scan([path], schema)
            mask = going.among(scan.to_table(columns=columns))
            num_going = pc.sum(mask).as_py() or 0
            if num_going:
                _rewrite(dataset, run_id, path, scan.to_table().filter(pc.invert(mask)))
            dropped += 0 if schema is SAMPLES else num_going
    return dropped


def _rewrite(dataset: Dataset, run_id: str, path: str, left: pa.Table) -> None:
    file, data = encode_part(dataset, path, left)
    record = read_record(dataset, run_id)
    if record is not None:  # before the file: see pipeline.record
        now = record.with_file(file.path, file if left.num_rows else None)
        write_record(dataset, run_id, now)
    if left.num_rows:
        dataset.write_bytes(path, data)
    else:
        dataset.fs.delete_file(path)
