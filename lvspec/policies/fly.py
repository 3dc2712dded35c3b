"""Deferred judgement of mismatches (FLy, arXiv 2511.22972; ALGORITHM.md section 4)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from lvspec.config import Fly
from lvspec.policies.evidence import ENTROPY, GUARD, LOOSE, WINDOW, Evidence, Verdict, verdict


def decide_fly(evidence: Evidence, settings: Fly) -> Verdict:
    """Accept a mismatch where the target is undecided and agrees again for a whole window."""
    agrees_again = _all_of_next(evidence.exact, settings.window)
    undecided = evidence.entropy() >= settings.min_entropy
    guarded = evidence.guarded
    refused = torch.where(guarded, GUARD, torch.where(undecided, WINDOW, ENTROPY))
    return verdict(evidence, undecided & agrees_again & ~guarded, LOOSE, refused)


def _all_of_next(exact: Tensor, window: int) -> Tensor:
    """bool [B, K]: all of the `window` slots after each one match, and lie inside the block."""
    beyond = F.pad(exact.float(), (0, window))  # no match beyond the block
    return beyond.unfold(1, window, 1)[:, 1:].amin(-1) > 0
