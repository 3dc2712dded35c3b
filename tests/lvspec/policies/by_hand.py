"""Evidence written by hand, and verdicts in words."""

import torch
from hypothesis import strategies as st

from lvspec.policies import POLICIES, Evidence, Verdict
from lvspec.types import REASONS, STOPS

VOCAB, EOS = 12, 11


def special() -> torch.Tensor:
    return torch.arange(VOCAB) == EOS


def evidence(draft, target, relevance=None, probability=0.9, so_far=None) -> Evidence:
    """One row per list; the target gives its own token `probability`, the rest share it."""
    drafted, said = torch.tensor(draft, dtype=torch.int64), torch.tensor(target)
    rest = (1 - probability) / (VOCAB - 1)
    chosen = torch.nn.functional.one_hot(said, VOCAB).bool()
    logits = torch.where(chosen, probability, rest).log()
    scores = None if relevance is None else torch.tensor(relevance, dtype=torch.float32)
    past = None if so_far is None else torch.tensor(so_far, dtype=torch.float32)
    return Evidence(drafted, logits, said, scores, special(), past)


def verdict(given_evidence: Evidence, policy) -> Verdict:
    return POLICIES[type(policy)](given_evidence, policy)


def decide(given_evidence: Evidence, policy):
    """Accepted, next token and reasons of the accepted, each a list of rows."""
    decided = verdict(given_evidence, policy)
    reasons = [[REASONS[i] for i in row] for row in decided.reasons.tolist()]
    prefixes = [row[:n] for row, n in zip(reasons, decided.accepted.tolist(), strict=True)]
    return decided.accepted.tolist(), decided.next_token.tolist(), prefixes


def stops(given_evidence: Evidence, policy) -> list[str]:
    """What stopped each row."""
    return [STOPS[i] for i in verdict(given_evidence, policy).stops.tolist()]


blocks = st.integers(1, 9).flatmap(
    lambda k: st.tuples(
        st.lists(st.integers(0, VOCAB - 1), min_size=k, max_size=k),
        st.lists(st.integers(0, VOCAB - 1), min_size=k + 1, max_size=k + 1),
        st.lists(st.floats(-1, 1, width=32), min_size=k, max_size=k),
    )
)
"""Drafted tokens [k], the target's [k + 1], relevance [k]."""
