"""What is measured: a backend with the clips it captions, run through the product's plan, or its
bare engine fed from memory.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as pds
import ray

from lvspec import demo
from lvspec.demo import video
from lvspec.types import Request
from lvspec.video import read_clip
from pipeline.backend import LVSPEC, Backend
from pipeline.benchmark.clock import Answer, Clocked, clocked, read_log, steady
from pipeline.benchmark.engine import ServiceTimes, fake_backend
from pipeline.benchmark.synthetic import RUN, clip_ids, no_frames, settings_for, write_manifest
from pipeline.build import caption_run
from pipeline.config import JobSettings
from pipeline.frames import Frames
from pipeline.schedule import plan_schedule
from pipeline.stages.decode import decode_table

VIDEOS = 24  # files that the clips of a run share

Video = tuple[Frames, npt.NDArray[np.float64]]  # frames and their times


@dataclass(frozen=True)
class Subject:
    """`decode`: of the plan, see `caption_run`. `videos`: what its clips are read from."""

    backend: Backend
    decode: Callable[..., Iterator[pa.Table]]
    videos: Sequence[Path]


def fake_subject(times: ServiceTimes) -> Subject:
    return Subject(fake_backend(times), no_frames, ())


def real_subject(folder: Path) -> Subject:
    """The models of the settings on held-out demo scenes, written to `folder` as MP4 files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"scene_{number:03d}.mp4" for number in range(VIDEOS)]
    for scene, file in zip(islice(demo.heldout(7), VIDEOS), files, strict=True):
        if not file.exists():
            video.write(scene, file)
    return Subject(LVSPEC, decode_table, files)


@dataclass(frozen=True)
class PlanRun:
    """One run of the plan. Rates are after its warm-up, seconds of the whole run.

    window_s: from the first answer to the last. read_s: decode workers, wall clock; prefill_s: both
    models; engine_s: engines held clips; each summed over workers. span_s: from the first clip of
    an engine to the last. first_s: until the first answer.
    """

    clips_per_s: float
    tokens_per_s: float
    window_s: float
    first_s: float
    read_s: float
    prefill_s: float
    engine_s: float
    span_s: float


def run_plan(subject: Subject, assignments: Sequence[str], clips: int, warm: int) -> PlanRun:
    """Caption `clips` clips; the first `warm` answers do not count.

    Raises RuntimeError if not all of them got a caption.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = settings_for(folder, *assignments)
        dataset = write_manifest(folder, clips, subject.videos)
        spec = subject.backend.frame_spec(settings.models, settings.frames)
        schedule = plan_schedule(settings, spec, clips)
        backend, began = clocked(subject.backend, folder), time.monotonic()
        caption_run(dataset, RUN, settings, spec, backend, schedule, subject.decode)
        log = read_log(folder)
        files = dataset.parquet_files(dataset.run(RUN, "rows"))
        columns = ["status", "error_message", "read_s", "prefill_s"]
        rows = pds.dataset(files, filesystem=dataset.fs).to_table(columns=columns).to_pylist()
    failed = [row["error_message"] for row in rows if row["status"] != "ok"]
    if failed or len(rows) != clips:
        raise RuntimeError(f"{clips} clips, {len(rows)} rows, {len(failed)} failed: {failed[:3]}")
    clips_per_s, tokens_per_s = steady(log.answers, warm)
    return PlanRun(
        clips_per_s=clips_per_s,
        tokens_per_s=tokens_per_s,
        window_s=log.answers[-1].at_s - log.answers[0].at_s,
        first_s=log.answers[0].at_s - began,
        read_s=sum(row["read_s"] or 0.0 for row in rows),
        prefill_s=sum(row["prefill_s"] or 0.0 for row in rows),
        engine_s=log.engine_s,
        span_s=log.span_s,
    )


@dataclass(frozen=True)
class BareRun:
    """The engine alone on the same clips. decode_cpu_s: CPU seconds of decoding all of them one
    after the other in one process.
    """

    clips_per_s: float
    tokens_per_s: float
    window_s: float
    decode_cpu_s: float


def run_bare(subject: Subject, assignments: Sequence[str], clips: int, warm: int) -> BareRun:
    """In a Ray task with what a caption actor has, so that both run on the same device."""
    settings = settings_for(Path("bare"), *assignments)
    task = ray.remote(num_gpus=settings.caption.num_gpus, num_cpus=settings.caption.num_cpus)(_bare)
    return ray.get(task.remote(subject, assignments, clips, warm))


def _bare(subject: Subject, assignments: Sequence[str], clips: int, warm: int) -> BareRun:
    settings = settings_for(Path("bare"), *assignments)
    given, cpu_s = _in_memory(subject, settings)
    engine = subject.backend.make_captioner(settings.models, settings.decoding)
    requests = (
        Request(clip_id, *given[number % len(given)])
        for number, clip_id in enumerate(clip_ids(0, clips))
    )
    with tempfile.TemporaryDirectory() as name:
        for _ in Clocked(engine, Path(name)).run(requests):
            pass
        answers: tuple[Answer, ...] = read_log(Path(name)).answers
    clips_per_s, tokens_per_s = steady(answers, warm)
    window_s = answers[-1].at_s - answers[0].at_s
    return BareRun(clips_per_s, tokens_per_s, window_s, cpu_s * clips)


def _in_memory(subject: Subject, settings: JobSettings) -> tuple[list[Video], float]:
    """Frames and times of the subject's clips, and CPU seconds of decoding one."""
    if not subject.videos:
        return [(np.zeros((1, 1, 1, 3), np.uint8), np.zeros(1))], 0.0
    spec = subject.backend.frame_spec(settings.models, settings.frames)
    read_clip(str(subject.videos[0]), spec)  # imports and first allocations
    began = time.process_time()
    clips = [read_clip(str(file), spec) for file in subject.videos]
    cpu_s = (time.process_time() - began) / len(clips)
    return [(clip.frames, clip.times_s) for clip in clips], cpu_s
