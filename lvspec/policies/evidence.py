"""What a policy sees, what it returns, and the one rule all of them share: a prefix is accepted."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lvspec.types import REASONS

EXACT, LOOSE, SHIFT, TARGET = (REASONS.index(r) for r in ("exact", "loose", "shift", "target"))


@dataclass(frozen=True)
class Evidence:
    """One verify pass over B rows with K drafted tokens each.

    draft_tokens: int64 [B, K]. Ids are never negative.
    target_logits: [B, K + 1, V], after the checkpoint's logits processors; slot s is what the
        target says given everything before drafted token s.
    target_tokens: int64 [B, K + 1], the target's choice at each slot.
    relevance: float32 [B, K], visual relevance of each slot, or None where the policy has no need.
    special: bool [V], ids that end or structure a text: never accepted against the target's will.
    """

    draft_tokens: Tensor
    target_logits: Tensor
    target_tokens: Tensor
    relevance: Tensor | None
    special: Tensor

    @property
    def exact(self) -> Tensor:
        """bool [B, K]: the drafted token is the target's own choice."""
        return self.draft_tokens == self.target_tokens[:, :-1]

    @property
    def guarded(self) -> Tensor:
        """bool [B, K]: one of the two tokens is special, so only an exact match may stay.

        A loose end token would cut a caption, a loosely skipped one would run on.
        """
        return self.special[self.draft_tokens] | self.special[self.target_tokens[:, :-1]]

    def draft_probability(self) -> Tensor:
        """float32 [B, K]: the target's probability of each drafted token."""
        logits = self.target_logits[:, :-1].float()
        drafted = logits.gather(-1, self.draft_tokens[..., None])[..., 0]
        return (drafted - logits.logsumexp(-1)).exp()

    def entropy(self) -> Tensor:
        """float32 [B, K]: the target's entropy at each slot over the vocabulary's maximum, 0..1."""
        log_p = self.target_logits[:, :-1].float().log_softmax(-1)
        # processors may forbid ids with -inf: those add nothing
        entropy = -(log_p.exp() * log_p.clamp(min=torch.finfo(log_p.dtype).min)).sum(-1)
        return entropy / math.log(log_p.shape[-1])


@dataclass(frozen=True)
class Verdict:
    """accepted: int64 [B], length of the accepted prefix, 0..K. next_token: int64 [B], the target's
    token after it. reasons: int64 [B, K], index into `lvspec.types.REASONS`, of the prefix."""

    accepted: Tensor
    next_token: Tensor
    reasons: Tensor


def verdict(evidence: Evidence, ok: Tensor, reasons: Tensor) -> Verdict:
    """Accept the leading run of `ok` (bool [B, K]); the target says the token after it."""
    accepted = ok.long().cumprod(-1).sum(-1)  # [B]
    next_token = evidence.target_tokens.gather(1, accepted[:, None])[:, 0]
    return Verdict(accepted, next_token, reasons)


def reason_codes(exact: Tensor, otherwise: Tensor | int) -> Tensor:
    """`EXACT` where the tokens agree, else the given code (int64 [B, K])."""
    if isinstance(otherwise, int):
        return torch.where(exact, EXACT, otherwise)
    return torch.where(exact, torch.full_like(otherwise, EXACT), otherwise)
