"""What the plan itself costs: runs with an engine that takes no time and no decoding."""

import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.benchmark.engine import SPEC, ServiceTimes, fake_backend
from pipeline.benchmark.synthetic import RUN, no_frames, settings_for, write_manifest
from pipeline.build import caption_run
from pipeline.publish import publish
from pipeline.schedule import plan_schedule

NO_TIME = ServiceTimes(median_s=0.0)


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
