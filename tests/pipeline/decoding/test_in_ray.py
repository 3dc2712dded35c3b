"""The decoder process inside Ray's workers: it outlives tasks, trouble stays in its row, and frames
are copied once, into the object store.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray.data

from lvspec.video import Clip, FrameSpec, VideoInfo
from pipeline.config import VideoSettings
from pipeline.frames import unpack
from pipeline.stages.decode import decode_table
from tests.pipeline.decoding import misbehaving
from tests.pipeline.decoding.measure_throughput import manifest_row
from tests.pipeline.videos import write_video

SPEC = FrameSpec(count=4, factor=28, min_pixels=28 * 28, max_pixels=56 * 56)


def name_process(source: Any, spec: FrameSpec, *, allocate: Any, **options: Any) -> Clip:
    """A clip whose `codec` says which process decoded it; too large to travel in messages."""
    info = VideoInfo("pyav", str(os.getpid()), "mp4", 25.0, 1.0, 280, 280, 0, 0, 1.0, 4, 4, False)
    return Clip(allocate((4, 280, 280, 3)), np.arange(4.0), info)


def look(table: pa.Table) -> pa.Table:
    """What the caption stage is handed: are its frames in the object store's own memory?"""
    lines = Path("/proc/self/maps").read_text().splitlines()
    store = [line.split()[0].split("-") for line in lines if "plasma" in line]
    rows: list[dict[str, Any]] = []
    for index, row in enumerate(table.drop_columns(["frames"]).to_pylist()):
        in_store = None
        if row["status"] == "ok":
            at = unpack(table, index)[0].ctypes.data
            in_store = any(int(low, 16) <= at < int(high, 16) for low, high in store)
        picked = {name: row[name] for name in ("clip_id", "status", "error_code", "codec")}
        rows.append({**picked, "in_store": in_store})
    return pa.Table.from_pylist(rows)


def run(uris: list[Path], read: Any, video: VideoSettings) -> list[dict[str, Any]]:
    rows = [{**manifest_row(uri), "clip_id": str(i)} for i, uri in enumerate(uris)]
    decode = partial(
        decode_table, run_id="r", spec=SPEC, video=video, storage={}, read=read
    )  # as pipeline.build has it
    return (
        ray.data.from_items(rows, override_num_blocks=len(rows) // 2)
        .map_batches(decode, batch_size=None, batch_format="pyarrow", num_cpus=1)
        .map_batches(
            look,
            batch_size=4,
            batch_format="pyarrow",
            zero_copy_batch=True,
            num_cpus=0.5,  # other resources, as captioning has: not fused with decoding
        )
        .take_all()
    )


@pytest.mark.usefixtures("local_ray")
def test_one_process_per_worker_serves_all_of_its_tasks() -> None:
    done = run([Path(f"/{i}.mp4") for i in range(16)], name_process, VideoSettings())
    assert sorted(int(row["clip_id"]) for row in done) == list(range(16))
    assert len({row["codec"] for row in done}) <= (os.cpu_count() or 1)
    assert {row["in_store"] for row in done} == {True}


@pytest.mark.usefixtures("local_ray")
def test_trouble_stays_in_its_row(tmp_path: Path) -> None:
    write_video(tmp_path / "good.mp4", brightness=100)
    names = ["good", "abort_1", "good", "hang_1", "grow_1", "good"]
    video = VideoSettings(timeout_s=12, memory_mb=400)
    done = run([tmp_path / f"{name}.mp4" for name in names], misbehaving.read, video)
    codes = [row["error_code"] for row in sorted(done, key=lambda row: int(row["clip_id"]))]
    trouble = ["decode_timeout", "decode_memory"]
    assert codes == [None, "decode_crashed", None, *trouble, None]
