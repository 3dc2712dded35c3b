"""What the pipeline asks of the models: the one seam between `pipeline` and `lvspec`'s engine.

`LVSPEC` is the real one; tests pass a `Backend` with a scripted captioner. A backend is pickled to
the caption actors, so it holds functions, never models.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import lvspec
from lvspec.config import DecodeSettings, FrameSettings, ModelSettings
from lvspec.types import Generation, Refusal, Request
from lvspec.video import FrameSpec
from pipeline.errors import BackendError


class Captioner(Protocol):
    """Runs requests; results come in any order, one per request.

    reasons, relevance: results say why each token was emitted, and how much it depends on the
    video. plain: nothing is drafted. `token_texts`: a caption in pieces, one per token.
    """

    def run(
        self,
        requests: Iterable[Request],
        *,
        reasons: bool = False,
        relevance: bool = False,
        plain: bool = False,
    ) -> Iterator[Generation | Refusal]: ...

    def token_texts(self, token_ids: Sequence[int]) -> list[str]: ...


@dataclass(frozen=True)
class Backend:
    """frame_spec: on the driver, reads configuration files only; raises `BackendError` for models
    that cannot run, so that a job fails before Ray starts. make_captioner: on the actor, loads the
    models.
    """

    frame_spec: Callable[[ModelSettings, FrameSettings], FrameSpec]
    make_captioner: Callable[[ModelSettings, DecodeSettings], Captioner]


def _frame_spec(models: ModelSettings, frames: FrameSettings) -> FrameSpec:
    try:
        lvspec.check(models)
        return lvspec.frame_spec(models, frames)
    except lvspec.LoadError as error:
        raise BackendError(str(error)) from error


def _make_captioner(models: ModelSettings, decoding: DecodeSettings) -> Captioner:
    return lvspec.Engine(lvspec.load(models), decoding)


LVSPEC = Backend(frame_spec=_frame_spec, make_captioner=_make_captioner)
