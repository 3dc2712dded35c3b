"""Loose verification by visual relevance (LVSpec, arXiv 2604.05650; ALGORITHM.md section 2)."""

import math

import torch
from torch import Tensor

from lvspec.config import Lvspec
from lvspec.policies.evidence import LOOSE, SHIFT, Evidence, Verdict, reason_codes, verdict


def decide_lvspec(evidence: Evidence, settings: Lvspec) -> Verdict:
    """Strict where the slot is visually relevant, loose elsewhere, tolerant of shifted tokens."""
    loose = _loose(evidence, settings) & _plausible(evidence, settings)
    shift = _shifted(evidence, settings) if settings.shift else torch.zeros_like(loose)
    ok = evidence.exact | ((loose | shift) & ~evidence.guarded)
    return verdict(evidence, ok, reason_codes(evidence.exact, torch.where(loose, LOOSE, SHIFT)))


def _loose(evidence: Evidence, settings: Lvspec) -> Tensor:
    """bool [B, K]: the floor(loose_share * K) least relevant slots, or those below a threshold."""
    relevance = evidence.relevance
    if relevance is None:
        raise ValueError("the lvspec policy needs the relevance of every slot")
    if settings.scope == "fixed":
        return relevance < settings.threshold
    # 1e-9: 0.7 * 10 is 7.000000000000001 or 6.999999999999999 depending on how it was written
    count = math.floor(settings.loose_share * relevance.shape[1] + 1e-9)
    rank = relevance.argsort(dim=-1, stable=True).argsort(dim=-1)
    return rank < count


def _plausible(evidence: Evidence, settings: Lvspec) -> Tensor:
    """bool [B, K]: what the optional gates let through; all true when they are off."""
    ok = torch.ones_like(evidence.draft_tokens, dtype=torch.bool)
    logits = evidence.target_logits[:, :-1]
    if settings.min_probability > 0:
        ok &= evidence.draft_probability() >= settings.min_probability
    if settings.top_k is not None:
        drafted = logits.gather(-1, evidence.draft_tokens[..., None])
        ok &= (logits > drafted).sum(-1) < settings.top_k
    if settings.min_entropy > 0:
        ok &= evidence.entropy() >= settings.min_entropy
    return ok


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
