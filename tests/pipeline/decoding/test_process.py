"""The decoder process under files that hang, crash and eat memory: one row each, nothing left."""

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lvspec.video import FrameSpec
from pipeline.config import VideoSettings
from pipeline.decoding.process import _children, decoder_process, private_bytes
from pipeline.frames import unpack
from pipeline.stages.decode import decode_table
from tests.lvspec.video import small
from tests.pipeline.decoding import misbehaving
from tests.pipeline.decoding.measure_throughput import KINDS, manifest_row, measure, write_moving
from tests.pipeline.decoding.processes import children, num_open_files
from tests.pipeline.videos import write_video

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SPEC = FrameSpec(count=4, factor=28, min_pixels=28 * 28, max_pixels=56 * 56)
LIMITS = VideoSettings(timeout_s=60, memory_mb=400)
IMPATIENT = VideoSettings(timeout_s=3, memory_mb=400)  # where a file hangs
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("videos")
    write_video(path / "good.mp4", brightness=100)
    return path


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    decoder_process().close()


def decode(folder: Path, *names: str, video: VideoSettings = LIMITS) -> list[dict[str, Any]]:
    """The files' rows after decoding with the misbehaving decoder, frames checked and left out."""
    rows = [manifest_row(folder / f"{name}.mp4") for name in names]
    table = pa.Table.from_pylist(rows)
    done = list(
        decode_table(table, run_id="r", spec=SPEC, video=video, storage={}, read=misbehaving.read)
    )
    assert [t["clip_id"][0].as_py() for t in done] == [row["clip_id"] for row in rows]
    for decoded in done:
        if decoded["status"][0].as_py() == "ok":
            assert abs(float(unpack(decoded, 0)[0].mean()) - 100) < 3
    return [decoded.drop_columns(["frames"]).to_pylist()[0] for decoded in done]


@pytest.mark.parametrize(
    ("trouble", "code", "words"),
    [
        ("hang", "decode_timeout", "not done after 3 s"),
        ("abort", "decode_crashed", "died of SIGABRT"),
        ("segfault", "decode_crashed", "died of SIGSEGV"),
        ("leave", "decode_crashed", "ended with 7"),
        ("grow", "decode_memory", "more than 400 MB"),
        ("huge", "decode_memory", "an allocation failed"),
        ("odd", "decode_crashed", "ValueError: no such thing"),
    ],
)
def test_trouble_costs_its_own_row_only(folder: Path, trouble: str, code: str, words: str) -> None:
    video = IMPATIENT if trouble == "hang" else LIMITS
    before, bad, after = decode(folder, "good", f"{trouble}_1", "good", video=video)
    assert (before["status"], after["status"]) == ("ok", "ok")
    assert (bad["status"], bad["error_stage"], bad["error_code"]) == ("error", "decode", code)
    assert words in bad["error_message"]


def test_a_bomb_costs_its_own_row_only(folder: Path, tmp_path: Path) -> None:
    """2.6 KB of MP4 whose index promises 40 million pictures: FFmpeg expands it to 3 GB."""
    video = VideoSettings(memory_mb=200)
    write_index_bomb(tmp_path / "bomb.mp4", num_pictures=40_000_000)
    rows = [manifest_row(tmp_path / "bomb.mp4"), manifest_row(folder / "good.mp4")]
    done = decode_table(pa.Table.from_pylist(rows), run_id="r", spec=SPEC, video=video, storage={})
    bomb, good = (t["error_code"][0].as_py() for t in done)
    # on a starved machine FFmpeg is done before anyone has looked at its memory
    assert (bomb in ("decode_memory", "no_frames"), good) == (True, None)


def write_index_bomb(path: Path, num_pictures: int) -> None:
    data = bytearray(small.write(path, 20).read_bytes())
    tables = {  # of the index: one chunk of pictures of one byte and 512 ticks each
        b"stsz": struct.pack(">II", 1, num_pictures),
        b"stts": struct.pack(">III", 1, num_pictures, 512),
        b"stsc": struct.pack(">IIII", 1, 1, num_pictures, 1),
        b"stco": struct.pack(">I", 1),
    }
    for kind, body in tables.items():
        start = data.index(kind) + 8  # behind the box's type, version and flags
        data[start : start + len(body)] = body
    path.write_bytes(data)


def test_one_process_serves_many_clips(folder: Path) -> None:
    decode(folder, "good")
    first = [child.pid for child in _children()]
    decode(folder, *["good"] * 5, "odd_1")
    assert [child.pid for child in _children()] == first
    assert len(first) == 1


def test_a_leak_costs_no_row_and_does_not_stay(folder: Path) -> None:
    rows = decode(folder, *(f"leak_{i}" for i in range(4)), "good")
    assert [row["status"] for row in rows] == ["ok"] * 5
    assert sum(private_bytes(child.pid) for child in _children()) < 300 << 20


