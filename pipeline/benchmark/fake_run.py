"""One run of the product's plan with an engine of set speed, and what its clips say of it."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.benchmark.engine import SPEC, Service, ServiceTimes, fake_backend, service_of
from pipeline.benchmark.makespan import ideal_s, list_s
from pipeline.benchmark.synthetic import RUN, clip_ids, no_frames, settings_for, write_manifest
from pipeline.build import caption_run
from pipeline.dataset import Dataset
from pipeline.schedule import Schedule, plan_schedule


@dataclass(frozen=True)
class Pool:
    """Caption actors of `slots` slots each, one logical GPU an actor; `least` of them at first."""

    actors: int
    slots: int = 1
    least: int | None = None

    @property
    def setting(self) -> str:
        return f"caption.actors=[{self.least or self.actors}, {self.actors}]"


@dataclass(frozen=True)
class FakePoint:
    """One run. window_s: from the first clip that entered a slot to the last that left one.

    ideal_s, list_s: see `makespan`. efficiency: ideal_s / window_s. of_list: list_s / window_s:
    what is lost to the plan itself, not to the order of clips whose length nobody knows.
    busy, ramp, gaps, tail: shares of the slots' time in the window: with a clip, before the first
    of their engine, between two, after the last.
    """

    rows: int
    actors: int
    slots: int
    rows_per_block: int
    calls_per_actor: int
    window_s: float
    ideal_s: float
    list_s: float
    efficiency: float
    of_list: float
    busy: float
    ramp: float
    gaps: float
    tail: float
    rows_per_s: float


def fake_run(rows: int, pool: Pool, times: ServiceTimes, schedule: Schedule | None) -> FakePoint:
    """Caption `rows` made-up clips; `schedule` None is the product's own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dataset = write_manifest(folder, rows)
        settings = settings_for(
            folder, pool.setting, "caption.num_gpus=1", f"decoding.slots={pool.slots}"
        )
        chosen = schedule or plan_schedule(settings, SPEC, rows)
        backend = fake_backend(replace(times, place=name))
        caption_run(dataset, RUN, settings, SPEC, backend, chosen, no_frames)
        services = read_services(dataset)
    return summarize(services, rows, pool, times, chosen)


def read_services(dataset: Dataset) -> list[Service]:
    files = dataset.parquet_files(dataset.run(RUN, "rows"))
    return [
        service_of(row)
        for file in files
        for row in pq.read_table(file, columns=["caption"]).to_pylist()
    ]


def summarize(
    services: Sequence[Service], rows: int, pool: Pool, times: ServiceTimes, schedule: Schedule
) -> FakePoint:
    """Raises RuntimeError if not every clip was served once."""
    if len(services) != rows:
        raise RuntimeError(f"{rows} clips went in, {len(services)} came out")
    started, ended = min(s.start_s for s in services), max(s.end_s for s in services)
    window_s, servers = ended - started, pool.actors * pool.slots
    expected = [times.of(clip) for clip in clip_ids(0, rows)]
    bound, greedy = ideal_s(expected, servers), list_s(expected, servers)
    spans = [
        (min(s.start_s for s in own), max(s.end_s for s in own))
        for worker in {s.worker for s in services}
        for own in ([s for s in services if s.worker == worker],)
    ]
    whole = window_s * servers
    busy = sum(s.end_s - s.start_s for s in services) / whole
    absent = (pool.actors - len(spans)) * pool.slots * window_s / whole
    ramp = absent + pool.slots * sum(first - started for first, _ in spans) / whole
    tail = pool.slots * sum(ended - last for _, last in spans) / whole
    return FakePoint(
        rows=rows,
        actors=pool.actors,
        slots=pool.slots,
        rows_per_block=schedule.rows_per_block,
        calls_per_actor=schedule.calls_per_actor,
        window_s=window_s,
        ideal_s=bound,
        list_s=greedy,
        efficiency=bound / window_s,
        of_list=greedy / window_s,
        busy=busy,
        ramp=ramp,
        gaps=1 - busy - ramp - tail,
        tail=tail,
        rows_per_s=rows / window_s,
    )
