"""kill -9 the job, run the same command: every clip exactly once. Real processes, two CPUs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
import pytest

from pipeline.commits import Commits, settle
from pipeline.config import load_config
from pipeline.corpus import dry_run
from pipeline.dataset import Dataset
from pipeline.verify import verify
from tests.pipeline.fakes import FAKE
from tests.pipeline.videos import write_corpus

JOB = Path(__file__).with_name("fake_job.py")


def command(folder: Path, clip_s: float) -> list[str]:
    config = folder / "job.yaml"
    clips = "{mode: windows, length_s: 0.3, minimum_s: 0.1}" if (folder / "cut").exists() else "{}"
    config.write_text(
        f"source: {{prefix: {folder / 'videos'}}}\n"
        f"output: {folder / 'out'}\n"
        f"models: {{target: 'slow:{clip_s}'}}\n"
        "run: {rows_per_commit: 2, max_error_share: 1}\n"
        f"clips: {clips}\n"
    )
    return [sys.executable, str(JOB), "--config", str(config)]


def published_ids(folder: Path) -> list[str]:
    files = [
        str(p)
        for kind in ("captions", "errors")
        for p in (folder / "out" / kind).rglob("*.parquet")
    ]
    return [clip for file in files for clip in pq.read_table(file)["clip_id"].to_pylist()]


def commits(folder: Path) -> int:
    done = list((folder / "out" / "runs").rglob("checkpoint/*.parquet"))
    return sum(not p.name.endswith(".pending.parquet") for p in done)


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 120) -> None:
    until = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until, f"no {what} within {timeout_s} s"
        time.sleep(0.05)


def kill_when(folder: Path, condition: Callable[[], bool], what: str) -> None:
    """Start the job and kill -9 its process once `condition` holds."""
    with subprocess.Popen(
        command(folder, 0.4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as job:
        try:
            wait_for(lambda: condition() or job.poll() is not None, what)
            assert job.poll() is None, f"the job ended before {what}"
        finally:
            os.kill(job.pid, signal.SIGKILL)


def finish(folder: Path) -> dict[str, object]:
    done = subprocess.run(
        command(folder, 0.4), capture_output=True, text=True, timeout=240, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def check_complete(folder: Path, clips: int) -> None:
    ids = published_ids(folder)
    assert len(ids) == clips
    assert len(set(ids)) == clips
    captions = pds.dataset(str(folder / "out" / "captions"), partitioning="hive").to_table()
    assert captions["caption"].null_count == 0


def test_killed_between_commits_and_resumed(tmp_path: Path) -> None:
    write_corpus(tmp_path / "videos", good=8)
    kill_when(tmp_path, lambda: commits(tmp_path) >= 2, "two commits")
    before = commits(tmp_path)
    plan = dry_run(load_config(tmp_path / "job.yaml"), backend=FAKE)
    assert plan.unfinished is not None
    assert plan.committed == 2 * before
    summary = finish(tmp_path)
    assert summary["manifest_rows"] == 10
    (resumed,) = cast(list[dict[str, object]], summary["resumed_runs"])
    assert (resumed["run_id"], resumed["manifest_rows"]) == (plan.unfinished, 10)
    assert commits(tmp_path) >= max(before, 5)
    check_complete(tmp_path, 10)
    # Only the other clips were captioned again: what was committed stayed as it was.
    staged = list((tmp_path / "out" / "runs").rglob("rows/*.parquet"))
    assert sum(pq.read_metadata(p).num_rows for p in staged) == 10


@pytest.mark.slow
def test_killed_again_and_again_at_other_moments(tmp_path: Path) -> None:
    write_corpus(tmp_path / "videos", good=10)
    runs = tmp_path / "out" / "runs"
    kill_when(tmp_path, lambda: any(runs.rglob("manifest/*")), "a manifest")
    kill_when(tmp_path, lambda: any(runs.rglob("*.pending.parquet")), "a pending commit")
    kill_when(tmp_path, lambda: commits(tmp_path) >= 4, "four commits")
    finish(tmp_path)
    check_complete(tmp_path, 12)


@pytest.mark.slow
def test_killed_while_videos_are_cut_and_while_their_clips_are_captioned(tmp_path: Path) -> None:
    (tmp_path / "cut").touch()
    write_corpus(tmp_path / "videos", good=10)  # of half a second: two clips each
    runs = tmp_path / "out" / "runs"
    kill_when(tmp_path, lambda: any(runs.rglob("cut_checkpoint/*")), "a cut video")
    kill_when(tmp_path, lambda: any(runs.rglob("counts.json")), "a manifest")
    kill_when(tmp_path, lambda: commits(tmp_path) >= 2, "two commits")
    summary = finish(tmp_path)
    assert summary["manifest_rows"] == 22
    check_complete(tmp_path, 22)
    assert verify(Dataset.open(str(tmp_path / "out"), {})).findings == []


def test_a_rename_cut_in_two_loses_nothing(tmp_path: Path) -> None:
    """On object storage a rename is copy and delete; between them both files exist."""
    dataset = Dataset.open(str(tmp_path), {})
    ids = pa.table({"clip_id": ["a", "b"]})
    folder = dataset.run("r", "checkpoint")
    for name in ("one.parquet", "one.pending.parquet", "two.pending.parquet"):
        dataset.write_parquet(f"{folder}/{name}", ids)
    settle(dataset, "r")
    left = [Path(path).name for path in dataset.parquet_files(folder)]
    assert left == ["one.parquet", "two.pending.parquet"]
    assert Commits(dataset, "r").count() == 2
