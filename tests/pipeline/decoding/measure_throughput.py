"""What the decoder process costs: python tests/pipeline/decoding/measure_throughput.py [rounds]

The same clips, in turn, decoded in this process (and their frames copied into an Arrow table, as a
stage without a decoder process has to) and by the decode stage. Printed per kind of clip: the
median over rounds of the ratio of wall time, and CPU milliseconds per clip of each way, the child's
included.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from lvspec.video import FrameSpec, read_clip
from pipeline.config import VideoSettings
from pipeline.decoding.process import _children
from pipeline.frames import pack
from pipeline.schema import DECODED
from pipeline.stages.decode import decode_table

KINDS = {  # size, seconds, frames taken, at how many pixels: what 2B to 32B models are given
    "320 x 240, 5 s -> 8 frames": ((320, 240), 5, FrameSpec(8, 28, 56 * 56, 112 * 112)),
    "640 x 360, 10 s -> 16 frames": ((640, 360), 10, FrameSpec(16, 28, 56 * 56, 100352)),
    "1280 x 720, 10 s -> 64 frames": ((1280, 720), 10, FrameSpec(64, 28, 56 * 56, 200704)),
}


@dataclass(frozen=True)
class Cost:
    """ratio: wall time through the decoder process / in this process; CPU milliseconds per clip."""

    ratio: float
    here_ms: float
    child_ms: float


def write_moving(path: Path, size: tuple[int, int], seconds: int) -> Path:
    """H.264 of a drifting noise picture, 25 frames per second: neither empty nor incompressible."""
    width, height = size
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 255, (height // 8 + 1, width // 8 + 40, 3), np.uint8)
    picture = coarse.repeat(8, axis=0).repeat(8, axis=1)[:height]
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=25, options={"preset": "veryfast", "threads": "1"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for i in range(25 * seconds):
            shown = np.ascontiguousarray(picture[:, i % 300 : i % 300 + width])
            out.mux(stream.encode(av.VideoFrame.from_ndarray(shown, "rgb24")))
        out.mux(stream.encode(None))
    return path


def manifest_row(path: Path) -> dict[str, Any]:
    base = {"clip_id": path.name, "video_id": path.name, "uri": str(path), "source_version": "v"}
    return {**base, "start_s": None, "end_s": None, "prompt": None, "size_bytes": None}


def in_this_process(row: dict[str, Any], spec: FrameSpec) -> pa.Table:
    clip = read_clip(row["uri"], spec)
    full = {**row, **pack(clip.frames, clip.times_s), "run_id": "r", "status": "ok"}
    return pa.Table.from_pylist([full], schema=DECODED)


def in_the_decoder_process(row: dict[str, Any], spec: FrameSpec) -> pa.Table:
    table = pa.Table.from_pylist([row])
    (decoded,) = decode_table(table, run_id="r", spec=spec, video=VideoSettings(), storage={})
    assert decoded["status"].to_pylist() == ["ok"]
    return decoded


def child_cpu_s() -> float:
    stats = [Path(f"/proc/{child.pid}/schedstat").read_text() for child in _children()]
    return sum(int(stat.split()[0]) for stat in stats) / 1e9


def timed(decode: Callable[[], Any]) -> tuple[float, float]:
    """(wall, CPU) seconds."""
    wall, cpu, child = time.perf_counter(), time.process_time(), child_cpu_s()
    decode()
    cpu_s = time.process_time() - cpu + child_cpu_s() - child
    return time.perf_counter() - wall, cpu_s


def measure(kind: str, folder: Path, rounds: int, clips: int = 4) -> Cost:
    """Rounds of `clips` clips each way, in turn; which way goes first alternates."""
    size, seconds, spec = KINDS[kind]
    row = manifest_row(write_moving(folder / "clip.mp4", size, seconds))
    ways = (in_this_process, in_the_decoder_process)
    for way in ways:
        way(row, spec)  # imports, and the child's start
    ratios: list[float] = []
    cpu = [0.0, 0.0]
    for number in range(rounds):
        wall = [0.0, 0.0]
        for which in (0, 1) if number % 2 else (1, 0):
            wall[which], cpu_s = timed(
                lambda way=ways[which]: [way(row, spec) for _ in range(clips)]
            )
            cpu[which] += cpu_s
        ratios.append(wall[1] / wall[0])
    here_ms, child_ms = (1000 * total / rounds / clips for total in cpu)
    return Cost(statistics.median(ratios), here_ms, child_ms)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print("| clip | wall, ratio | CPU here | CPU with the decoder process |\n|---|---|---|---|")
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            cost = measure(kind, Path(folder), rounds)
        print(f"| {kind} | {cost.ratio:.3f} | {cost.here_ms:.1f} ms | {cost.child_ms:.1f} ms |")


if __name__ == "__main__":
    main()
