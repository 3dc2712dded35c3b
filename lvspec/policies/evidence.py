"""What a policy sees, what it returns, and the one rule all of them share: a prefix is accepted."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lvspec.types import REASONS, STOPS

EXACT, LOOSE, SHIFT, TARGET = (REASONS.index(r) for r in ("exact", "loose", "shift", "target"))
WHOLE, MISMATCH, GUARD = (STOPS.index(s) for s in ("whole", "mismatch", "guard"))
PROBABILITY, TOP_K, ENTROPY = (STOPS.index(s) for s in ("probability", "top_k", "entropy"))
WINDOW = STOPS.index("window")


@dataclass(frozen=True)
class Evidence:
    """One verify pass over B rows with K >= 1 drafted tokens each.

    draft_tokens: int64 [B, K]. Ids are never negative.
    target_logits: [B, K + 1, V], after the checkpoint's logits processors and before temperature,
        top-k and top-p of sampling; slot s is what the target says given everything before drafted
        token s.
    target_tokens: int64 [B, K + 1], the target's choice at each slot.
    relevance: float32 [B, K], visual relevance of each slot, or None where the policy has no need.
    special: bool [V], ids that end or structure a text: never accepted against the target's will.
    relevance_so_far: float32 [B, H], relevance of the latest committed slots of each caption,
        infinite where there were fewer, or None where the policy has no need.
    """

    draft_tokens: Tensor
    target_logits: Tensor
    target_tokens: Tensor
    relevance: Tensor | None
    special: Tensor
    relevance_so_far: Tensor | None = None

    @property
    def exact(self) -> Tensor:
        """bool [B, K]: the drafted token is the target's own choice."""
        return self.draft_tokens == self.target_tokens[:, :-1]

    @property
    def guarded(self) -> Tensor:
        """bool [B, K]: one of the two tokens is special, so only an exact match may stay.

        A loose end token would cut a caption, a loosely skipped one would run on.
        """
        # gather, as `verdict` does, not an index: on a CPU the first call of each operation after a
        # pass of the model is ten times as slow as the next
        special = self.special.expand(len(self.draft_tokens), -1)
        return special.gather(1, self.draft_tokens) | special.gather(1, self.target_tokens[:, :-1])

    def draft_probability(self) -> Tensor:
        """float32 [B, K]: the target's probability of each drafted token."""
        logits = self.target_logits[:, :-1].float()
        drafted = logits.gather(-1, self.draft_tokens[..., None])[..., 0]
        return (drafted - logits.logsumexp(-1)).exp()

    def draft_rank(self) -> Tensor:
        """int64 [B, K]: how many tokens the target finds likelier than each drafted token."""
        logits = self.target_logits[:, :-1]
        drafted = logits.gather(-1, self.draft_tokens[..., None])
        return (logits > drafted).sum(-1)

    def entropy(self) -> Tensor:
        """float32 [B, K]: the target's entropy at each slot over the vocabulary's maximum, 0..1."""
        log_p = self.target_logits[:, :-1].float().log_softmax(-1)
        # processors may forbid ids with -inf: those add nothing
        entropy = -(log_p.exp() * log_p.clamp(min=torch.finfo(log_p.dtype).min)).sum(-1)
        return entropy / math.log(log_p.shape[-1])


@dataclass(frozen=True)
class Verdict:
    """accepted: int64 [B], length of the accepted prefix, 0..K. next_token: int64 [B], the target's
    token after it. reasons: int64 [B, K], index into `lvspec.types.REASONS`, of the prefix.
    stops: int64 [B], index into `lvspec.types.STOPS`, why the prefix is not longer."""

    accepted: Tensor
    next_token: Tensor
    reasons: Tensor
    stops: Tensor


def verdict(evidence: Evidence, kept: Tensor, why: Tensor | int, refused: Tensor | int) -> Verdict:
    """Accept the longest prefix of slots that are exact or `kept`; the target says the token after.

    kept: bool [B, K], mismatches that may stay. why: their reason code. refused: the stop code of
    the other mismatches. Codes are int64 [B, K], or one for all.
    """
    exact = evidence.exact
    ok = exact | kept
    accepted = ok.cumprod(-1).sum(-1)  # [B]
    next_token = evidence.target_tokens.gather(1, accepted[:, None])[:, 0]
    reasons = torch.where(exact, EXACT, why)
    refusals = torch.where(ok, WHOLE, refused)  # [B, K]
    at = accepted.clamp(max=refusals.shape[1] - 1)  # the last slot is ok where all are
    return Verdict(accepted, next_token, reasons, refusals.gather(1, at[:, None])[:, 0])
