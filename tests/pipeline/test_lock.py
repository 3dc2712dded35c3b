"""Two drivers on one output: real processes and a real S3 server."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import boto3
import pytest

from pipeline import lock as lock_module
from pipeline.errors import LockedError, LockLostError
from pipeline.lock import Owner, Pace, hold

QUICK = Pace(beat_s=0.1, expiry_s=1.0, look_s=0.05)
ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys, time
from pipeline.lock import Pace, hold
with hold(sys.argv[1], {}, print, Pace(beat_s=0.1)):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def output(tmp_path: Path) -> str:
    return str(tmp_path / "out")


def lock_file(output: str) -> Path:
    return Path(output) / "lock.json"


def start_holder(output: str) -> "subprocess.Popen[str]":
    """Another process that holds `output`."""
    command = [sys.executable, "-c", HOLDER, output]
    holder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def leave_behind(output: str, **changes: Any) -> None:
    """The lock of an owner of whom nothing but the file is known."""
    Path(output).mkdir(parents=True, exist_ok=True)
    now = time.time()
    owner = Owner("t", "ann@far", 7, "another-boot pid:[1] 7:99", now - 300, now)
    owner = dataclasses.replace(owner, **changes)
    lock_file(output).write_text(json.dumps(dataclasses.asdict(owner)))


def test_the_lock_is_there_while_held_and_leaves_nothing_behind(output: str) -> None:
    said: list[str] = []
    with hold(output, {}, said.append, QUICK) as lock:
        first = json.loads(lock_file(output).read_text())
        assert first["pid"] == os.getpid()
        time.sleep(0.4)
        assert json.loads(lock_file(output).read_text())["beat"] > first["beat"]
        lock.check()
    assert not Path(output).exists()
    assert said == []


def test_a_live_driver_is_named_and_the_second_refused_at_once(output: str) -> None:
    with start_holder(output) as holder:
        try:
            started = time.monotonic()
            with (
                pytest.raises(LockedError, match=rf"\(pid {holder.pid}\), for \d+ s, last heard"),
                hold(output, {}, print, dataclasses.replace(QUICK, expiry_s=30)),
            ):
                pass
            assert time.monotonic() - started < 10  # by its process; no watching
        finally:
            holder.kill()
    assert LockedError.exit_code == 5


def test_a_killed_driver_on_this_machine_gives_way_at_once(output: str) -> None:
    with start_holder(output) as holder:
        holder.send_signal(signal.SIGKILL)
    said: list[str] = []
    started = time.monotonic()
    with hold(output, {}, said.append, dataclasses.replace(QUICK, expiry_s=300)):
        assert time.monotonic() - started < 10
        assert json.loads(lock_file(output).read_text())["pid"] == os.getpid()
    assert len(said) == 1
    assert f"is dead ({os.environ.get('USER', '')}" in said[0]
    assert "taking over" in said[0]


@pytest.mark.parametrize("beat", [-1e6, 0.0, 1e6], ids=["long ago", "just now", "in the future"])
def test_a_driver_elsewhere_is_dead_when_it_falls_silent(output: str, beat: float) -> None:
    leave_behind(output, beat=time.time() + beat)
    said: list[str] = []
    with hold(output, {}, said.append, QUICK):
        assert json.loads(lock_file(output).read_text())["token"] != "t"
    assert "looking whether it lives" in said[0]
    assert "ann@far (pid 7)" in said[1]


def test_a_driver_elsewhere_that_beats_is_alive(output: str) -> None:
    leave_behind(output)

    def beat() -> None:
        time.sleep(0.3)
        leave_behind(output, beat=time.time() + 1)

    other = threading.Thread(target=beat)
    other.start()
    with pytest.raises(LockedError, match="ann@far"), hold(output, {}, print, QUICK):
        pass
    other.join()
    assert json.loads(lock_file(output).read_text())["token"] == "t"


def test_a_reused_process_number_is_not_the_old_driver(output: str) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    here = f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    leave_behind(output, pid=os.getpid(), process=f"{here} {os.getpid()}:1")
    with hold(output, {}, print, dataclasses.replace(QUICK, expiry_s=300)):
        pass


def test_a_file_that_is_no_lock_gives_way_after_the_expiry(output: str) -> None:
    Path(output).mkdir()
    lock_file(output).write_text("{")
    with hold(output, {}, print, QUICK):
        pass


def test_a_driver_taken_for_dead_notices_and_leaves_the_lock_alone(output: str) -> None:
    with hold(output, {}, print, QUICK) as lock:
        leave_behind(output)
        time.sleep(0.3)  # it would have beaten
        with pytest.raises(LockLostError, match="ann@far"):
            lock.check()
    assert json.loads(lock_file(output).read_text())["token"] == "t"


def test_of_many_drivers_one_gets_it(output: str) -> None:
    leave_behind(output, beat=0.0)
    inside, refused, most = [], [], []
    barrier = threading.Barrier(4)

    def drive() -> None:
        barrier.wait()
        try:
            with hold(output, {}, lambda line: None, dataclasses.replace(QUICK, expiry_s=0.3)):
                inside.append(1)
                most.append(len(inside))
                time.sleep(1.5)
                inside.pop()
        except LockedError:
            refused.append(1)

    threads = [threading.Thread(target=drive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert len(refused) == 3


@pytest.fixture
def s3(s3_endpoint: str) -> dict[str, Any]:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="locks")
    return {"s3": {"key": "test", "secret": "test", "endpoint_url": s3_endpoint}}


def test_on_s3_the_second_is_refused_and_the_lock_removed(
    s3: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "SETTLE_S", 0.2)
    file = lock_module._File("s3://locks/out", s3)
    with hold("s3://locks/out", s3, print, QUICK) as lock:
        with pytest.raises(FileExistsError):  # the conditional put itself
            file.create(b"x")
        with pytest.raises(LockedError), hold("s3://locks/out", s3, print, QUICK):
            pass
        lock.check()
    assert file.read() is None


def test_without_conditional_puts_the_last_writer_has_it(
    s3: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that ignores the condition: both write, both read back after a moment."""
    monkeypatch.setattr(lock_module, "SETTLE_S", 0.5)
    first, second = (lock_module._File("s3://locks/plain", s3) for _ in range(2))
    for file in (first, second):
        monkeypatch.setattr(file, "create", file.write)
    results: dict[str, bool] = {}

    def take(name: str, file: Any) -> None:
        results[name] = lock_module._take(file, lock_module._me())

    early = threading.Thread(target=take, args=("early", first))
    early.start()
    time.sleep(0.2)
    take("late", second)
    early.join()
    assert results == {"early": False, "late": True}
