"""Accept where the target is undecided: FLy's gate without its window (ALGORITHM.md section 4)."""

from lvspec.config import Entropy
from lvspec.policies.evidence import LOOSE, Evidence, Verdict, reason_codes, verdict


def decide_entropy(evidence: Evidence, settings: Entropy) -> Verdict:
    """Accept mismatches at slots where the target's entropy is at least `min_entropy`."""
    undecided = (evidence.entropy() >= settings.min_entropy) & ~evidence.guarded
    return verdict(evidence, evidence.exact | undecided, reason_codes(evidence.exact, LOOSE))
