"""Strict verification (Leviathan et al. 2023, greedy case)."""

from lvspec.config import Exact
from lvspec.policies.evidence import EXACT, Evidence, Verdict, reason_codes, verdict


def decide_exact(evidence: Evidence, settings: Exact) -> Verdict:
    """Accept drafted tokens as long as they are the target's own choice."""
    return verdict(evidence, evidence.exact, reason_codes(evidence.exact, EXACT))
