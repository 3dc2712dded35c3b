"""How much a token to be said depends on what is seen (ALGORITHM.md section 2; the paper's eq. for
rel_s), as pure functions over the target's hidden states, and the memory they need per slot."""

import torch
import torch.nn.functional as F
from torch import Tensor


def visual_states(hidden: Tensor) -> Tensor:
    """L2-normalise the target's last hidden states at the video positions: [N, D] -> [N, D]."""
    return F.normalize(hidden, dim=-1)


def relevance(states: Tensor, visual: Tensor, counts: Tensor | None, top: int) -> Tensor:
    """Mean of the `top` largest cosines between each state and the visual states of its row.

    states: [B, K, D], the hidden states that *predict* the K drafted slots.
    visual: [B, N, D], normalised; rows are padded up to N.
    counts: [B], how many of the N are real; a row with fewer than `top` averages what it has. None
        where all are, which saves half of the time.
    Returns float32 [B, K].
    """
    cosines = F.normalize(states, dim=-1) @ visual.transpose(1, 2)  # [B, K, N]
    if counts is None:
        top = min(top, visual.shape[1])
        return cosines.topk(top, dim=-1).values.float().mean(-1)
    padding = torch.arange(visual.shape[1], device=visual.device) >= counts[:, None]  # [B, N]
    cosines = cosines.masked_fill(padding[:, None], -torch.inf)
    best = cosines.topk(min(top, visual.shape[1]), dim=-1).values.float()  # [B, K, top]
    real = best > -torch.inf
    return best.masked_fill(~real, 0).sum(-1) / real.sum(-1).clamp(min=1)


def append(recent: Tensor, scores: Tensor, counts: Tensor) -> Tensor:
    """The latest H of `recent` [B, H] followed by the first counts[b] of `scores` [B, q] each.

    No value leaves the device, and no row needs to know how many it has had.
    """
    columns = torch.arange(recent.shape[1], device=recent.device) + counts[:, None]
    return torch.cat([recent, scores], 1).gather(1, columns)


class VisualMemory:
    """The visual states of every slot, kept from prefill, in the order of the slots."""

    def __init__(self, slots: int) -> None:
        self._states: Tensor | None = None  # [slots, N, D]
        self._counts = torch.zeros(slots, dtype=torch.int64)
        self._sizes = [0] * slots  # the same, on the host

    def reserve(self, count: int, like: Tensor) -> None:
        """Make room for `count` states per slot of the width, type and device of `like` [.., D]."""
        old = self._states
        if old is None or old.shape[1] < count:
            self._states = like.new_zeros(len(self._counts), count, like.shape[-1])
            self._counts = self._counts.to(like.device)
            if old is not None:
                self._states[:, : old.shape[1]] = old

    def admit(self, slot: int, hidden: Tensor) -> None:
        """Keep the target's states at the video positions, [N, D], for a slot."""
        count = hidden.shape[0]
        self.reserve(count, hidden)
        assert self._states is not None
        self._states[slot, :count] = visual_states(hidden)
        self._counts[slot] = self._sizes[slot] = count

    def move(self, source: int, target: int) -> None:
        """Slot `source` becomes slot `target`."""
        if self._states is not None:
            self._states[target] = self._states[source]
            self._counts[target] = self._counts[source]
            self._sizes[target] = self._sizes[source]

    def score(self, states: Tensor, top: int) -> Tensor:
        """Relevance float32 [B, K] of the predicting states [B, K, D] of slots 0..B-1."""
        assert self._states is not None, "score before any admit"
        rows = states.shape[0]
        longest = max(self._sizes[:rows])  # the memory may hold more than any video needs
        ragged = min(self._sizes[:rows]) < longest
        counts = self._counts[:rows] if ragged else None
        return relevance(states, self._states[:rows, :longest], counts, top)
