"""The seam of drafters: who proposes tokens.

The contract: `admit` takes a request into a slot, `propose` drafts up to K tokens for the slots
0..rows-1, `move` follows a slot that the engine moves. Whatever is proposed, the caption stays
right: a drafter decides only how fast it comes. To add one: a file here with a class of these
methods, its name in `DecodeSettings.drafter`, a line in `make_drafter`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from lvspec.models.base import Prepared, Prompt
from lvspec.table import Ints


@dataclass(frozen=True)
class Arrival:
    """A request that enters a slot.

    prepared, prompt: as the target sees it. for_draft: as the draft model's processor prepares it
    (the same object where the two agree).
    attention: float [V], what the target's text pays to each video token (`lvspec.attention`); None
        where the drafter does not need it.
    """

    prepared: Prepared
    prompt: Prompt
    for_draft: Callable[[], Prepared]
    attention: Tensor | None = None


@dataclass(frozen=True)
class Round:
    """What a drafter may know of the captions in the slots 0..rows-1.

    length: tokens to propose per row, at most.
    tail: int64 [B, 2], the last two committed tokens (of prompt or caption).
    generated: [B], committed tokens of the captions, at least 1. rounds: [B], rounds before.
    said: the caption of a slot so far, [generated].
    choose: logits [B, 1, V] of the block's token i -> int64 [B, 1]: the model's choice, drawn with
        the noise that the target will draw with.
    """

    rows: int
    length: int
    tail: Tensor
    generated: Ints
    rounds: Ints
    said: Callable[[int], Ints]
    choose: Callable[[Tensor, int], Tensor]


class Drafter(Protocol):
    """See the module's docstring.

    cache_bytes: what one token takes in the drafter's own cache.
    needs_attention: whether `Arrival.attention` is wanted.
    """

    cache_bytes: int
    needs_attention: bool

    def reserve(self, length: int) -> None:
        """Take the memory for `length` tokens in every slot now."""
        ...

    def admit(self, slot: int, arrival: Arrival) -> int:
        """Take a request into a slot; returns how many video tokens the draft keeps of it."""
        ...

    def propose(self, so_far: Round) -> Tensor:
        """Draft for the slots 0..rows-1: int64 [B, n], n <= `so_far.length`, 0 for nothing.

        A row with fewer tokens than others is filled up with end tokens: no policy is loose there.
        """
        ...

    def move(self, source: int, target: int) -> None:
        """Slot `source` becomes slot `target`."""
        ...


class NoDrafter:
    """Plain decoding: nothing is ever proposed."""

    cache_bytes = 0
    needs_attention = False

    def reserve(self, length: int) -> None:
        pass

    def admit(self, slot: int, arrival: Arrival) -> int:
        return 0

    def propose(self, so_far: Round) -> Tensor:
        return so_far.tail.new_empty(so_far.rows, 0)

    def move(self, source: int, target: int) -> None:
        pass
