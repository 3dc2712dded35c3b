"""Progress while a run captions: committed rows, rate and time left, counted from outside.

On a terminal one line that is redrawn; elsewhere a line every 30 s, so that logs stay short.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

TERMINAL_EVERY_S = 1.0
LOG_EVERY_S = 30.0


@dataclass(frozen=True)
class Stage:
    """What is counted, and what happens before anything can be."""

    name: str
    unit: str
    before: str


CAPTION = Stage("caption", "clips", "loading models")
CUT = Stage("cut", "videos", "starting")


def progress_line(
    done: int, at_start: int, total: int, elapsed_s: float, stage: Stage = CAPTION
) -> str:
    """`caption: 120/960 clips  4.0 clips/s  3 min left`. The rate is of this attempt."""
    fresh = done - at_start
    line = f"{stage.name}: {done}/{total} {stage.unit}"
    if not fresh:
        return f"{line}  {elapsed_s:.0f} s ({stage.before} until the first rows)"
    rate = fresh / elapsed_s
    left = (total - done) / rate
    shown = (
        f"{left:.0f} s"
        if left < 120
        else f"{left / 60:.0f} min"
        if left < 7200
        else f"{left / 3600:.1f} h"
    )
    return f"{line}  {rate:.1f} {stage.unit}/s" + (f"  {shown} left" if done < total else "")


def _nothing() -> str | None:
    return None


@contextmanager
def show_progress(
    count: Callable[[], int],
    total: int,
    out: TextIO,
    stage: Stage = CAPTION,
    waiting: Callable[[], str | None] = _nothing,
) -> Generator[None]:
    """Report `count()` of `total` on `out` until the block ends.

    `waiting` says what the run waits for, if anything; it is asked every 30 s in which nothing was
    committed.
    """
    live = out.isatty()
    stop = threading.Event()
    started, at_start = time.monotonic(), count()

    def report() -> int:
        done = count()
        line = progress_line(done, at_start, total, max(1e-3, time.monotonic() - started), stage)
        out.write(f"\r{line:<78}" if live else f"{line}\n")
        out.flush()
        return done

    def loop() -> None:
        last, asked = at_start, started
        while not stop.wait(TERMINAL_EVERY_S if live else LOG_EVERY_S):
            done = report()
            if done != last:
                last, asked = done, time.monotonic()
            elif time.monotonic() - asked >= LOG_EVERY_S:
                asked = time.monotonic()
                if why := waiting():
                    out.write(f"{chr(10) if live else ''}{stage.name}: {why}\n")
                    out.flush()

    thread = threading.Thread(target=loop, name="progress", daemon=True)
    thread.start()
    try:
        yield
        stop.set()
        thread.join()
        report()
    finally:
        stop.set()
        thread.join()
        if live:
            out.write("\n")
