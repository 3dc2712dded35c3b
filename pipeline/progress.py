"""Progress while a run works: rates and time left, counted from outside the workers.

On a terminal one line per stage that is redrawn; elsewhere one line every 30 s, so that logs stay
short.
"""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tqdm import tqdm

from pipeline.messages import Messages

TERMINAL_EVERY_S = 1.0
LOG_EVERY_S = 30.0
BAR = "{percentage:3.0f}% |{bar:16}| {desc}"
NO_BAR = "     |                | {desc}"  # where the total is not known


@dataclass(frozen=True)
class Shown:
    """One stage at one moment. `fresh`: of `done`, what this attempt did in `seconds`, which begin
    where something could be done; `note` is what else moves; `before` says what is waited for.
    """

    name: str
    unit: str
    done: int
    total: int | None
    fresh: int
    seconds: float
    note: str = ""
    before: str = ""

    @property
    def rate(self) -> float | None:
        return self.fresh / max(1e-3, self.seconds) if self.fresh else None

    @property
    def left_s(self) -> float | None:
        if self.rate is None or self.total is None or self.done >= self.total:
            return None
        return (self.total - self.done) / self.rate

    def __str__(self) -> str:
        """`caption: 120/960 clips  4.0 clips/s  3 min left  (decoded 150)`."""
        total = "" if self.total is None else f"/{self.total}"
        line = f"{self.name}: {self.done}{total} {self.unit}"
        if self.rate is not None:
            line += f"  {self.rate:.1f} {self.unit}/s"
        elif self.before:
            line += f"  {self.seconds:.0f} s ({self.before} until the first rows)"
        if self.left_s is not None:
            line += f"  {_duration(self.left_s)} left"
        return line + (f"  ({self.note})" if self.note else "")


Look = Callable[[], Sequence[Shown]]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class Tally:
    """A stage on the driver, which counts as it goes."""

    def __init__(self, name: str, unit: str, total: int | None = None) -> None:
        self._name, self._unit, self._total = name, unit, total
        self._done, self._started = 0, time.monotonic()

    def add(self, amount: int = 1) -> None:
        self._done += amount

    def look(self) -> Sequence[Shown]:
        seconds = time.monotonic() - self._started
        return [Shown(self._name, self._unit, self._done, self._total, self._done, seconds)]


def _nothing() -> str | None:
    return None


@contextmanager
def show_progress(
    look: Look, say: Messages, waiting: Callable[[], str | None] = _nothing, *, final: bool = True
) -> Generator[None]:
    """Show what `look()` tells until the block ends: on a terminal all of it, in a log the last
    line, which is the stage that the others feed. `final`: also how it ended.

    `waiting` says what the run waits for, if anything; it is asked every 30 s in which nothing
    moved.
    """
    live = say.is_terminal
    stop = threading.Event()
    bars = _Bars(say, stay=final)

    def show(shown: Sequence[Shown]) -> None:
        if live:
            bars.show(shown)
        else:
            say.progress(shown[-1])

    def loop() -> None:
        last, asked = look(), time.monotonic()
        while not stop.wait(TERMINAL_EVERY_S if live else LOG_EVERY_S):
            shown = look()
            show(shown)
            if [each.done for each in shown] != [each.done for each in last]:
                last, asked = shown, time.monotonic()
            elif time.monotonic() - asked >= LOG_EVERY_S:
                asked = time.monotonic()
                if why := waiting():
                    say(f"{shown[-1].name}: {why}", "waiting")

    thread = threading.Thread(target=loop, name="progress", daemon=True)
    thread.start()
    try:
        yield
        stop.set()
        thread.join()
        if final:
            show(look())
    finally:
        stop.set()
        thread.join()
        bars.close()


class _Bars:
    """One line of the terminal per stage, redrawn; messages go above them. `stay`: when closed."""

    def __init__(self, say: Messages, *, stay: bool) -> None:
        self._say, self._stay = say, stay
        self._bars: dict[str, tqdm] = {}

    def show(self, shown: Sequence[Shown]) -> None:
        for each in shown:
            if each.name not in self._bars:
                self._bars[each.name] = tqdm(
                    desc=str(each),
                    initial=each.done,
                    total=each.total,
                    file=self._say.out,
                    bar_format=NO_BAR if each.total is None else BAR,
                    dynamic_ncols=True,
                    leave=self._stay,
                )
            bar = self._bars[each.name]
            bar.n = each.done
            bar.set_description_str(str(each))

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()
