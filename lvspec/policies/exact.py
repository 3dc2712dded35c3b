"""Strict verification (Leviathan et al. 2023, greedy case)."""

import torch

from lvspec.config import Exact
from lvspec.policies.evidence import EXACT, MISMATCH, Evidence, Verdict, verdict


def decide_exact(evidence: Evidence, settings: Exact) -> Verdict:
    """Accept drafted tokens as long as they are the target's own choice."""
    return verdict(evidence, torch.zeros_like(evidence.exact), EXACT, MISMATCH)
