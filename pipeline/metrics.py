"""What a run tells Prometheus. Workers and the driver record here, and Ray's metrics agent of their
node exports it with the prefix `ray_`, counters also with `_total`.

Sums are counters, so that any window has its exact rate: tau is accepted tokens per round, speedup
is plain seconds per decode second. They count work: clips that are captioned again after a kill
count twice, here alone. Outside Ray nothing is recorded, and Ray drops what is where it exports
none. The table in docs/watch.md is `python -m pipeline.metrics`.
"""

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute

pc: Any = pyarrow.compute  # its functions are made at import, so type checkers see none

READ_BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
GAUGE_EVERY_S = 5.0
NO_CODE = "none"  # of clips that are ok: Prometheus has no empty labels


@dataclass(frozen=True)
class Metric:
    """`name` as it is recorded; `unit` and `meaning` are for people."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def exported(self) -> str:
        """As Prometheus has it; a histogram also ends in _bucket, _sum, _count."""
        return f"ray_{self.name}{'_total' if self.kind == 'counter' else ''}"


RUN = ("run",)
CLIPS = Metric(
    "lvspec_clips",
    "counter",
    "clips",
    ("run", "status", "code"),
    "clips that came out of captioning: `ok` with code `none`, or `error` with the row's code",
)
CUT_FAILURES = Metric(
    "lvspec_cut_failures",
    "counter",
    "videos",
    ("run", "code"),
    "videos that could not be cut into clips",
)
# Sums of columns of captioned clips.
SUMS = {
    "num_generated_tokens": Metric("lvspec_tokens", "counter", "tokens", RUN, "caption tokens"),
    "num_spec_steps": Metric("lvspec_rounds", "counter", "rounds", RUN, "rounds of decoding"),
    "num_draft_tokens": Metric("lvspec_draft_tokens", "counter", "tokens", RUN, "drafted tokens"),
    "num_accepted_draft_tokens": Metric(
        "lvspec_accepted_tokens", "counter", "tokens", RUN, "drafted tokens that were accepted"
    ),
    "prefill_s": Metric("lvspec_prefill_seconds", "counter", "s", RUN, "sum of `prefill_s`"),
    "decode_s": Metric("lvspec_decode_seconds", "counter", "s", RUN, "sum of `decode_s`"),
    "plain_s": Metric("lvspec_plain_seconds", "counter", "s", RUN, "sum of `plain_s`"),
}
READ = Metric(
    "lvspec_read_seconds",
    "histogram",
    "s",
    ("run", "status"),
    "time to read and decode the video of a clip, by how that ended",
)
BUSY = Metric(
    "lvspec_caption_busy_seconds",
    "counter",
    "s",
    RUN,
    "time in which a caption actor had at least one call; its rate is the number of busy actors",
)
PLANNED = Metric("lvspec_planned_clips", "gauge", "clips", RUN, "clips of the run, from the driver")
COMMITTED = Metric(
    "lvspec_committed_clips", "gauge", "clips", RUN, "those that are committed, from the driver"
)
METRICS = (CLIPS, CUT_FAILURES, *SUMS.values(), READ, BUSY, PLANNED, COMMITTED)


def count_read(row: dict[str, Any]) -> None:
    """A DECODED row, with its run."""
    if _in_ray():
        tags = {"run": row["run_id"], "status": row["status"]}
        _recorder(READ).observe(float(row["read_s"]), tags)


def count_captioned(table: pa.Table) -> None:
    """ROWS that came out of captioning, all of one run."""
    if not table.num_rows or not _in_ray():
        return
    run = table["run_id"][0].as_py()
    codes = table["error_code"].fill_null(NO_CODE)
    counted = pa.table({"status": table["status"], "code": codes}).group_by(["status", "code"])
    for row in counted.aggregate([([], "count_all")]).to_pylist():
        _add(CLIPS, row["count_all"], run=run, status=row["status"], code=row["code"])
    for column, metric in SUMS.items():
        _add(metric, pc.sum(table[column]).as_py(), run=run)


def count_uncut(code: str, run_id: str) -> None:
    """A video that could not be cut."""
    if _in_ray():
        _add(CUT_FAILURES, 1, run=run_id, code=code)


@contextmanager
def progress_gauges(run_id: str, planned: int) -> Generator[Callable[[int], None]]:
    """For the driver, while a run captions: gives what is to be told how many clips are committed.
    Ray drops a gauge that is not set again for 20 s, so a thread repeats the last value.
    """
    committed, stop = 0, threading.Event()

    def set_committed(count: int) -> None:
        nonlocal committed
        committed = count

    def export() -> None:
        if _in_ray():
            _recorder(COMMITTED).set(committed, {"run": run_id})
            _recorder(PLANNED).set(planned, {"run": run_id})

    def repeat() -> None:
        while not stop.wait(GAUGE_EVERY_S):
            export()

    thread = threading.Thread(target=repeat, name="gauges", daemon=True)
    thread.start()
    try:
        yield set_committed
    finally:
        stop.set()
        thread.join()
        export()


class BusyClock:
    """Records the time in which at least one of an actor's calls runs; they may overlap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._since = 0.0

    @contextmanager
    def call(self, run_id: str) -> Generator[None]:
        with self._lock:
            if not self._calls:
                self._since = time.monotonic()
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                now = time.monotonic()
                busy_s, self._since = now - self._since, now
                self._calls -= 1
            if _in_ray():
                _add(BUSY, busy_s, run=run_id)


def _add(metric: Metric, amount: float | None, **tags: str) -> None:
    if amount:  # Ray refuses to add nothing
        _recorder(metric).inc(float(amount), tags)


def _in_ray() -> bool:
    ray = sys.modules.get("ray")  # not imported for this: stages also run without
    return ray is not None and ray.is_initialized()


@cache
def _recorder(metric: Metric) -> Any:
    from ray.util import metrics  # noqa: PLC0415

    name, about, labels = metric.name, metric.meaning, metric.labels
    if metric.kind == "histogram":
        return metrics.Histogram(name, about, list(READ_BOUNDS_S), labels)
    kind = metrics.Counter if metric.kind == "counter" else metrics.Gauge
    return kind(name, about, labels)


def to_markdown() -> str:
    """The table of docs/watch.md."""
    lines = ["| metric | type | unit | labels | meaning |", "|---|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        cells = (f"`{metric.exported}`", metric.kind, metric.unit, labels, metric.meaning)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(to_markdown(), end="")
