"""Drafters: who proposes tokens.

The contract: `admit` takes a request into a slot, `propose` drafts K tokens for the slots
0..rows-1, `move` follows a slot that the engine moves. To add one: a class here with these three
methods, its name in `DecodeSettings.drafter`, a line in `make_drafter`.
"""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lvspec.config import DecodeSettings
from lvspec.models.base import Prepared, VideoModel
from lvspec.pruning import PRUNERS
from lvspec.slots import SlotModel
from lvspec.types import LoadError


class Drafter(Protocol):
    """See the module's docstring; `draft_length` is K, 0 for plain decoding."""

    draft_length: int

    def admit(self, slot: int, prepared: Prepared) -> int:
        """Take a prompt into a slot; returns how many video tokens the draft keeps of it."""
        ...

    def propose(self, rows: int, tail: Tensor, generated: np.ndarray) -> Tensor:
        """Draft for the slots 0..rows-1: int64 [B, K].

        tail: int64 [B, 2], the last two committed tokens (of prompt or caption).
        generated: [B], committed tokens of the captions, at least 1.
        """
        ...

    def move(self, source: int, target: int) -> None:
        """Slot `source` becomes slot `target`."""
        ...


class NoDrafter:
    """Plain decoding: the same loop with K = 0."""

    draft_length = 0

    def admit(self, slot: int, prepared: Prepared) -> int:
        return 0

    def propose(self, rows: int, tail: Tensor, generated: np.ndarray) -> Tensor:
        return tail.new_empty(rows, 0)

    def move(self, source: int, target: int) -> None:
        pass


class ModelDrafter:
    """A draft model that sees a pruned video and drafts greedily, K tokens in K passes.

    Its cache may lack the last token of a fully accepted block. So every round sets its length back
    by two tokens and feeds those two again: no case for "all accepted", and one shape of passes.
    """

    def __init__(self, model: VideoModel, settings: DecodeSettings, vocab_size: int) -> None:
        self.draft_length = settings.draft_length
        self._keep = settings.keep
        self._prune = PRUNERS[settings.pruning]
        self._slots = SlotModel(model, settings.slots)
        # ids that both models have: vocabularies of one family differ in their padding
        self._common = min(vocab_size, model.vocab_size)
        # tokens of each slot's prompt, without the pruned video tokens
        self._prompt = np.zeros(settings.slots, np.int64)

    def admit(self, slot: int, prepared: Prepared) -> int:
        prompt = self._slots.model.encode(prepared)
        kept = self._prune(int(prompt.is_video.sum()), self._keep)
        pruned = prompt.keep_video(kept)
        self._slots.prefill(slot, pruned)
        self._prompt[slot] = len(pruned.is_video)
        return len(kept)

    def propose(self, rows: int, tail: Tensor, generated: np.ndarray) -> Tensor:
        slots = self._slots
        slots.lengths[:rows] = self._prompt[:rows] + generated - 2
        # a target with more padding ids than the draft could say one: no id without an embedding
        tokens = tail.clamp(max=self._common - 1)
        drafted: list[Tensor] = []
        for _ in range(self.draft_length):
            hidden = slots.extend(rows, tokens)[:, -1:]
            tokens = slots.model.logits(hidden)[..., : self._common].argmax(-1)  # [B, 1]
            drafted.append(tokens)
        return torch.cat(drafted, dim=1)

    def move(self, source: int, target: int) -> None:
        self._slots.move(source, target)
        self._prompt[target] = self._prompt[source]


def make_drafter(settings: DecodeSettings, draft: VideoModel | None, target: VideoModel) -> Drafter:
    """The drafter that the settings name; `LoadError` where it lacks its model."""
    if settings.drafter == "none":
        return NoDrafter()
    if draft is None:
        raise LoadError(
            'drafter "model" needs a draft: name one in ModelSettings.draft, or set drafter "none"'
        )
    return ModelDrafter(draft, settings, target.vocab_size)
