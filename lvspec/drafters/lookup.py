"""Drafting without a model: what followed the last time these words were said (prompt lookup)."""

import numpy as np
import torch
from torch import Tensor

from lvspec.drafters.base import Arrival, Drafter, Round
from lvspec.table import Ints

LONGEST, SHORTEST = 3, 2
"""Tokens that must recur. Longest first: it is right more often. One token recurs by chance."""


def lookup(history: Ints, length: int) -> Ints:
    """What followed the latest earlier occurrence of the end of `history` [n]: up to `length` ids.

    >>> lookup(np.array([7, 8, 9, 5, 1, 7, 8]), 3).tolist()
    [9, 5, 1]
    """
    for size in range(min(LONGEST, len(history) - 1), SHORTEST - 1, -1):
        windows = np.lib.stride_tricks.sliding_window_view(history[:-1], size)
        found = np.flatnonzero((windows == history[-size:]).all(axis=1))
        if len(found):
            start = int(found[-1]) + size
            return history[start : start + length]
    return history[:0]


class LookupDrafter:
    """Looks in the prompt's text and in the caption so far; asks `behind` for the rows without a
    find, where there is one.
    """

    def __init__(
        self, slots: int, video_token_id: int, filler: int, behind: Drafter | None
    ) -> None:
        self._prompts: list[Ints] = [np.empty(0, np.int64)] * slots
        self._video = video_token_id
        self._filler = filler
        self._behind = behind
        self.cache_bytes = behind.cache_bytes if behind else 0
        self.needs_attention = behind is not None and behind.needs_attention

    def reserve(self, length: int) -> None:
        if self._behind:
            self._behind.reserve(length)

    def admit(self, slot: int, arrival: Arrival) -> int:
        ids = arrival.prepared.input_ids.cpu().numpy()
        self._prompts[slot] = ids[ids != self._video]
        return self._behind.admit(slot, arrival) if self._behind else 0

    def propose(self, so_far: Round) -> Tensor:
        rows = range(so_far.rows)
        histories = (np.concatenate([self._prompts[row], so_far.said(row)]) for row in rows)
        found = [lookup(history, so_far.length) for history in histories]
        lost = np.array([len(ids) == 0 for ids in found])
        width = max(map(len, found))
        if self._behind and lost.any():
            width = so_far.length
        drafted = np.full((so_far.rows, width), self._filler, np.int64)
        for row, ids in enumerate(found):
            drafted[row, : len(ids)] = ids
        block = torch.from_numpy(drafted).to(so_far.tail.device)
        if self._behind and lost.any():
            where = torch.from_numpy(lost).to(block.device)[:, None]
            block = torch.where(where, self._behind.propose(so_far), block)
        return block

    def move(self, source: int, target: int) -> None:
        self._prompts[target] = self._prompts[source]
        if self._behind:
            self._behind.move(source, target)