def test_what_an_earlier_clip_broke_costs_no_later_clip(folder: Path) -> None:
    rows = decode(folder, "good", "break_heap_1", "good", "good")
    assert [row["status"] for row in rows] == ["ok"] * 4


def test_a_clip_that_kills_its_process_twice_is_not_tried_again(folder: Path) -> None:
    runs = folder / "runs"
    decode(folder, "good")
    (bad,) = decode(folder, "count_1")
    assert bad["error_code"] == "decode_crashed"
    assert runs.read_text().splitlines() == ["run"] * 2


def test_a_process_killed_while_idle_is_replaced(folder: Path) -> None:
    decode(folder, "good")
    (child,) = _children()
    child.kill()
    child.join()
    time.sleep(0.3)  # time for the pool to notice and give up
    assert decode(folder, "good")[0]["status"] == "ok"


def test_nothing_is_left_after_trouble(folder: Path) -> None:
    _nothing_left(folder, rounds=1)


@pytest.mark.slow
def test_nothing_is_left_after_fifty(folder: Path) -> None:
    _nothing_left(folder, rounds=10)


def _nothing_left(folder: Path, rounds: int) -> None:
    decode(folder, "good")
    before = num_open_files(), threading.active_count(), len(children())
    for i in range(rounds):
        rows = decode(folder, *(f"{name}_{i}" for name in ("abort", "grow", "huge", "odd")))
        rows += decode(folder, f"hang_{i}", video=IMPATIENT)
        assert {row["status"] for row in rows} == {"error"}
    decode(folder, "good")
    assert (num_open_files(), threading.active_count(), len(children())) == before
    assert "Z" not in children().values()
    assert not list(Path("/dev/shm").glob("lvspec*"))
    decoder_process().close()
    assert not _children()


ORPHAN = """
import sys
sys.path.insert(0, {root!r})
from tests.pipeline.decoding.test_process import LIMITS, SPEC, decode
from pipeline.config import VideoSettings
from pathlib import Path
if __name__ == "__main__":
    decode(Path({folder!r}), "good")
    print("ready", flush=True)
    decode(Path({folder!r}), {name!r}, video=VideoSettings(timeout_s=1000))
    print("waiting", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("name", ["hang_1", "good"])
def test_it_dies_with_the_process_that_asks(folder: Path, tmp_path: Path, name: str) -> None:
    """Killed with SIGKILL, in the middle of a hang that holds the GIL or idle."""
    script = tmp_path / "asks.py"
    script.write_text(ORPHAN.format(root=str(ROOT), folder=str(folder), name=name))
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as asks:
        assert asks.stdout is not None
        assert asks.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        started = children(asks.pid)
        assert len(started) >= 1
        os.kill(asks.pid, signal.SIGKILL)
    until = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in started):
        assert time.monotonic() < until, f"{started} outlive their parent"
        time.sleep(0.05)


def test_if_no_process_starts_the_job_hears_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken installation must not turn a corpus into error rows."""
    monkeypatch.setattr("multiprocessing.spawn._python_exe", b"/bin/false")
    with pytest.raises(RuntimeError, match="no decoder process starts"):
        decode(folder, "good")


def test_its_imports_are_light() -> None:
    code = "import sys, pipeline.decoding.child; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    heavy = {"torch", "transformers", "ray", "pyarrow", "pydantic", "pandas", "s3fs"}
    assert not heavy & set(done.stdout.split())


@pytest.mark.slow
def test_memory_is_flat_over_a_thousand_videos(folder: Path) -> None:
    paths = [write_moving(folder / f"v{i}.mp4", (640, 360), seconds=1 + i) for i in range(4)]
    rows = [manifest_row(path) for path in paths] * 275
    spec = FrameSpec(count=16, factor=28, min_pixels=28 * 28, max_pixels=100352)
    held: list[tuple[int, int]] = []
    tables = decode_table(
        pa.Table.from_pylist(rows), run_id="r", spec=spec, video=VideoSettings(), storage={}
    )
    for number, table in enumerate(tables):
        assert table["status"].to_pylist() == ["ok"]
        if number in (99, 1099):
            (child,) = _children()
            held.append((private_bytes(os.getpid()), private_bytes(child.pid)))
    grown = [(after - before) / misbehaving.MB for before, after in zip(*held, strict=True)]
    print(f"grown by {grown[0]:.1f} MB here, {grown[1]:.1f} MB in the decoder process")
    assert max(grown) < 16


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_throughput_is_that_of_decoding_in_process(tmp_path: Path, kind: str) -> None:
    """The ratio of runs in turn; the machine must be quiet for it to say much."""
    cost = measure(kind, tmp_path, rounds=15)
    print(kind, cost)
    assert cost.ratio < 1.1
