"""The rule without vision: accept what the target itself finds plausible."""

from lvspec.config import Gate
from lvspec.policies.evidence import LOOSE, Evidence, Verdict, reason_codes, verdict


def decide_gate(evidence: Evidence, settings: Gate) -> Verdict:
    """Accept where the target gives the drafted token at least `min_probability`."""
    plausible = evidence.draft_probability() >= settings.min_probability
    ok = evidence.exact | (plausible & ~evidence.guarded)
    return verdict(evidence, ok, reason_codes(evidence.exact, LOOSE))
