"""What moves between two commits: the rows of the plan's steps, as Ray Data counts them on the
driver for its own bars (see `pipeline.build`). Nothing is asked of the workers.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pipeline.progress import Shown


@dataclass(frozen=True)
class Step:
    """One `map_batches` of the plan. `taken`: rows given to a task or actor; `made`: rows that came
    out; `actors`: those that are up (0 of a step of tasks).
    """

    taken: int = 0
    made: int = 0
    actors: int = 0


class Flow:
    """The steps of the plan that runs now, in order; none before it runs."""

    def __init__(self) -> None:
        self.steps: tuple[Step, ...] = ()


class CutLook:
    """Progress of cutting: videos."""

    def __init__(self, committed: Callable[[], int], total: int, flow: Flow) -> None:
        self._committed, self._flow = _Committed(committed), flow
        self._at_start, self._total = self._committed(), total
        self._started = time.monotonic()

    def __call__(self) -> Sequence[Shown]:
        done, seconds = self._committed(), time.monotonic() - self._started
        cut = self._flow.steps[0] if self._flow.steps else Step()
        at_work = max(0, self._at_start + cut.taken - done)
        return [
            Shown(
                *("cut", "videos", done, self._total, done - self._at_start, seconds),
                note=f"{at_work} in hand" if at_work else "",
                before="starting",
            )
        ]


class CaptionLook:
    """Progress of captioning, and of the decoding that feeds it. Rates are those since the first
    task of decoding began, and since the first actor had its models.
    """

    def __init__(
        self,
        committed: Callable[[], int],
        total: int,
        flow: Flow,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._committed, self._flow, self._clock = _Committed(committed), flow, clock
        self._at_start, self._total = self._committed(), total
        self._started = clock()
        self._loaded: float | None = None
        self._decoding: float | None = None

    def __call__(self) -> Sequence[Shown]:
        now, at_start = self._clock(), self._at_start
        steps = self._flow.steps or (Step(), Step())
        decode, caption = steps[0], steps[-1]
        if decode.taken and self._decoding is None:
            self._decoding = now
        if caption.actors and self._loaded is None:
            self._loaded = now
        committed = self._committed()
        # A task that was tried again makes its rows twice.
        done = min(self._total, max(committed, at_start + caption.made))
        decoded = min(self._total, max(done, at_start + decode.made))
        # seen for the first time just now: when that was is not known
        since = self._started if self._loaded in (None, now) else self._loaded
        decoding_since = self._started if self._decoding in (None, now) else self._decoding
        in_hand, queued = caption.taken - caption.made, decode.made - caption.taken
        notes = [
            f"{count} {what}"
            for count, what in ((queued, "decoded and waiting"), (in_hand, "in hand"))
            if count > 0
        ]
        notes += [f"{committed} committed"] if committed != done else []
        return [
            Shown(
                *("decode", "clips", decoded, self._total),
                *(decoded - at_start, now - decoding_since),
                before="starting",
            ),
            Shown(
                *("caption", "clips", done, self._total, done - at_start, now - since),
                note=", ".join(notes),
                before="working" if self._loaded else "loading models",
            ),
        ]


class _Committed:
    """The last count stands where storage does not answer."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count, self._last = count, 0

    def __call__(self) -> int:
        with suppress(OSError):
            self._last = self._count()
        return self._last
