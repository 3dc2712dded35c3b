"""No frame is copied more than twice between decoder and model: the decoder process writes it into
memory that the decode task shares (one), Ray puts the block into its object store (two), and the
model's processor reads it there. Nothing on the way cuts blocks of frames.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lvspec.config import DecodeSettings, FrameSettings, ModelSettings
from lvspec.types import Generation, Request
from lvspec.video import FrameSpec
from pipeline.backend import Backend
from pipeline.benchmark.synthetic import RUN, settings_for, write_manifest
from pipeline.build import caption_run
from pipeline.schedule import plan_schedule
from pipeline.stages.decode import decode_table
from tests.pipeline.fakes import STATS
from tests.pipeline.videos import write_video

SPEC = FrameSpec(count=32, factor=28, min_pixels=448 * 448, max_pixels=448 * 448)
CLIP_BYTES = 32 * 448 * 448 * 3  # 18 MiB: six in a block
ROWS = 14


class Looking:
    """Says in which mapping of this process the frames of each clip lie."""

    def __init__(self, models: ModelSettings, decoding: DecodeSettings) -> None:
        pass

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        return ["?" for _ in token_ids]

    def run(self, requests: Iterable[Request], **asked: bool) -> Iterator[Generation]:
        for request in requests:
            assert request.frames.nbytes == CLIP_BYTES
            address = request.frames.__array_interface__["data"][0]
            yield Generation(request.id, mapping_of(address), (1,), "stop", STATS)


def mapping_of(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, name = line.split(maxsplit=5)
        start, end = (int(part, 16) for part in span.split("-"))
        if start <= address < end:
            return name
    return "nowhere"


def watched(table: pa.Table, *, log: Path, **given: Any) -> Iterator[pa.Table]:
    """`decode_table`; notes the most that Arrow ever allocated in this worker: by earlier tasks."""
    with log.open("a") as out:
        print(os.getpid(), pa.default_memory_pool().max_memory(), file=out)
    yield from decode_table(table, **given)


def spec_of(models: ModelSettings, frames: FrameSettings) -> FrameSpec:
    return SPEC


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")
def test_frames_are_copied_into_the_object_store_and_nowhere_else(
    tmp_path: Path, local_ray: None
) -> None:
    video, log = write_video(tmp_path / "a.mp4", brightness=90, frames=40), tmp_path / "log.txt"
    dataset = write_manifest(tmp_path / "out", ROWS, [video])
    settings = settings_for(tmp_path / "out")
    schedule = plan_schedule(settings, SPEC, ROWS)
    assert schedule.rows_per_block == 6
    backend, decode = Backend(spec_of, Looking), partial(watched, log=log)
    caption_run(dataset, RUN, settings, SPEC, backend, schedule, decode)
    staged = dataset.parquet_files(dataset.run(RUN, "rows"))
    places = [place for file in staged for place in pq.read_table(file)["caption"].to_pylist()]
    assert len(places) == ROWS
    assert all("plasma" in place for place in places), set(places)
    peaks = [int(line.split()[1]) for line in log.read_text().splitlines()]
    assert len(peaks) == 3  # the last says what the first two needed
    assert max(peaks) < CLIP_BYTES
