"""The progress line, and that it stays one line per half minute in a log."""

import io
import itertools
import threading
import time

import pytest

from pipeline import progress
from pipeline.progress import progress_line, show_progress


def test_rate_counts_this_attempt_only() -> None:
    assert progress_line(50, 40, 100, 5.0) == "caption: 50/100 clips  2.0 clips/s  25 s left"
    assert progress_line(100, 40, 100, 30.0) == "caption: 100/100 clips  2.0 clips/s"


def test_before_the_first_rows_it_says_what_it_waits_for() -> None:
    assert "loading models" in progress_line(0, 0, 10, 4.0)


def test_long_waits_are_in_minutes_and_hours() -> None:
    assert progress_line(1, 0, 301, 1.0).endswith("5 min left")
    assert progress_line(1, 0, 36001, 1.0).endswith("10.0 h left")


def test_a_log_gets_one_line_at_the_end_of_a_short_run() -> None:
    out = io.StringIO()
    with show_progress(lambda: 3, 3, out):
        pass
    assert out.getvalue().count("\n") == 1


def test_a_log_says_what_a_run_waits_for_while_nothing_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.05)
    out = io.StringIO()
    asked = threading.Event()

    def waiting() -> str:
        asked.set()
        return "waiting for 2 GPUs"

    with show_progress(lambda: 0, 3, out, waiting=waiting):
        assert asked.wait(10)
    assert "caption: waiting for 2 GPUs\n" in out.getvalue()


def test_nothing_is_said_of_waiting_while_clips_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.01)
    out, clips = io.StringIO(), itertools.count()
    with show_progress(lambda: next(clips), 10**6, out, waiting=lambda: "waiting for 2 GPUs"):
        time.sleep(0.2)
    assert "waiting" not in out.getvalue()
