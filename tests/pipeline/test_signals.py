"""SIGTERM and SIGINT to the job at its moments: a clean end, and the next run finishes the work.
Real processes; `psutil` sees which of them are left.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pipeline.errors import SignalError
from pipeline.signals import ending_on_signals
from tests.pipeline.test_resume import check_complete, command, commits, finish, wait_for
from tests.pipeline.videos import write_corpus

RESUME = "what is committed stays: run the same command to resume"


def end_when(
    folder: Path, condition: Callable[[], bool], what: str, number: signal.Signals = signal.SIGTERM
) -> None:
    """Start the job, signal its process alone once `condition` holds, and check how it ends."""
    log = folder / "job.log"
    with (
        log.open("w") as out,
        subprocess.Popen(
            command(folder, 0.4), stdout=out, stderr=out, start_new_session=True
        ) as job,
    ):
        try:
            wait_for(lambda: condition() or job.poll() is not None, what)
            assert job.poll() is None, f"the job ended before {what}: {log.read_text()}"
            started = psutil.Process(job.pid).children(recursive=True)
            os.kill(job.pid, number)
            assert job.wait(timeout=60) == 128 + number
        finally:
            job.kill()
    _, alive = psutil.wait_procs(started, timeout=10)
    assert [process.cmdline() for process in alive] == []
    said = log.read_text().splitlines()
    assert said[-1] == f"stopped by {number.name}; {RESUME}"
    assert "Traceback" not in log.read_text()
    assert not (folder / "out" / "lock.json").exists()


def has(folder: Path, pattern: str) -> Callable[[], bool]:
    return lambda: any((folder / "out").rglob(pattern))


def test_sigterm_between_commits_leaves_no_process_and_keeps_the_commits(tmp_path: Path) -> None:
    write_corpus(tmp_path / "videos", good=8)
    end_when(tmp_path, lambda: commits(tmp_path) >= 1, "a commit")
    assert commits(tmp_path) >= 1
    assert not list((tmp_path / "out").rglob("_SUCCESS"))


@pytest.mark.slow
def test_signals_at_other_moments_and_then_every_clip_once(tmp_path: Path) -> None:
    write_corpus(tmp_path / "videos", good=10)
    log = tmp_path / "job.log"
    end_when(tmp_path, has(tmp_path, "lock.json"), "the lock: planning")
    end_when(tmp_path, lambda: "starting Ray" in log.read_text(), "the start of Ray")
    end_when(tmp_path, has(tmp_path, "*.pending.parquet"), "a pending commit", signal.SIGINT)
    end_when(tmp_path, lambda: commits(tmp_path) >= 4, "four commits")
    finish(tmp_path)
    check_complete(tmp_path, 12)


@pytest.mark.slow
def test_sigterm_once_all_is_captioned(tmp_path: Path) -> None:
    """It meets the end of Ray, the publishing or, on a quick machine, a job that has ended."""
    write_corpus(tmp_path / "videos", good=6)
    job = command(tmp_path, 0.4)
    with subprocess.Popen(job, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        wait_for(lambda: commits(tmp_path) >= 4 or run.poll() is not None, "all commits")
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=60) in {0, 143}
    assert not (tmp_path / "out" / "lock.json").exists()
    subprocess.run(job, check=True, capture_output=True, timeout=240)
    check_complete(tmp_path, 8)


def test_only_the_first_signal_counts_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    cleaned = False
    with pytest.raises(SignalError, match="stopped by SIGTERM") as stop, ending_on_signals():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            os.kill(os.getpid(), signal.SIGINT)  # a second sender, while the first is obeyed
            time.sleep(0.01)
            cleaned = True
    assert cleaned
    assert stop.value.exit_code == 143
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_signal_that_python_drops_in_a_finalizer_comes_again() -> None:
    class Finalized:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)  # the interrupt is raised here, and cannot leave a finalizer

    started = time.monotonic()
    with pytest.raises(SignalError, match="stopped by SIGTERM"), ending_on_signals():
        item = Finalized()
        del item
        time.sleep(10)
    assert time.monotonic() - started < 5
