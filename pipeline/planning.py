"""The plan of a run, as files: what the run was asked for, and the manifest of its clips.

Where videos are cut into clips, the plan lists videos first (`write_plan`); once they are cut, the
manifest is made of their spans (`write_clips`).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import JobSettings, as_tree
from pipeline.dataset import Dataset, new_run_id
from pipeline.errors import FingerprintError, SourceError
from pipeline.fingerprint import caption_settings, difference, fingerprint
from pipeline.increments import Deleted, Retry, find_deleted, held_clips
from pipeline.schema import CUT, ROWS
from pipeline.sources import IndexStore, VideoRef, covered_by, read_source
from pipeline.stages.plan import (
    ROWS_PER_FILE,
    PlanCounts,
    Planned,
    plan_clips,
    spans_of,
    whole_videos,
)

COUNTS = "counts.json"


@dataclass(frozen=True)
class RunPlan:
    """`run_id` is None where there is nothing to caption, and in a dry run. Counts are of videos
    where these are still to be cut.
    """

    run_id: str | None
    counts: PlanCounts
    deleted: Deleted
    plan_s: float


@dataclass(frozen=True)
class RunCounts:
    """Clips of a run: `planned` = those in its manifest + `uncut` (videos that could not be cut
    into clips, each one error row).
    """

    planned: int
    uncut: int = 0


def check_fingerprint(dataset: Dataset, settings: JobSettings) -> None:
    """Refuse to mix captions of other settings into a dataset, naming what differs."""
    stored = dataset.read_json(dataset.path("dataset.json"))
    if stored is None:
        return
    lines = difference(stored["caption_settings"], caption_settings(settings))
    if lines:
        raise FingerprintError(
            f"{settings.output} holds captions of other settings, and a dataset holds one kind:\n  "
            + "\n  ".join(lines)
            + "\nGo back to those settings, set another `output`, or delete this one."
        )


def cuts_videos(settings: JobSettings) -> bool:
    """Are videos cut into clips, or does the source list the clips?"""
    return settings.clips.mode != "whole"


def count_plan(dataset: Dataset, settings: JobSettings, retry: Retry | None = None) -> RunPlan:
    """What `write_plan` would do, without writing anything."""
    started = time.monotonic()
    store = IndexStore(load=partial(_load_index, dataset))
    planned, deleted = _plan(dataset, settings, retry, store, lambda table: None)
    return RunPlan(None, planned.counts, deleted, round(time.monotonic() - started, 3))


def write_plan(
    dataset: Dataset,
    settings: JobSettings,
    retry: Retry | None = None,
    check: Callable[[], object] = lambda: None,
    listed: Callable[[], object] = lambda: None,
) -> RunPlan:
    """Write the manifest of a new run, or the videos that are to be cut. The run exists once its
    run.json does.

    `check` is called before that, where there is something to do: it raises for models that cannot
    run, so that a wrong name leaves no trace in the output. `listed` is called for each thing that
    the source lists.
    """
    started = time.monotonic()
    run_id = new_run_id()
    cuts = cuts_videos(settings)
    write = Parts(dataset, dataset.run(run_id, "videos" if cuts else "manifest"))
    gone: list[pa.Table] = []
    try:
        store = IndexStore(partial(_load_index, dataset), partial(_save_index, dataset))
        planned, deleted = _plan(dataset, settings, retry, store, write, gone.append, listed)
        if planned.counts.planned:
            check()
    except BaseException:
        dataset.remove_folder(dataset.run(run_id))  # no run.json yet, so nobody knows it
        raise
    _write_deleted(dataset, gone)
    counts = planned.counts
    plan_s = round(time.monotonic() - started, 3)
    if not counts.planned:
        return RunPlan(None, counts, deleted, plan_s)
    covered = caption_settings(settings)
    described = {"fingerprint": fingerprint(covered), "caption_settings": covered}
    if not dataset.exists(dataset.path("dataset.json")):
        dataset.write_json(dataset.path("dataset.json"), described)
    run = {
        "run_id": run_id,
        "videos": counts.planned if cuts else None,
        "held": counts.held,
        "deleted": asdict(deleted),
        "retry": None if retry is None else {"codes": sorted(retry.codes or ()) or None},
        "plan_s": plan_s,
        "settings": as_tree(settings),
        **described,
    }
    if not cuts:
        dataset.write_json(dataset.run(run_id, COUNTS), asdict(RunCounts(counts.planned)))
    dataset.write_json(dataset.run(run_id, "run.json"), run)
    return RunPlan(run_id, counts, deleted, plan_s)


def read_counts(dataset: Dataset, run_id: str) -> RunCounts | None:
    """None while the videos of a run are still to be cut."""
    counts = dataset.read_json(dataset.run(run_id, COUNTS))
    return None if counts is None else RunCounts(**counts)


def write_clips(dataset: Dataset, run_id: str, retry: Retry | None) -> RunCounts:
    """Write the manifest of a run whose videos are cut, and error rows for those that could not
    be. Repeating it changes nothing.
    """
    manifest, uncut = (
        Parts(dataset, dataset.run(run_id, folder)) for folder in ("manifest", "uncut")
    )
    for parts in (manifest, uncut):
        dataset.remove_folder(parts.folder)

    def clips() -> Iterator[VideoRef]:
        failed: list[dict[str, Any]] = []
        for row in _cut_rows(dataset, run_id):
            if row["error_code"] is None:
                yield from spans_of(row)
                continue
            failed.append({**row, "run_id": run_id, "status": "error"})
            if len(failed) == ROWS_PER_FILE:
                uncut(pa.Table.from_pylist(failed, schema=ROWS))
                failed = []
        if failed:
            uncut(pa.Table.from_pylist(failed, schema=ROWS))

    held = replace(held_clips(dataset, retry), again=None)  # the choice was made among videos
    planned = plan_clips(clips, held, manifest)
    counts = RunCounts(planned.counts.planned + uncut.rows, uncut.rows)
    dataset.write_json(dataset.run(run_id, COUNTS), asdict(counts))
    return counts


@dataclass
class Parts:
    """Writes tables into numbered files of a folder, and counts their rows."""

    dataset: Dataset
    folder: str
    files: int = field(default=0, init=False)
    rows: int = field(default=0, init=False)

    def __call__(self, table: pa.Table) -> None:
        self.dataset.write_parquet(f"{self.folder}/part-{self.files:05d}.parquet", table)
        self.files += 1
        self.rows += table.num_rows


def _plan(
    dataset: Dataset,
    settings: JobSettings,
    retry: Retry | None,
    store: IndexStore,
    write: Callable[[pa.Table], None],
    write_deleted: Callable[[pa.Table], None] = lambda table: None,
    listed: Callable[[], object] = lambda: None,
) -> tuple[Planned, Deleted]:
    source, storage, by_video = settings.source, settings.storage, cuts_videos(settings)

    def read() -> Iterator[VideoRef]:
        refs = read_source(source, storage, store)
        for ref in whole_videos(refs) if by_video else refs:
            listed()
            yield ref

    planned = plan_clips(read, held_clips(dataset, retry, by_video=by_video), write)
    if source.manifest and not planned.counts.listed:
        raise SourceError(
            f"source.manifest = {source.manifest!r}: lists nothing; expected one row per clip, "
            "with a column `uri`"
        )
    covers = covered_by(source, storage)
    return planned, find_deleted(dataset, planned, covers, write_deleted, by_video=by_video)


def _cut_rows(dataset: Dataset, run_id: str) -> Iterator[dict[str, Any]]:
    cuts = dataset.scan(dataset.parquet_files(dataset.run(run_id, "cuts")), CUT)
    for batch in cuts.to_batches():
        yield from batch.to_pylist()


def _load_index(dataset: Dataset, name: str) -> pa.Table | None:
    path = dataset.path("shards", f"{name}.parquet")
    return pq.read_table(path, filesystem=dataset.fs) if dataset.exists(path) else None


def _save_index(dataset: Dataset, name: str, table: pa.Table) -> None:
    dataset.write_parquet(dataset.path("shards", f"{name}.parquet"), table)


def _write_deleted(dataset: Dataset, tables: list[pa.Table]) -> None:
    """The rows whose videos are gone, as of this command; no file where there are none."""
    path = dataset.path("deleted.parquet")
    if tables:
        dataset.write_parquet(path, pa.concat_tables(tables))
    elif dataset.exists(path):
        dataset.fs.delete_file(path)
