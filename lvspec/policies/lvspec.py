"""Loose verification by visual relevance (LVSpec, arXiv 2604.05650; ALGORITHM.md section 2).

Relevance decides which rule holds at a slot: the loose one (accept, or accept what passes the
gates) or the strict one (the target's own token, or what it finds plausible enough). Position
shift rescues under either rule, the guard of end tokens overrules both.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from lvspec.config import Lvspec
from lvspec.policies.evidence import (
    ENTROPY,
    GUARD,
    LOOSE,
    MISMATCH,
    PROBABILITY,
    SHIFT,
    TOP_K,
    WHOLE,
    Evidence,
    Verdict,
    verdict,
)


def decide_lvspec(evidence: Evidence, settings: Lvspec) -> Verdict:
    """Strict where the slot is visually relevant, loose elsewhere, tolerant of shifted tokens."""
    loose = _loose(evidence, settings)
    kept, gated = loose, WHOLE
    for code, passes in _gates(evidence, settings):
        gated = torch.where(kept & ~passes, code, gated)  # the code of the first that refuses
        kept = kept & passes
    if settings.strict_probability is not None:
        plausible = evidence.draft_probability() >= settings.strict_probability
        kept = kept | (plausible & ~loose)
    why = torch.where(kept, LOOSE, SHIFT)
    if settings.shift:
        kept = kept | _shifted(evidence, settings)
    guarded = evidence.guarded
    refused = torch.where(kept | loose, torch.where(guarded, GUARD, gated), MISMATCH)
    return verdict(evidence, kept & ~guarded, why, refused)


def _loose(evidence: Evidence, settings: Lvspec) -> Tensor:
    """bool [B, K]: the slots with the lowest relevance, as many as `settings.scope` says."""
    relevance = evidence.relevance
    if relevance is None:
        raise ValueError("the lvspec policy needs the relevance of every slot")
    if settings.scope == "fixed":
        return relevance < settings.threshold
    share = settings.loose_share
    if settings.scope == "block":
        return _ranks(relevance) < math.floor(share * relevance.shape[1] + _ROUNDING)
    past = evidence.relevance_so_far
    if past is None:
        raise ValueError("scope running needs the relevance of the caption so far")
    known = past.isfinite().sum(1) + relevance.shape[1]  # [B]
    ranks = _ranks(torch.cat([past, relevance], 1))
    return ranks[:, past.shape[1] :] < (share * known.double() + _ROUNDING).floor()[:, None]


_ROUNDING = 1e-9
"""0.7 * 10 is 7.000000000000001 or 6.999999999999999 depending on how it was written."""


def _ranks(values: Tensor) -> Tensor:
    """int64 [B, n]: how many of a row's values are lower; among equals the earlier one is lower."""
    return values.argsort(dim=-1, stable=True).argsort(dim=-1, stable=True)


def _gates(evidence: Evidence, settings: Lvspec) -> Iterator[tuple[int, Tensor]]:
    """The gates that are on: their stop codes and what they let through, bool [B, K]."""
    if settings.min_probability > 0:
        yield PROBABILITY, evidence.draft_probability() >= settings.min_probability
    if settings.top_k is not None:
        yield TOP_K, evidence.draft_rank() < settings.top_k
    if settings.min_entropy > 0:
        yield ENTROPY, evidence.entropy() >= settings.min_entropy


def _shifted(evidence: Evidence, settings: Lvspec) -> Tensor:
    """bool [B, K]: the target's token of the slot is drafted at another slot within the window."""
    draft, target = evidence.draft_tokens, evidence.target_tokens[:, :-1]
    same = target[:, :, None] == draft[:, None, :]  # [B, K, K]: target at s == draft at j
    if settings.shift_reverse:
        same = same | (draft[:, :, None] == target[:, None, :])
    if settings.shift_window is not None:
        slot = torch.arange(draft.shape[1], device=draft.device)
        same = same & ((slot[:, None] - slot[None, :]).abs() <= settings.shift_window)
    return same.any(-1)
