"""Proof that what was planned is there, each exactly once. Nothing is published without it."""

from typing import Any

import pyarrow as pa
import pyarrow.compute

from pipeline.dataset import Dataset
from pipeline.errors import ReconciliationError
from pipeline.schema import CUT, MANIFEST, ROWS

NAMED_IDS = 10  # how many a message names
ID = "clip_id"
pc: Any = pyarrow.compute  # its functions are made at import, so type checkers see none


def planned_ids(dataset: Dataset, run_id: str) -> pa.Array:
    """Ids of all clips of a run: those to caption, and videos that could not be cut into any."""
    manifest = _ids(dataset, dataset.run(run_id, "manifest"), MANIFEST)
    return pa.concat_arrays([manifest, _ids(dataset, dataset.run(run_id, "uncut"), ROWS)])


def reconcile(dataset: Dataset, run_id: str) -> None:
    """Raise `ReconciliationError` unless planned ids and row ids are the same, each once."""
    folders = (dataset.run(run_id, folder) for folder in ("rows", "uncut"))
    staged = pa.concat_arrays([_ids(dataset, folder, ROWS) for folder in folders])
    _compare(f"run {run_id}", "clips", planned_ids(dataset, run_id), staged)


def reconcile_cuts(dataset: Dataset, run_id: str) -> None:
    """The same of a run's videos and what is known of their clips."""
    planned = _ids(dataset, dataset.run(run_id, "videos"), MANIFEST)
    cut = _ids(dataset, dataset.run(run_id, "cuts"), CUT)
    _compare(f"run {run_id}", "videos", planned, cut)


def _compare(run: str, what: str, planned: pa.Array, staged: pa.Array) -> None:
    counts = pc.value_counts(staged)
    found, times = counts.field("values"), counts.field("counts")
    problems = {
        "missing": planned.filter(pc.invert(pc.is_in(planned, value_set=found))),
        "doubled": found.filter(pc.greater(times, 1)),
        "not planned": found.filter(pc.invert(pc.is_in(found, value_set=planned))),
    }
    lines = [
        f"{len(ids)} {problem}: {', '.join(ids[:NAMED_IDS].to_pylist())}"
        + (" ..." if len(ids) > NAMED_IDS else "")
        for problem, ids in problems.items()
        if len(ids)
    ]
    if lines:
        raise ReconciliationError(
            f"{run} has {len(planned)} planned {what} and {len(staged)} rows. " + "; ".join(lines)
        )


def _ids(dataset: Dataset, folder: str, schema: pa.Schema) -> pa.Array:
    column = dataset.scan(dataset.parquet_files(folder), schema).to_table(columns=[ID])[ID]
    return column.combine_chunks() if column.num_chunks else pa.array([], pa.string())
