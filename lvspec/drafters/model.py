"""Drafting by a model that sees a pruned video: a smaller one, or the target itself."""

import numpy as np
import torch
from torch import Tensor

from lvspec.config import DecodeSettings
from lvspec.drafters.base import Arrival, Round
from lvspec.models.base import Prompt, VideoModel
from lvspec.pruning import Pruner
from lvspec.slots import SlotModel


class ModelDrafter:
    """A draft model, K tokens in K passes.

    Its cache may lack the last token of a fully accepted block. So every round sets its length back
    by two tokens and feeds those two again: no case for "all accepted", and one shape of passes.
    After rounds in which others proposed, or nobody, a row first reads what it missed.

    own_prompt: the draft encodes the video itself; else it takes over the target's prompt, which
        only the target itself can (self-speculation, no second copy of weights or vision pass).
    """

    def __init__(
        self,
        model: VideoModel,
        settings: DecodeSettings,
        vocab_size: int,
        pruner: Pruner,
        *,
        own_prompt: bool = True,
    ) -> None:
        self.cache_bytes = model.cache_bytes
        self.needs_attention = pruner.needs_attention
        self._slots = SlotModel(model, settings.slots, compiled=settings.compiled)
        self._chunk = settings.prefill_chunk
        self._pruner = pruner
        self._own_prompt = own_prompt
        # ids that both models have: vocabularies of one family differ in their padding
        self._common = min(vocab_size, model.vocab_size)
        # per slot: tokens of the pruned prompt, caption tokens known to be cached, rounds then
        self._prompt = np.zeros(settings.slots, np.int64)
        self._cached = np.zeros(settings.slots, np.int64)
        self._next_round = np.zeros(settings.slots, np.int64)

    def reserve(self, length: int) -> None:
        self._slots.reserve(length)

    def admit(self, slot: int, arrival: Arrival) -> int:
        pruned = self._pruned(arrival)
        self._slots.prefill(slot, pruned, self._chunk)
        self._prompt[slot] = len(pruned.is_video)
        self._cached[slot] = self._next_round[slot] = 0
        return int(pruned.is_video.sum())

    def _pruned(self, arrival: Arrival) -> Prompt:
        model, select = self._slots.model, self._pruner.select(arrival.attention)
        if self._own_prompt:
            return model.encode(arrival.for_draft(), select)
        prompt, patches = arrival.prompt, model.num_patches(arrival.prepared)
        return prompt.keep_video(select(int(prompt.is_video.sum()), patches))

    def propose(self, so_far: Round) -> Tensor:
        slots, rows = self._slots, so_far.rows
        for slot in np.flatnonzero(self._next_round[:rows] != so_far.rounds):
            self._catch_up(int(slot), so_far)
        slots.lengths[:rows] = self._prompt[:rows] + so_far.generated - 2
        self._cached[:rows], self._next_round[:rows] = so_far.generated, so_far.rounds + 1
        # a target with more padding ids than the draft could say one: no id without an embedding
        tokens = so_far.tail.clamp(max=self._common - 1)
        drafted: list[Tensor] = []
        for place in range(so_far.length):
            hidden = slots.extend(rows, tokens)[:, -1:]
            logits = slots.model.logits(hidden)[..., : self._common]
            tokens = so_far.choose(logits, place)  # [B, 1]
            drafted.append(tokens)
        return torch.cat(drafted, dim=1)

    def _catch_up(self, slot: int, so_far: Round) -> None:
        """Read what was said since this row's last draft, but for the two tokens of the tail."""
        said, first = so_far.said(slot), self._cached[slot]
        if first < len(said) - 2:
            self._slots.lengths[slot] = self._prompt[slot] + first
            self._slots.append(slot, torch.from_numpy(said[first:-2]).clamp(max=self._common - 1))

    def move(self, source: int, target: int) -> None:
        self._slots.move(source, target)
        for values in (self._prompt, self._cached, self._next_round):
            values[target] = values[source]
