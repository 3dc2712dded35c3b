"""What the dataset holds already, and which of its videos the source no longer has."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.dataset import Dataset
from pipeline.schema import CAPTIONS, DELETED, ERRORS
from pipeline.stages.plan import Held, Ids, Planned, as_ids, clip_id, clip_key, contains, raw_id

NAMED = 10  # deleted videos that a summary names; deleted.parquet has all


@dataclass(frozen=True)
class Retry:
    """Failed clips are tried again: those with one of `codes`, or all of them (None)."""

    codes: frozenset[str] | None = None

    def wants(self, code: str) -> bool:
        return self.codes is None or code in self.codes


@dataclass(frozen=True)
class Deleted:
    """Rows of the dataset whose video the source no longer has: how many, and the first videos."""

    rows: int = 0
    uris: tuple[str, ...] = ()


def held_clips(dataset: Dataset, retry: Retry | None = None, *, by_video: bool = False) -> Held:
    """What published runs hold, failures included: they are not tried again unless their file
    changes, or `retry` asks for it. `by_video`: ids are those of whole videos, whatever clips were
    cut from them; a run is published as a whole, so one clip stands for all of its video.
    """
    ids, keys, again = bytearray(), bytearray(), bytearray()
    columns = ["clip_id", "uri", "source_version", "prompt"]
    for batch in _batches(dataset, columns):
        for own_id, uri, version, prompt, code in _rows(batch):
            clip = clip_id(uri, None, None) if by_video else own_id
            ids += raw_id(clip)
            if code is not None and retry is not None and retry.wants(code):
                again += raw_id(clip)
            else:
                keys += clip_key(clip, version, prompt)
    only = None if retry is None else np.unique(as_ids(again))
    return Held(np.unique(as_ids(ids)), np.unique(as_ids(keys)), only)


def failed_codes(dataset: Dataset) -> dict[str, int]:
    """How many rows of the dataset failed with each code."""
    counts: dict[str, int] = {}
    for batch in _batches(dataset, []):
        for pair in batch["error_code"].value_counts().to_pylist():
            if pair["values"] is not None:
                counts[pair["values"]] = counts.get(pair["values"], 0) + pair["counts"]
    return dict(sorted(counts.items()))


def find_deleted(
    dataset: Dataset,
    planned: Planned,
    covers: Callable[[str], bool],
    write: Callable[[pa.Table], None] = lambda table: None,
    *,
    by_video: bool = False,
) -> Deleted:
    """Rows whose video is gone: the source names it and its file is not there, or the source
    `covers` its place and does not list it. Their tables (DELETED) go to `write`.
    """
    if not len(planned.unlisted) and not len(planned.missing):
        return Deleted()
    count, uris = 0, dict[str, None]()
    for batch in _batches(dataset, DELETED.names):
        ids = _ids(batch, by_video)
        gone = contains(planned.missing, ids)
        for index in np.flatnonzero(contains(planned.unlisted, ids)):
            gone[index] = covers(batch["uri"][int(index)].as_py())
        table = pa.Table.from_batches([batch]).filter(pa.array(gone)).select(DELETED.names)
        if not table.num_rows:
            continue
        write(table.cast(DELETED))
        count += table.num_rows
        if len(uris) < NAMED:
            uris |= dict.fromkeys(table["uri"].to_pylist())
    return Deleted(count, tuple(uris)[:NAMED])


def _batches(dataset: Dataset, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Rows of all published runs; `error_code` comes with the columns, null for captions."""
    for run_id in dataset.published_runs():
        captions = dataset.scan(dataset.parquet_files(dataset.captions(run_id)), CAPTIONS)
        for batch in captions.to_batches(columns=columns):
            codes = pa.nulls(batch.num_rows, pa.string())
            yield batch.append_column("error_code", codes)
        errors = dataset.scan(dataset.parquet_files(dataset.errors(run_id)), ERRORS)
        yield from errors.to_batches(columns=[*columns, "error_code"])


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _ids(batch: pa.RecordBatch, by_video: bool) -> Ids:
    clips = batch["clip_id"].to_pylist()
    if by_video:
        clips = [clip_id(uri, None, None) for uri in batch["uri"].to_pylist()]
    return as_ids(b"".join(map(raw_id, clips)))
