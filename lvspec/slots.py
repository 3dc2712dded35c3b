"""One loaded model with its slots: prompts go in, rows are extended, lengths are set back."""

import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from lvspec.cache import SlotCache
from lvspec.models.base import Prompt, VideoModel


class SlotModel:
    """Rows of different lengths on one model.

    lengths: int64 [slots], tokens of each slot that are in the cache; assign to roll back.
    """

    def __init__(self, model: VideoModel, slots: int, *, compiled: bool = False) -> None:
        self.model = model
        self._compiled: Callable[..., Tensor] | None = None
        if compiled:
            # a graph for each number of tokens (1, 2, K + 1) at each step of the cache's length;
            # from the default of 8 on, torch would silently run without
            torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
            self._compiled = torch.compile(self._fixed, dynamic=False)
        self.cache = SlotCache(model.num_layers, slots)
        self.lengths: npt.NDArray[np.int64] = np.zeros(slots, np.int64)
        # text position minus cache length; not 0 under M-RoPE and for pruned prompts
        self._ahead = torch.zeros(slots, dtype=torch.int64, device=model.device)

    def reserve(self, length: int) -> None:
        """Take the memory for `length` tokens in every slot now; what does not fit fails here."""
        self.cache.reserve(length)
        nothing = torch.zeros(1, 1, dtype=torch.int64, device=self.model.device)
        self.lengths[0] = 0
        self.extend(1, nothing)  # the cache learns the layers' devices and shapes from a pass

    def prefill(self, slot: int, prompt: Prompt, chunk: int | None = None) -> Tensor:
        """Write a prompt into a slot from its start, `chunk` tokens per pass; last hidden states
        [P, D].
        """
        size = prompt.embeds.shape[0]
        hidden: list[Tensor] = []
        for first in range(0, size, chunk or size):
            part = prompt.part(slice(first, first + (chunk or size)))
            self.cache.begin(slot, np.array([first]), part.embeds.shape[0])
            extras = self.model.extras(part)
            embeds, positions = part.embeds[None], part.positions[:, None]
            mask = self.cache.mask(embeds)
            hidden.append(self.model.decode(embeds, positions, self.cache, mask, **extras)[0])
        self.lengths[slot] = size
        self._ahead[slot] = prompt.next_position - size
        return torch.cat(hidden) if len(hidden) > 1 else hidden[0]

    def append(self, slot: int, tokens: Tensor) -> None:
        """Read tokens int64 [n] into one slot, behind what it holds."""
        start = self.lengths[slot]
        self.cache.begin(slot, np.array([start]), len(tokens))
        embeds = self.model.embed(tokens.to(self.model.device)[None])
        places = self.cache.columns(embeds.device) + self._ahead[slot]  # [1, n]
        axes = places.expand(self.model.position_axes, -1, -1)
        self.model.decode(embeds, axes, self.cache, self.cache.mask(embeds))
        self.lengths[slot] = start + len(tokens)

    def extend(self, rows: int, tokens: Tensor) -> Tensor:
        """Append tokens [B, q] to the slots 0..rows-1; last hidden states [B, q, D]."""
        query = tokens.shape[1]
        if self._compiled:
            return self._extend_fixed(rows, tokens, self._compiled)
        self.cache.begin(0, self.lengths[:rows], query)
        embeds = self.model.embed(tokens)
        positions = self.cache.columns(embeds.device) + self._ahead[:rows, None]  # [B, q]
        axes = positions.expand(self.model.position_axes, -1, -1)
        hidden = self.model.decode(embeds, axes, self.cache, self.cache.mask(embeds))
        self.lengths[:rows] += query
        return hidden

    def _extend_fixed(self, rows: int, tokens: Tensor, run: Callable[..., Tensor]) -> Tensor:
        """`extend` in few shapes: all slots take part, idle ones write where nobody looks."""
        query, cache = tokens.shape[1], self.cache
        self.lengths[rows:] = 0
        cache.begin(0, self.lengths, query, fixed=True)
        embeds = self.model.embed(F.pad(tokens, (0, 0, 0, cache.slots - rows)))
        row, column = cache.indices(embeds.device)
        axes = (column + self._ahead[:, None]).expand(self.model.position_axes, -1, -1)
        hidden = run(embeds, axes, cache.mask(embeds), row, column)[:rows]
        self.lengths[:rows] += query
        return hidden

    def _fixed(
        self, embeds: Tensor, axes: Tensor, mask: Tensor, row: Tensor, column: Tensor
    ) -> Tensor:
        """What is compiled: everything that changes from pass to pass comes as a tensor."""
        self.cache.aim(row, column)
        return self.model.decode(embeds, axes, self.cache, mask)

    def move(self, source: int, target: int) -> None:
        """Copy one slot's sequence over another's."""
        self.cache.move(source, target, int(self.lengths[source]))
        self.lengths[target] = self.lengths[source]
        self._ahead[target] = self._ahead[source]


def num_compiled() -> int:
    """Graphs that this process has compiled so far; 0 costs nothing where nothing is compiled."""
    if "torch._dynamo.utils" not in sys.modules:
        return 0
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]
