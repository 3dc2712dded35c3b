"""Progress: the numbers, one line per half minute in a log, one per stage on a terminal."""

import io
import itertools
import os
import termios
import threading
import time
from collections.abc import Sequence

import pytest

from pipeline import progress
from pipeline.messages import Messages
from pipeline.progress import Shown, Tally, show_progress


def caption(done: int, total: int, fresh: int, seconds: float, note: str = "") -> Shown:
    return Shown("caption", "clips", done, total, fresh, seconds, note, "loading models")


def nothing_moves() -> Sequence[Shown]:
    return [caption(0, 3, 0, 1.0)]


def test_rate_counts_this_attempt_only() -> None:
    line = "caption: 50/100 clips  2.0 clips/s  25 s left"
    assert str(caption(50, 100, 10, 5.0)) == line
    assert str(caption(100, 100, 60, 30.0)) == "caption: 100/100 clips  2.0 clips/s"
    assert str(caption(50, 100, 10, 5.0, "4 in hand")) == f"{line}  (4 in hand)"


def test_before_the_first_rows_it_says_what_it_waits_for() -> None:
    assert str(caption(0, 10, 0, 4.0)).endswith("  4 s (loading models until the first rows)")


def test_long_waits_are_in_minutes_and_hours() -> None:
    assert str(caption(1, 301, 1, 1.0)).endswith("5 min left")
    assert str(caption(1, 36001, 1, 1.0)).endswith("10.0 h left")


def test_where_the_total_is_not_known_there_is_no_time_left() -> None:
    tally = Tally("plan", "listed")
    tally.add()
    tally.add(2)
    (shown,) = tally.look()
    assert str(shown).startswith("plan: 3 listed  ")
    assert shown.left_s is None


def test_a_log_gets_one_line_at_the_end_of_a_short_run() -> None:
    out = io.StringIO()
    with show_progress(lambda: [caption(3, 3, 3, 1.0)], Messages(out)):
        pass
    assert out.getvalue() == "caption: 3/3 clips  3.0 clips/s\n"
    with show_progress(Tally("plan", "listed").look, Messages(out), final=False):
        pass
    assert out.getvalue().count("\n") == 1


def test_a_log_has_the_last_stage_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.02)
    out = io.StringIO()
    shown = [Shown("decode", "clips", 5, 9, 5, 1.0), caption(3, 9, 3, 1.0)]
    with show_progress(lambda: shown, Messages(out)):
        time.sleep(0.1)
    assert "caption: 3/9" in out.getvalue()
    assert "decode" not in out.getvalue()


def test_a_log_says_what_a_run_waits_for_while_nothing_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.05)
    out = io.StringIO()
    asked = threading.Event()

    def waiting() -> str:
        asked.set()
        return "waiting for 2 GPUs"

    with show_progress(nothing_moves, Messages(out), waiting):
        assert asked.wait(10)
    assert "caption: waiting for 2 GPUs\n" in out.getvalue()


def test_nothing_is_said_of_waiting_while_clips_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.01)
    out, clips = io.StringIO(), itertools.count(1)
    with show_progress(
        lambda: [caption(next(clips), 10**6, 1, 1.0)], Messages(out), lambda: "waiting for 2 GPUs"
    ):
        time.sleep(0.2)
    assert "waiting" not in out.getvalue()


def test_a_terminal_has_a_line_for_each_stage_and_messages_above_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "TERMINAL_EVERY_S", 0.02)
    master, slave = os.openpty()
    termios.tcsetwinsize(master, (24, 120))
    with os.fdopen(slave, "w") as out:
        say = Messages(out)
        shown = [Shown("decode", "clips", 9, 9, 9, 1.0), caption(3, 9, 3, 1.0)]
        with show_progress(lambda: shown, say):
            time.sleep(0.1)
            say("a message")
        out.flush()
        text = os.read(master, 100_000).decode()
    os.close(master)
    assert "100% |################| decode: 9/9 clips" in text.replace("█", "#")
    assert "33% |" in text
    assert "caption: 3/9 clips  3.0 clips/s  2 s left" in text
    assert text.index("a message\r\n") < text.rindex("caption: 3/9")
