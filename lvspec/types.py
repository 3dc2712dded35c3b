"""What goes into the engine and what comes out: plain values, no torch, safe to pickle.

A `Request` enters, a `Generation` or a `Refusal` leaves. Names of statistics follow vLLM where it
has one; `mean_accepted_length` is the paper's tau (the bonus token is not counted).
"""

from dataclasses import dataclass, fields
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from lvspec.config import Sampling

FinishReason = Literal["stop", "length"]
Reason = Literal["exact", "loose", "shift", "target"]

REASONS: tuple[Reason, ...] = ("exact", "loose", "shift", "target")
"""Why a token was emitted; a policy's reason code is the index into this tuple.

exact: drafted, and equal to the target's own choice. loose: drafted, kept although the target would
have said something else, because the policy finds it harmless here: not visually relevant,
plausible, undecided. shift: drafted, kept because the target's token stands elsewhere in the block.
target: the target's own token.
"""


@dataclass(frozen=True)
class Stops:
    """Why the drafted blocks of a caption ended where they did: how many for each cause.

    Their sum is the number of rounds that drafted. A policy's stop code is the index into `STOPS`.

    whole: nothing stopped it, all drafted tokens stayed.
    mismatch: a token that is not the target's own, at a slot where the policy is strict.
    guard: the policy may be loose at the slot, but one of the two tokens ends or structures a text.
    probability, top_k, entropy: the policy may be loose at the slot, but this plausibility gate
        refuses the token; where several do, the first in this order.
    window: target and draft did not agree again for long enough (FLy).
    end: the caption ended inside the accepted tokens, by an end token or its length.
    """

    whole: int = 0
    mismatch: int = 0
    guard: int = 0
    probability: int = 0
    top_k: int = 0
    entropy: int = 0
    window: int = 0
    end: int = 0


STOPS: tuple[str, ...] = tuple(field.name for field in fields(Stops))
"""The causes in `Stops`."""


@dataclass(frozen=True, eq=False)
class Request:
    """One clip to caption.

    frames: uint8 [T, H, W, 3], RGB, upright, already at the model's input size.
    times_s: float [T], seconds of each frame from the start of the clip, ascending.
    prompt, max_new_tokens, sampling: None takes the engine's setting.

    >>> Request("clip-7", np.zeros((8, 112, 112, 3), np.uint8), np.arange(8) / 2).prompt is None
    True
    """

    id: str
    frames: npt.NDArray[np.uint8]
    times_s: npt.NDArray[np.float64]
    prompt: str | None = None
    max_new_tokens: int | None = None
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        frames = self.frames
        if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8:
            raise ValueError(
                f"request {self.id}: frames must be uint8 [T, H, W, 3], got "
                f"{frames.dtype} {list(frames.shape)}"
            )
        if len(self.times_s) != len(frames) or not len(frames):
            raise ValueError(
                f"request {self.id}: {len(frames)} frames but {len(self.times_s)} times; "
                "one time per frame and at least one frame are needed"
            )
        times = np.asarray(self.times_s, np.float64)
        if not np.isfinite(times).all() or (np.diff(times) < 0).any():
            raise ValueError(f"request {self.id}: times_s must be ascending numbers of seconds")
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(
                f"request {self.id}: max_new_tokens = {self.max_new_tokens}; at least 1, or None "
                "for the engine's setting"
            )


@dataclass(frozen=True)
class GenerationStats:
    """How one caption was decoded. Counts are tokens, times are seconds of wall clock.

    num_spec_steps: verify passes of the target after prefill (plain steps when nothing is drafted).
    num_accepted_draft_tokens: drafted tokens that were emitted, loose and shifted ones included.
    prefill_s: preparing pixels, vision towers and prompts of target and draft.
    decode_s: time in rounds that this request took part in.
    plain_s: what plain decoding of the same tokens would have cost: tokens of each round times the
        engine's own measurement of one plain target step at the same number of rows.
    stops: why drafted blocks ended where they did.

    >>> import lvspec
    >>> clip = np.full((8, 112, 112, 3), 128, np.uint8)
    >>> stats = lvspec.caption(lvspec.load(), clip).stats
    >>> stats.num_accepted_draft_tokens + stats.num_spec_steps + 1 >= stats.num_generated_tokens
    True
    """

    num_prompt_tokens: int
    num_video_tokens: int
    num_draft_video_tokens: int
    num_generated_tokens: int
    num_spec_steps: int
    num_draft_tokens: int
    num_accepted_draft_tokens: int
    num_loose_tokens: int
    num_shift_tokens: int
    prefill_s: float
    decode_s: float
    plain_s: float
    stops: Stops = Stops()

    @property
    def draft_acceptance_rate(self) -> float:
        """Share of drafted tokens that were emitted, 0 when none was drafted."""
        return self.num_accepted_draft_tokens / max(1, self.num_draft_tokens)

    @property
    def mean_accepted_length(self) -> float:
        """The paper's tau: accepted draft tokens per verify pass, bonus token excluded."""
        return self.num_accepted_draft_tokens / max(1, self.num_spec_steps)

    @property
    def speedup(self) -> float:
        """Decode speedup over plain decoding, estimated (see `plain_s`); 1.0 when unmeasured."""
        return self.plain_s / self.decode_s if self.decode_s > 0 and self.plain_s > 0 else 1.0


@dataclass(frozen=True)
class Generation:
    """A finished caption.

    token_ids include the end token where there is one, like `generate` of transformers.
    reasons: one per token, when the engine was asked for them.
    relevance: visual relevance of each token's slot as the policy saw it, when the engine was asked
        for it; None for tokens that no block was drafted for, and under policies that have no need.

    >>> import lvspec
    >>> clip = np.full((8, 112, 112, 3), 128, np.uint8)
    >>> result = lvspec.caption(lvspec.load(), clip)
    >>> result.text[0].isupper(), set(result.reasons) <= {"exact", "loose", "shift", "target"}
    (True, True)
    """

    request_id: str
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stats: GenerationStats
    reasons: tuple[Reason, ...] | None = None
    relevance: tuple[float | None, ...] | None = None


REFUSALS: Final[dict[str, str]] = {
    "too_long": "prompt and caption exceed the context of the models, or of the stated cache",
    "bad_request": "the model's processor does not take the frames or the prompt",
    "generation_timeout": "the caption was not done after decoding.deadline_s",
}
"""The engine's own codes in `Refusal`, and what each means."""


@dataclass(frozen=True)
class Refusal:
    """A request without a caption, with a stable code (`REFUSALS`) and what to do about it.

    >>> import lvspec
    >>> odd = Request("odd", np.zeros((8, 50, 70, 3), np.uint8), np.arange(8.0))
    >>> [refusal] = lvspec.Engine(lvspec.load()).run([odd])
    >>> refusal.code
    'bad_request'
    """

    request_id: str
    code: str
    message: str


class LoadError(RuntimeError):
    """Models that cannot be loaded, or cannot work together; the message says what to use.

    >>> import lvspec
    >>> lvspec.load(lvspec.ModelSettings(target="/no/such/folder"))
    Traceback (most recent call last):
        ...
    lvspec.types.LoadError: cannot load '/no/such/folder': ...
    """
