"""The plan of a run, as files: the manifest of what is new, and what the run was asked for."""

import posixpath
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import JobSettings, as_tree
from pipeline.dataset import Dataset, new_run_id
from pipeline.errors import FingerprintError
from pipeline.fingerprint import caption_settings, difference, fingerprint
from pipeline.increments import Deleted, Retry, find_deleted, held_clips
from pipeline.sources import IndexStore, covered_by, read_source
from pipeline.stages.plan import PlanCounts, Planned, plan_clips


@dataclass(frozen=True)
class RunPlan:
    """`run_id` is None where there is nothing to caption, and in a dry run."""

    run_id: str | None
    counts: PlanCounts
    deleted: Deleted
    plan_s: float


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
) -> RunPlan:
    """Write the manifest of a new run. The run exists once its run.json does.

    `check` is called before that, where there is something to do: it raises for models that cannot
    run, so that a wrong name leaves no trace in the output.
    """
    started = time.monotonic()
    run_id = new_run_id()
    parts: list[str] = []
    gone: list[pa.Table] = []

    def write(table: pa.Table) -> None:
        parts.append(posixpath.join("manifest", f"part-{len(parts):05d}.parquet"))
        dataset.write_parquet(dataset.run(run_id, parts[-1]), table)

    try:
        store = IndexStore(partial(_load_index, dataset), partial(_save_index, dataset))
        planned, deleted = _plan(dataset, settings, retry, store, write, gone.append)
        if planned.counts.planned:
            check()
    except BaseException:
        dataset.remove_folder(dataset.run(run_id))  # no run.json yet, so nobody knows it
        raise
    _write_deleted(dataset, gone)
    plan = RunPlan(run_id, planned.counts, deleted, round(time.monotonic() - started, 3))
    if not planned.counts.planned:
        return RunPlan(None, plan.counts, deleted, plan.plan_s)
    covered = caption_settings(settings)
    described = {"fingerprint": fingerprint(covered), "caption_settings": covered}
    if not dataset.exists(dataset.path("dataset.json")):
        dataset.write_json(dataset.path("dataset.json"), described)
    run = {
        "run_id": run_id,
        **{name: getattr(plan.counts, name) for name in ("planned", "held", "replacing")},
        "deleted": asdict(deleted),
        "plan_s": plan.plan_s,
        "settings": as_tree(settings),
        **described,
    }
    dataset.write_json(dataset.run(run_id, "run.json"), run)
    return plan


def _plan(
    dataset: Dataset,
    settings: JobSettings,
    retry: Retry | None,
    store: IndexStore,
    write: Callable[[pa.Table], None],
    write_deleted: Callable[[pa.Table], None] = lambda table: None,
) -> tuple[Planned, Deleted]:
    source, storage = settings.source, settings.storage
    held = held_clips(dataset, retry)
    planned = plan_clips(lambda: read_source(source, storage, store), held, write)
    return planned, find_deleted(dataset, planned, covered_by(source, storage), write_deleted)


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
