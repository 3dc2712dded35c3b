"""Keys and values of many sequences of different lengths, in one stock transformers `Cache`.

A pass covers the slots 0..B-1 (active ones are kept in front) or one slot alone. Each row writes at
its own length and a mask hides what lies beyond it, so rows of any lengths verify in one pass, and
*rolling back is only remembering a smaller length*: what lies beyond it is overwritten later.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

_GROW = 256
"""Capacity grows in steps of so many tokens (and by at least half), to make copies rare. Passes of
fixed shape see 1, 2, 4, 8, ... times as many.
"""


class SlotCache(Cache):
    """The layers' keys and values `[slots, kv_heads, capacity, head_dim]`; `begin` aims a pass.

    The storage is allocated at the first pass, on the device and with the head shape of each layer,
    so models spread over devices and of any head layout need no case here.
    """

    def __init__(self, num_layers: int, slots: int) -> None:
        self.slots = slots
        self.capacity = 0
        self.first = 0
        self.view = 0
        self.start: int | None = 0
        self._rows: npt.NDArray[np.int64] = np.zeros((1, 1), np.int64)
        self._columns: npt.NDArray[np.int64] = np.zeros((1, 1), np.int64)
        self._indices: dict[torch.device, tuple[Tensor, Tensor]] = {}
        self._stores = [_SlotLayer(self) for _ in range(num_layers)]
        super().__init__(layers=list(self._stores))

    def begin(
        self, first: int, starts: npt.NDArray[np.int64], query: int, *, fixed: bool = False
    ) -> None:
        """Aim the next pass at the slots from `first` on: row b writes from starts[b].

        fixed: in few shapes and one way, for a compiled pass.
        """
        self.first = first
        self.view = int(starts.max()) + query
        self.start = int(starts[0]) if (starts == starts[0]).all() and not fixed else None
        if fixed:
            needed, self.view = self.view, max(_GROW, 1 << (self.view - 1).bit_length())
            if needed <= self.capacity:  # a stated cache never grows, whatever the steps
                self.view = min(self.view, self.capacity)
        self._rows = (np.arange(len(starts)) + first)[:, None]
        self._columns = starts[:, None] + np.arange(query)
        self._indices = {}
        if self.view > self.capacity:
            grown = max(self.view, self.capacity * 3 // 2)
            self.reserve(-(-grown // _GROW) * _GROW)

    def aim(self, rows: Tensor, columns: Tensor) -> None:
        """Say again where the pass writes, by tensors that a compiled pass gets from outside."""
        self._indices = {columns.device: (rows, columns)}

    def reserve(self, length: int) -> None:
        """Make room for exactly `length` tokens per slot, if there is less; what is there stays."""
        if length <= self.capacity:
            return
        self.capacity = length
        for store in self._stores:
            store.resize(self.capacity)

    def columns(self, device: torch.device) -> Tensor:
        """int64 [B, q]: where each row of the pass writes, which is also its text position."""
        return self.indices(device)[1]

    def indices(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Row [B, 1] and column [B, q] of every token of the pass, on the device of a layer."""
        if device not in self._indices:
            rows, columns = torch.from_numpy(self._rows), torch.from_numpy(self._columns)
            self._indices[device] = (
                rows.to(device, non_blocking=True),
                columns.to(device, non_blocking=True),
            )
        return self._indices[device]

    def mask(self, like: Tensor) -> Tensor | None:
        """What to add to the attention's logits, [B, 1, q, view] of the type and device of `like`:
        0 where a query may look, else -inf; None where plain causality says it.

        Added, not true or false: attention would turn that into this again in every layer.

        None holds for a prompt written into an empty slot (square and causal) and for single
        queries of rows of one length (everything in view is theirs).
        """
        query = self._columns.shape[1]
        if self.start is not None and (query == 1 or self.start == 0):
            return None
        columns = self.columns(like.device)
        hidden = torch.arange(self.view, device=like.device) > columns[:, None, :, None]
        return like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a slot's first `length` tokens over another slot."""
        for store in self._stores:
            store.move(source, target, length)


class _SlotLayer(CacheLayerMixin):
    """One layer's share of a `SlotCache`."""

    is_croppable = True

    def __init__(self, cache: SlotCache) -> None:
        super().__init__()
        self.cache = cache

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = self._allocate(key_states)
        self.values = self._allocate(value_states)
        self.is_initialized = True

    def _allocate(self, states: Tensor) -> Tensor:
        _, heads, _, dim = states.shape
        shape = (self.cache.slots, heads, self.cache.capacity, dim)
        return torch.zeros(shape, dtype=states.dtype, device=states.device)

    def resize(self, capacity: int) -> None:
        """Move the storage into one with room for `capacity` tokens per slot."""
        if not self.is_initialized:
            return
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_zeros(*old.shape[:2], capacity, old.shape[3])
            new[:, :, : old.shape[2]] = old
            setattr(self, name, new)

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a slot's first `length` tokens over another slot."""
        if self.keys is not None and self.values is not None:
            for store in (self.keys, self.values):
                store[target, :, :length] = store[source, :, :length]

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write [B, H, q, D] at the rows' own lengths; return the view [B, H, view, D], no copy."""
        cache = self.cache
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        rows, query = key_states.shape[0], key_states.shape[2]
        keys, values = self.keys, self.values
        if rows < cache.slots:
            keys, values = (x.narrow(0, cache.first, rows) for x in (keys, values))
        keys, values = keys.narrow(2, 0, cache.view), values.narrow(2, 0, cache.view)
        if cache.start is not None:
            keys.narrow(2, cache.start, query).copy_(key_states)
            values.narrow(2, cache.start, query).copy_(value_states)
        else:
            row, column = cache.indices(self.keys.device)
            self.keys[row, :, column] = key_states.transpose(1, 2)
            self.values[row, :, column] = value_states.transpose(1, 2)
        return keys, values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.cache.view, 0

    def get_seq_length(self) -> int:
        return self.cache.view

    def get_max_length(self) -> int:
        return self.cache.capacity
