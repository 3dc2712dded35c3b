"""What the plan itself costs: runs with an engine that takes no time and no decoding, and the
start of a run that is half done.
"""

import resource
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lvspec.config import DecodeSettings, ModelSettings
from lvspec.types import Generation, Request
from pipeline.backend import Backend
from pipeline.benchmark.clock import clocked, read_log
from pipeline.benchmark.engine import SPEC, FakeEngine, ServiceTimes, fake_backend
from pipeline.benchmark.synthetic import RUN, clip_ids, no_frames, settings_for, write_manifest
from pipeline.build import caption_run
from pipeline.commits import CHECKPOINT, Commits, settle
from pipeline.dataset import Dataset
from pipeline.errors import StoppedError
from pipeline.publish import publish
from pipeline.schedule import plan_schedule

NO_TIME = ServiceTimes(median_s=0.0)
ENOUGH = 2_000  # answers after which a resumed run is stopped: it has shown that it runs


@dataclass(frozen=True)
class Scale:
    """A run with an engine that takes no time and no decoding. peak_mb: of the driver, so far in
    its life: sizes are measured in ascending order.
    """

    rows: int
    rows_per_block: int
    caption_s: float
    rows_per_s: float
    publish_s: float
    peak_mb: float


def scale(rows: int, assignments: Sequence[str]) -> Scale:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = settings_for(folder, *assignments)
        dataset = write_manifest(folder, rows)
        schedule = plan_schedule(settings, SPEC, rows)
        began = time.monotonic()
        caption_run(dataset, RUN, settings, SPEC, fake_backend(NO_TIME), schedule, no_frames)
        caption_s = time.monotonic() - began
        began = time.monotonic()
        publish(dataset, RUN, part_bytes=settings.run.part_bytes)
        publish_s = time.monotonic() - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Scale(rows, schedule.rows_per_block, caption_s, rows / caption_s, publish_s, peak_mb)


@dataclass(frozen=True)
class Resume:
    """A run of `rows` clips, `held` of them committed in `commits` files, resumed.

    before_s: settling and counting commits, as the job does before Ray. first_s: from then to the
    first new answer: Ray Data reads the commits and leaves out their clips.
    """

    rows: int
    held: int
    commits: int
    before_s: float
    first_s: float
    peak_mb: float


def resume(rows: int, held: int, assignments: Sequence[str]) -> Resume:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = settings_for(folder, *assignments)
        dataset = write_manifest(folder, rows)
        commits = _commit(dataset, held, settings.run.rows_per_commit)
        began = time.monotonic()
        settle(dataset, RUN)
        found = Commits(dataset, RUN).count()
        before_s = time.monotonic() - began
        schedule = plan_schedule(settings, SPEC, rows - found)
        backend = clocked(Backend(fake_backend(NO_TIME).frame_spec, _make), folder)
        began = time.monotonic()
        try:
            caption_run(dataset, RUN, settings, SPEC, backend, schedule, no_frames)
        except StoppedError as error:
            if str(ENOUGH) not in str(error):
                raise
        first_s = read_log(folder).answers[0].at_s - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Resume(rows, found, commits, before_s, first_s, peak_mb)


class _Briefly:
    """An engine that takes no time and ends the run after ENOUGH answers."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine, self._answered = engine, 0

    def run(self, requests: Iterable[Request]) -> Iterator[Generation]:
        for answer in self._engine.run(requests):
            self._answered += 1
            if self._answered > ENOUGH:
                raise RuntimeError(f"stopped on purpose after {ENOUGH} answers")
            yield answer


def _make(models: ModelSettings, decoding: DecodeSettings) -> _Briefly:
    return _Briefly(FakeEngine(models, decoding, times=NO_TIME))


def _commit(dataset: Dataset, held: int, rows_per_commit: int) -> int:
    """Ids of the first `held` clips, as Ray Data leaves them in the checkpoint folder."""
    ids = clip_ids(0, held)
    starts = range(0, held, rows_per_commit)
    for number, start in enumerate(starts):
        table = pa.table({"clip_id": ids[start : start + rows_per_commit]})
        dataset.write_parquet(dataset.run(RUN, CHECKPOINT, f"{number:08d}.parquet"), table)
    return len(starts)
