"""Accept where the target is undecided: FLy's gate without its window (ALGORITHM.md section 4)."""

import torch

from lvspec.config import Entropy
from lvspec.policies.evidence import ENTROPY, GUARD, LOOSE, Evidence, Verdict, verdict


def decide_entropy(evidence: Evidence, settings: Entropy) -> Verdict:
    """Accept mismatches at slots where the target's entropy is at least `min_entropy`."""
    undecided = evidence.entropy() >= settings.min_entropy
    guarded = evidence.guarded
    refused = torch.where(guarded, GUARD, ENTROPY)
    return verdict(evidence, undecided & ~guarded, LOOSE, refused)
