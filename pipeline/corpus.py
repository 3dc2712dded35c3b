"""What one run of the job does: resume or plan, caption, publish. Read this first.

The same command serves every case: an unfinished run is finished first, then what is new or changed
is planned and captioned; where there is nothing, no Ray and no model starts.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any, TextIO

from pipeline.backend import LVSPEC, Backend
from pipeline.commits import CHECKPOINT, CUT_CHECKPOINT, Commits, settle
from pipeline.config import JobSettings
from pipeline.dataset import Dataset
from pipeline.errors import stops_when_storage_fails
from pipeline.fingerprint import caption_settings, fingerprint
from pipeline.flow import CaptionLook, CutLook, Flow
from pipeline.increments import Deleted, Retry, failed_codes
from pipeline.lock import DriverLock, hold
from pipeline.messages import LogFormat, Messages
from pipeline.metrics import progress_gauges
from pipeline.planning import (
    RunCounts,
    RunPlan,
    check_fingerprint,
    count_plan,
    cuts_videos,
    read_counts,
    write_clips,
    write_plan,
)
from pipeline.preflight import check_devices, check_output
from pipeline.progress import Tally, show_progress
from pipeline.publish import mark_success, publish
from pipeline.reconcile import reconcile_cuts
from pipeline.schedule import plan_schedule
from pipeline.stages.plan import PlanCounts
from pipeline.storage import with_patience
from pipeline.summary import RunSummary, amount, nothing_new, summarize


@dataclass(frozen=True)
class DryRun:
    """What a run would do: clips of an unfinished run to resume, and what would be planned beside
    it. `unit` is what is counted: clips, or the videos that are to be cut.
    """

    unfinished: str | None
    committed: int  # of the clips of that run; the counts below still have them as not captioned
    unit: str
    counts: PlanCounts
    deleted: Deleted

    def to_json(self) -> dict[str, Any]:
        deleted = {"deleted": self.deleted.rows, "deleted_uris": list(self.deleted.uris)}
        return {
            "unfinished_run": self.unfinished,
            "unfinished_committed": self.committed,
            "unit": self.unit,
            **asdict(self.counts),
            **deleted,
        }


@stops_when_storage_fails()
def caption_corpus(
    settings: JobSettings,
    *,
    retry: Retry | None = None,
    resume_only: bool = False,
    backend: Backend = LVSPEC,
    out: TextIO | None = None,
    log_format: LogFormat = "text",
) -> RunSummary:
    """Caption what is new in the source, or what failed before and `retry` asks for, and publish
    it; `resume_only` finishes runs that were begun and plans none. Messages and progress go to
    `out`, stderr by default: lines for people, or JSON objects (see `pipeline.messages`).

    Raises LockedError, SourceError, FingerprintError, BackendError (nothing was started),
    StoppedError, ReconciliationError.
    """
    say = Messages(out or sys.stderr, log_format)
    check_output(settings)
    with hold(settings.output, settings.storage, say) as lock:
        dataset = Dataset.open(settings.output, settings.storage)
        job = Job(settings, dataset, backend, lock, say)
        check_fingerprint(dataset, settings)
        resumed = [_finish(job, run_id, resumed=True) for run_id in dataset.unfinished_runs()]
        summary = _resumed(job, resumed) if resume_only else _run(job, retry, resumed)
        return replace(summary, resumed_runs=[earlier.to_json() for earlier in resumed])


@dataclass(frozen=True)
class Job:
    """One call of `caption_corpus`: what is asked, where it goes, and with what."""

    settings: JobSettings
    dataset: Dataset
    backend: Backend
    lock: DriverLock
    say: Messages

    def glance(self, run_id: str, checkpoint: str = CHECKPOINT) -> Commits:
        """For progress: what does not answer at once is left to the next look."""
        storage = with_patience(self.settings.storage, 0.0)
        return Commits(Dataset.open(self.settings.output, storage), run_id, checkpoint)

    def check_models(self) -> None:
        check_devices(self.settings)
        self.backend.frame_spec(self.settings.models, self.settings.frames)


def _run(job: Job, retry: Retry | None, resumed: list[RunSummary]) -> RunSummary:
    settings = job.settings
    listed = Tally("plan", "listed")
    with show_progress(listed.look, job.say, final=False):
        plan = write_plan(job.dataset, settings, retry, job.check_models, listed.add)
    job.say.run_id = plan.run_id
    _say_plan(job, plan, retry, resumed=bool(resumed))
    if plan.run_id is not None:
        return _finish(job, plan.run_id, resumed=False)
    gone = plan.deleted
    if resumed:
        return replace(resumed[-1], deleted=gone.rows, deleted_uris=list(gone.uris))
    own = fingerprint(caption_settings(settings))
    return nothing_new(settings.output, own, plan.counts.held, {"plan": plan.plan_s}, gone)


def _resumed(job: Job, resumed: list[RunSummary]) -> RunSummary:
    if resumed:
        return resumed[-1]
    job.say("nothing to resume: every run that was begun is published", "nothing_new")
    own = fingerprint(caption_settings(job.settings))
    return nothing_new(job.settings.output, own, 0, {})


def _say_plan(job: Job, plan: RunPlan, retry: Retry | None, *, resumed: bool) -> None:
    counts, cuts = plan.counts, cuts_videos(job.settings)
    unit = "video" if cuts else "clip"
    if plan.run_id is not None and retry is not None:
        what = amount(counts.planned, f"failed {unit}")
        job.say(f"plan: {what} to try again (run {plan.run_id})", "planned")
    elif plan.run_id is not None:
        job.say(
            f"plan: {amount(counts.planned, unit)} to {'cut' if cuts else 'caption'}, "
            f"{counts.held} already there (run {plan.run_id})",
            "planned",
            **asdict(counts),
        )
    elif retry is not None:
        codes = ", ".join(f"{count} {code}" for code, count in failed_codes(job.dataset).items())
        job.say(
            f"nothing to try again: no such failed {unit} is in the source "
            f"(failed in the dataset: {codes or 'none'})",
            "nothing_new",
        )
    else:
        nothing = "nothing else is new" if resumed else "nothing new"
        said = f"{nothing}: the dataset holds all {amount(counts.held, unit)} of the source"
        job.say(said, "nothing_new")
    if plan.deleted.rows:
        job.say(
            f"deleted: {amount(plan.deleted.rows, 'clip')} of the dataset stay although their "
            f"videos are gone from the source; {job.settings.output}/deleted.parquet lists them",
            "deleted",
        )


@stops_when_storage_fails()
def check(settings: JobSettings, backend: Backend = LVSPEC) -> None:
    """Raise for settings, models or an output that `caption_corpus` would refuse; the source is not
    looked at.
    """
    check_output(settings)
    check_fingerprint(Dataset.open(settings.output, settings.storage), settings)
    check_devices(settings)
    backend.frame_spec(settings.models, settings.frames)


@stops_when_storage_fails()
def dry_run(settings: JobSettings, retry: Retry | None = None, backend: Backend = LVSPEC) -> DryRun:
    """Count what `caption_corpus` would do, writing nothing. Raises for settings that it would
    refuse.
    """
    check_output(settings)
    dataset = Dataset.open(settings.output, settings.storage)
    check_fingerprint(dataset, settings)
    unfinished = next(iter(dataset.unfinished_runs()), None)
    committed = Commits(dataset, unfinished).count() if unfinished else 0
    plan = count_plan(dataset, settings, retry)
    if plan.counts.planned:
        check_devices(settings)
        backend.frame_spec(settings.models, settings.frames)
    unit = "video" if cuts_videos(settings) else "clip"
    return DryRun(unfinished, committed, unit, plan.counts, plan.deleted)


def _finish(job: Job, run_id: str, *, resumed: bool) -> RunSummary:
    """Cut and caption what is left of a planned run, prove it complete, publish it."""
    dataset, settings = job.dataset, job.settings
    job.say.run_id = run_id
    run = dataset.read_json(dataset.run(run_id, "run.json"))
    assert run is not None  # unfinished_runs saw it
    seconds: dict[str, float] = {"plan": run["plan_s"]}
    with ExitStack() as ray:  # started by the first of the two that needs it
        counts = read_counts(dataset, run_id)
        if counts is None:
            started = time.monotonic()
            counts = _cut(job, run_id, run, ray, resumed)
            seconds["cut"] = time.monotonic() - started
        started = time.monotonic()
        captioned = _caption(job, run_id, counts, ray, resumed)
        seconds["caption"] = time.monotonic() - started
    started = time.monotonic()
    job.lock.check()
    rows = Tally("publish", "rows", counts.planned)
    with show_progress(rows.look, job.say, final=False):
        part_bytes = settings.run.part_bytes
        published = publish(dataset, run_id, part_bytes=part_bytes, wrote=rows.add)
    seconds["publish"] = time.monotonic() - started
    summary = summarize(
        dataset,
        run_id,
        output=settings.output,
        fingerprint=run["fingerprint"],
        seconds=seconds,
        captioned=captioned,
        replaced=published.replaced,
        already_held=run["held"],
        deleted=Deleted(run["deleted"]["rows"], tuple(run["deleted"]["uris"])),
    )
    dataset.write_json(dataset.run(run_id, "summary.json"), summary.to_json())
    job.lock.check()
    mark_success(dataset, run_id)
    done = f"{amount(summary.succeeded, 'clip')} captioned, {summary.failed} failed"
    job.say.event(f"published: {done}", "published", **summary.to_json())
    job.say.run_id = None
    return summary


def _cut(job: Job, run_id: str, run: Mapping[str, Any], ray: ExitStack, resumed: bool) -> RunCounts:
    """Cut the videos of a run into clips, and write the manifest of these."""
    dataset, videos = job.dataset, run["videos"]
    commits = Commits(dataset, run_id, CUT_CHECKPOINT)
    settle(dataset, run_id, CUT_CHECKPOINT)
    done = commits.count()
    if resumed:
        job.say(f"resume: run {run_id} has cut {done} of {amount(videos, 'video')}", "resumed")
    if done < videos:
        job.say("cut: starting Ray", "starting")
        # Imported here: a job with nothing to do must not pay for Ray.
        from pipeline.build import cut_run  # noqa: PLC0415
        from pipeline.cluster import connect  # noqa: PLC0415
        from pipeline.resources import check_cluster, waiting  # noqa: PLC0415

        ray.enter_context(connect(job.say))
        check_cluster(job.settings, captions=False)
        flow = Flow()
        look = CutLook(job.glance(run_id, CUT_CHECKPOINT).count, videos, flow)
        with show_progress(look, job.say, waiting):
            cut_run(dataset, run_id, job.settings, flow)
    reconcile_cuts(dataset, run_id)
    retry = run["retry"]
    codes = None if retry is None or retry["codes"] is None else frozenset(retry["codes"])
    counts = write_clips(dataset, run_id, None if retry is None else Retry(codes))
    job.say(
        f"cut: {amount(counts.planned - counts.uncut, 'clip')} to caption"
        + (f", {amount(counts.uncut, 'video')} cannot be cut" if counts.uncut else ""),
        "cut",
    )
    return counts


def _caption(job: Job, run_id: str, counts: RunCounts, ray: ExitStack, resumed: bool) -> int:
    """Caption what is left of a run's manifest. Returns how many clips that were."""
    dataset, settings = job.dataset, job.settings
    planned = counts.planned - counts.uncut
    commits = Commits(dataset, run_id)
    settle(dataset, run_id)
    done = commits.count()
    if resumed:
        job.say(f"resume: run {run_id} has {done} of {amount(planned, 'clip')}", "resumed")
    if done < planned:
        job.say(f"caption: starting Ray and {settings.models.target}", "starting")
        spec = job.backend.frame_spec(settings.models, settings.frames)
        # Imported here, as in `_cut`.
        from pipeline.build import caption_run  # noqa: PLC0415
        from pipeline.cluster import connect  # noqa: PLC0415
        from pipeline.resources import check_cluster, waiting  # noqa: PLC0415

        ray.enter_context(connect(job.say))
        check_cluster(settings, captions=True)
        schedule = plan_schedule(settings, spec, planned - done)
        glance = job.glance(run_id)
        with progress_gauges(run_id, planned) as export:

            def count() -> int:
                committed = glance.count()
                export(committed)
                return committed

            flow = Flow()
            with show_progress(CaptionLook(count, planned, flow), job.say, waiting):
                caption_run(dataset, run_id, settings, spec, job.backend, schedule, flow=flow)
    return planned - done
