"""The rule without vision: accept what the target itself finds plausible."""

import torch

from lvspec.config import Gate
from lvspec.policies.evidence import GUARD, LOOSE, PROBABILITY, Evidence, Verdict, verdict


def decide_gate(evidence: Evidence, settings: Gate) -> Verdict:
    """Accept where the target gives the drafted token at least `min_probability`."""
    plausible = evidence.draft_probability() >= settings.min_probability
    guarded = evidence.guarded
    refused = torch.where(guarded, GUARD, PROBABILITY)
    return verdict(evidence, plausible & ~guarded, LOOSE, refused)
