"""One loaded model with its slots: prompts go in, rows are extended, lengths are set back."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lvspec.cache import SlotCache
from lvspec.models.base import Prompt, VideoModel


class SlotModel:
    """Rows of different lengths on one model.

    lengths: int64 [slots], tokens of each slot that are in the cache; assign to roll back.
    """

    def __init__(self, model: VideoModel, slots: int) -> None:
        self.model = model
        self.cache = SlotCache(model.num_layers, slots)
        self.lengths: npt.NDArray[np.int64] = np.zeros(slots, np.int64)
        # text position minus cache length; not 0 under M-RoPE and for pruned prompts
        self._ahead = torch.zeros(slots, dtype=torch.int64, device=model.device)

    def prefill(self, slot: int, prompt: Prompt) -> Tensor:
        """Write a prompt into a slot from its start; last hidden states [P, D]."""
        size = prompt.embeds.shape[0]
        self.cache.begin(slot, np.zeros(1, np.int64), size)
        extras = self.model.extras(prompt)
        hidden = self.model.decode(
            prompt.embeds[None], prompt.positions[:, None], self.cache, **extras
        )
        self.lengths[slot] = size
        self._ahead[slot] = prompt.next_position - size
        return hidden[0]

    def extend(self, rows: int, tokens: Tensor) -> Tensor:
        """Append tokens [B, q] to the slots 0..rows-1; last hidden states [B, q, D]."""
        query = tokens.shape[1]
        self.cache.begin(0, self.lengths[:rows], query)
        embeds = self.model.embed(tokens)
        positions = self.cache.columns(embeds.device) + self._ahead[:rows, None]  # [B, q]
        axes = positions.expand(self.model.position_axes, -1, -1)
        hidden = self.model.decode(embeds, axes, self.cache)
        self.lengths[:rows] += query
        return hidden

    def move(self, source: int, target: int) -> None:
        """Copy one slot's sequence over another's."""
        self.cache.move(source, target, int(self.lengths[source]))
        self.lengths[target] = self.lengths[source]
        self._ahead[target] = self._ahead[source]
