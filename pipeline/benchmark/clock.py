"""When an engine in a caption actor was busy and when each clip's answer came: a captioner around
another, and what it wrote down.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lvspec.config import DecodeSettings, ModelSettings
from lvspec.types import Generation, Refusal, Request
from pipeline.backend import Backend, Captioner


@dataclass(frozen=True)
class Answer:
    """at_s: of the machine's monotonic clock. tokens: of the caption, 0 for a refusal."""

    clip_id: str
    at_s: float
    tokens: int


@dataclass(frozen=True)
class Log:
    """What all engines of a run wrote down. busy: (start, end) while an engine held clips."""

    answers: tuple[Answer, ...]
    busy: tuple[tuple[float, float], ...]

    @property
    def engine_s(self) -> float:
        """Summed over engines."""
        return sum(end - start for start, end in self.busy)

    @property
    def span_s(self) -> float:
        """From when the first engine got a clip to when the last was done."""
        return max(end for _, end in self.busy) - min(start for start, _ in self.busy)


class Clocked:
    """A `Captioner` that answers like `captioner` and appends lines to a file of its own."""

    def __init__(self, captioner: Captioner, folder: Path) -> None:
        self._captioner, self._file = captioner, folder / f"engine-{os.getpid()}.jsonl"

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        return self._captioner.token_texts(token_ids)

    def run(self, requests: Iterable[Request], **asked: bool) -> Iterator[Generation | Refusal]:
        """One line per answer, and one when the engine has run dry."""
        start = time.monotonic()
        with self._file.open("a", buffering=1) as out:
            for answer in self._captioner.run(requests, **asked):
                tokens = 0 if isinstance(answer, Refusal) else answer.stats.num_generated_tokens
                print(json.dumps([answer.request_id, time.monotonic(), tokens]), file=out)
                yield answer
            print(json.dumps([start, time.monotonic()]), file=out)


def clocked(backend: Backend, folder: Path) -> Backend:
    """`backend`, with engines that write to `folder`, which all of them can reach."""
    return Backend(backend.frame_spec, partial(_make, backend, folder))


def _make(
    backend: Backend, folder: Path, models: ModelSettings, decoding: DecodeSettings
) -> Captioner:
    return Clocked(backend.make_captioner(models, decoding), folder)


def read_log(folder: Path) -> Log:
    """The answers in the order in which they came."""
    lines = [
        json.loads(line)
        for file in folder.glob("engine-*.jsonl")
        for line in file.read_text().splitlines()
    ]
    answers = sorted((Answer(*line) for line in lines if len(line) == 3), key=lambda a: a.at_s)
    return Log(
        tuple(answers), tuple((start, end) for start, end in (x for x in lines if len(x) == 2))
    )


def steady(answers: Iterable[Answer], warm: int) -> tuple[float, float]:
    """Clips and tokens per second after the first `warm` answers, until the last.

    Raises ValueError where there are no more than those.
    """
    ordered = list(answers)
    counted = ordered[warm:]
    if warm < 1 or not counted:
        raise ValueError(f"{len(ordered)} answers with {warm} to warm up: none is left to measure")
    seconds = counted[-1].at_s - ordered[warm - 1].at_s
    return len(counted) / seconds, sum(a.tokens for a in counted) / seconds
