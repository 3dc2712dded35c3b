"""`ray job submit` against a cluster with token authentication as it comes: the real command."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.jobs.tree import copy_tree

pytestmark = pytest.mark.slow
BIN = Path(sys.executable).parent
JOB = ("python", "jobs/caption_corpus.py", "--config", "configs/demo.yaml")
CLIPS = 10  # with two broken files below the max_error_share of the demo


def environment(**more: str) -> dict[str, str]:
    """This process's, with its interpreter first on the path, as in an activated environment."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    return {**kept, "PATH": f"{BIN}{os.pathsep}{kept['PATH']}", **more}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A head node of two CPUs; ended by its own process, never by `ray stop`, which ends all."""
    port, dashboard = free_port(), free_port()
    temp = tmp_path_factory.mktemp("r")
    command = [
        str(BIN / "ray"), "start", "--head", "--block", "--num-cpus=2", f"--port={port}",
        f"--dashboard-port={dashboard}", f"--temp-dir={temp}",
    ]  # fmt: skip
    with (
        (temp / "head.log").open("w") as log,
        subprocess.Popen(command, env=environment(), stdout=log, stderr=log) as head,
    ):
        try:
            until = time.monotonic() + 120
            while not answers(dashboard):
                assert head.poll() is None, "the head node ended"
                assert time.monotonic() < until, "no dashboard"
                time.sleep(0.5)
            yield f"http://127.0.0.1:{dashboard}"
        finally:
            head.terminate()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout with a demo corpus in it."""
    folder = copy_tree(tmp_path_factory.mktemp("checkout"))
    script = [sys.executable, "jobs/make_demo_corpus.py", "--clips", str(CLIPS)]
    subprocess.run(script, cwd=folder, check=True)
    return folder


def submit(
    tree: Path, address: str, *entrypoint: str, **env: str
) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "ray"), "job", "submit", "--address", address, "--working-dir", "."]
    return subprocess.run(
        [*command, "--", *entrypoint], cwd=tree, env=environment(**env),
        capture_output=True, text=True, timeout=480, check=False,
    )  # fmt: skip


def test_the_demo_as_submitted(tree: Path, address: str) -> None:
    done = submit(tree, address, *JOB, RAY_AUTH_MODE="token")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"ok / failed +{CLIPS} / 2", done.stdout)
    assert "is relative" in done.stdout
    place = re.search(r"^dataset +(/.+)$", done.stdout, re.MULTILINE)
    assert place is not None
    files = list(Path(place[1].strip()).rglob("*.parquet"))
    assert sum(pq.read_metadata(file).num_rows for file in files) == CLIPS


def test_an_absolute_output_stays_and_the_next_night_is_quick(
    tree: Path, address: str, tmp_path: Path
) -> None:
    prefix = f"source.prefix={tree / 'demo_corpus'}"
    job = (*JOB, "--json", "--set", f"output={tmp_path}", "--set", prefix)
    first = submit(tree, address, *job, RAY_AUTH_MODE="token")
    assert first.returncode == 0, first.stdout + first.stderr
    assert list(tmp_path.glob("captions/run=*/_SUCCESS"))
    second = submit(tree, address, *job, RAY_AUTH_MODE="token")
    last = next(line for line in second.stdout.splitlines() if line.startswith("{"))
    assert json.loads(last)["already_held"] == CLIPS + 2


def test_without_the_token_mode_ray_says_what_is_missing(tree: Path, address: str) -> None:
    done = submit(tree, address, *JOB)
    assert done.returncode != 0
    assert "token" in (done.stdout + done.stderr).lower()
