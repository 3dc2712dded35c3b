"""What one run of the job does: resume or plan, caption, publish. Read this first.

The same command serves every case: an unfinished run is finished first, then what is new or changed
is planned and captioned; where there is nothing, no Ray and no model starts.
"""

import posixpath
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TextIO

import pyarrow as pa

from pipeline.backend import LVSPEC, Backend
from pipeline.commits import Commits, settle
from pipeline.config import JobSettings, as_tree
from pipeline.dataset import Dataset, new_run_id
from pipeline.errors import FingerprintError
from pipeline.fingerprint import caption_settings, difference, fingerprint
from pipeline.progress import show_progress
from pipeline.publish import mark_success, publish
from pipeline.schema import CAPTIONS, ERRORS
from pipeline.sources import read_source
from pipeline.stages.plan import Held, PlanCounts, plan_clips
from pipeline.summary import RunSummary, nothing_new, summarize

HELD_COLUMNS = ["clip_id", "source_version", "prompt"]


@dataclass(frozen=True)
class DryRun:
    """What a run would do: clips of an unfinished run to resume, and what would be planned beside
    it.
    """

    unfinished: str | None
    counts: PlanCounts


def caption_corpus(
    settings: JobSettings, *, backend: Backend = LVSPEC, out: TextIO = sys.stderr
) -> RunSummary:
    """Caption what is new in the source and publish it. Messages and progress go to `out`.

    Raises SourceError, FingerprintError, BackendError (nothing was started), ReconciliationError.
    """
    dataset = Dataset.open(settings.output, settings.storage)
    print_ = Printer(out)
    check_fingerprint(dataset, settings)
    resumed = [
        _finish(dataset, run_id, settings, backend, print_, resumed=True)
        for run_id in dataset.unfinished_runs()
    ]
    started = time.monotonic()
    run_id, counts = plan(
        dataset, settings, check=lambda: backend.frame_spec(settings.models, settings.frames)
    )
    seconds = {"plan": round(time.monotonic() - started, 3)}
    if run_id is not None:
        print_(
            f"plan: {counts.planned} clips to caption, {counts.held} already there (run {run_id})"
        )
        summary = _finish(dataset, run_id, settings, backend, print_, resumed=False)
    elif resumed:
        return resumed[-1]
    else:
        print_(f"nothing new: the dataset holds all {counts.held} clips of the source")
        own = fingerprint(caption_settings(settings))
        return nothing_new(settings.output, own, counts.held, seconds)
    return replace(summary, resumed_runs=[earlier.to_json() for earlier in resumed])


class Printer:
    """Writes one line per event, at once."""

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def __call__(self, line: str) -> None:
        print(line, file=self.out, flush=True)


def dry_run(settings: JobSettings) -> DryRun:
    """Count what `caption_corpus` would do, writing nothing."""
    dataset = Dataset.open(settings.output, settings.storage)
    check_fingerprint(dataset, settings)
    unfinished = dataset.unfinished_runs()
    source = read_source(settings.source, settings.storage)
    counts = plan_clips(source, held_clips(dataset), write=lambda table: None)
    return DryRun(unfinished[0] if unfinished else None, counts)


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


def held_clips(dataset: Dataset) -> Held:
    """What published runs hold, failures included: they are not tried again unless their file
    changes.
    """
    held = Held()
    for run_id in dataset.published_runs():
        for folder, schema in (
            (dataset.captions(run_id), CAPTIONS),
            (dataset.errors(run_id), ERRORS),
        ):
            scan = dataset.scan(dataset.parquet_files(folder), schema)
            for batch in scan.to_batches(columns=HELD_COLUMNS):
                for clip, version, prompt in zip(
                    *(c.to_pylist() for c in batch.columns), strict=True
                ):
                    held.add(clip, version, prompt)
    return held


def plan(
    dataset: Dataset, settings: JobSettings, check: Callable[[], object] = lambda: None
) -> tuple[str | None, PlanCounts]:
    """Write the manifest of a new run. The run exists once its run.json does; None if nothing is
    new. `check` is called before that, where there is something to do: it raises for models that
    cannot run, so that a wrong name leaves no trace in the output.
    """
    started = time.monotonic()
    run_id = new_run_id()
    folder = dataset.run(run_id, "manifest")
    files = 0

    def write(table: pa.Table) -> None:
        nonlocal files
        dataset.write_parquet(posixpath.join(folder, f"part-{files:05d}.parquet"), table)
        files += 1

    try:
        source = read_source(settings.source, settings.storage)
        counts = plan_clips(source, held_clips(dataset), write)
        if counts.planned:
            check()
    except BaseException:
        dataset.remove_folder(dataset.run(run_id))  # no run.json yet, so nobody knows it
        raise
    if not counts.planned:
        return None, counts
    covered = caption_settings(settings)
    described = {"fingerprint": fingerprint(covered), "caption_settings": covered}
    if not dataset.exists(dataset.path("dataset.json")):
        dataset.write_json(dataset.path("dataset.json"), described)
    run = {
        "run_id": run_id,
        "planned": counts.planned,
        "held": counts.held,
        "replacing": counts.replacing,
        "plan_s": round(time.monotonic() - started, 3),
        "settings": as_tree(settings),
        **described,
    }
    dataset.write_json(dataset.run(run_id, "run.json"), run)
    return run_id, counts


def _finish(
    dataset: Dataset,
    run_id: str,
    settings: JobSettings,
    backend: Backend,
    print_: Printer,
    *,
    resumed: bool,
) -> RunSummary:
    """Caption what is left of a planned run, prove it complete, publish it."""
    run = dataset.read_json(dataset.run(run_id, "run.json"))
    assert run is not None  # unfinished_runs saw it
    commits = Commits(dataset, run_id)
    settle(dataset, run_id)
    done = commits.count()
    if resumed:
        print_(f"resume: run {run_id} has {done} of {run['planned']} clips")
    started = time.monotonic()
    if done < run["planned"]:
        print_(f"caption: starting Ray and {settings.models.target}")
        spec = backend.frame_spec(settings.models, settings.frames)
        # Imported here: a job with nothing to do must not pay for Ray.
        from pipeline.build import caption_run  # noqa: PLC0415
        from pipeline.cluster import connect  # noqa: PLC0415

        with connect(), show_progress(commits.count, run["planned"], print_.out):
            caption_run(dataset, run_id, settings, spec, backend)
    captioned = time.monotonic()
    published = publish(dataset, run_id, part_bytes=settings.run.part_bytes)
    summary = summarize(
        dataset,
        run_id,
        output=settings.output,
        fingerprint=run["fingerprint"],
        seconds={
            "plan": run["plan_s"],
            "caption": captioned - started,
            "publish": time.monotonic() - captioned,
        },
        captioned=run["planned"] - done,
        replaced=published.replaced,
        already_held=run["held"],
    )
    dataset.write_json(dataset.run(run_id, "summary.json"), summary.to_json())
    mark_success(dataset, run_id)
    return summary
