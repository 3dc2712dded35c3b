"""Cut: a video -> the spans of its clips, before the manifest of a run is written. CPU; in the same
kind of process as decoding.

A video that cannot be cut is a row with an error, and so is the one clip that stands for it.
"""

import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pipeline.clips import ClipSettings
from pipeline.config import StorageOptions
from pipeline.decoding.cut import CutJob
from pipeline.decoding.process import decoder_process
from pipeline.decoding.types import Failed
from pipeline.metrics import count_uncut
from pipeline.schema import CUT
from pipeline.storage import NO_QUERIES, address_of, part_of, with_patience
from pipeline.worker_log import log_failures


def cut_row(
    row: Mapping[str, Any],
    clips: ClipSettings,
    memory_mb: int,
    storage: StorageOptions,
    queries: Mapping[str, str] = NO_QUERIES,
) -> dict[str, Any]:
    """One MANIFEST row of a whole video -> one CUT row."""
    started = time.perf_counter()
    patient = with_patience(storage, clips.timeout_s / 2)
    job = CutJob(address_of(row["uri"], queries), part_of(row), clips, patient)
    result = decoder_process().run(job, clips.timeout_s, memory_mb)
    if isinstance(result, Failed):
        columns = {
            "error_stage": "cut",
            "error_code": result.code,
            "error_message": result.message,
        }
    else:
        columns = {
            "starts_ms": [start for start, _ in result.spans],
            "ends_ms": [end for _, end in result.spans],
        }
    return {**row, **columns, "read_s": time.perf_counter() - started}


def cut_table(
    table: pa.Table,
    *,
    run_id: str,
    clips: ClipSettings,
    memory_mb: int,
    storage: StorageOptions,
    queries: Mapping[str, str] = NO_QUERIES,
) -> pa.Table:
    """What Ray Data runs: MANIFEST rows in, as many CUT rows out."""
    rows = [cut_row(row, clips, memory_mb, storage, queries) for row in table.to_pylist()]
    log_failures(rows, "cut", run_id)
    for row in rows:
        if code := row.get("error_code"):
            count_uncut(code, run_id)
    return pa.Table.from_pylist(rows, schema=CUT)
