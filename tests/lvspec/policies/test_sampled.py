"""What the policies' docstrings promise under sampling, on blocks of one drafted token: draft and
target draw with the same noise, 40,000 seeds."""

import pytest
import torch

from lvspec.config import Entropy, Exact, Fly, Gate, Lvspec, Sampling
from lvspec.policies import Evidence
from lvspec.sampling import Sampler
from tests.lvspec.policies.by_hand import verdict

DRAWS, SIZE, EOS = 40_000, 8, 7
CHI_SQUARE = 24.32  # 99.9 % quantile at 7 degrees of freedom


@pytest.fixture(scope="module")
def models() -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [V] of a target and a draft."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(SIZE, generator=generator)
    return target, target + torch.randn(SIZE, generator=generator)


@pytest.fixture(scope="module")
def block(models) -> Evidence:
    target, draft = (logits.expand(DRAWS, 1, SIZE) for logits in models)
    sampler = Sampler(DRAWS, torch.device("cpu"))
    for slot in range(DRAWS):
        sampler.admit(slot, Sampling(temperature=1.0, seed=slot))
    place = torch.zeros(DRAWS, 1, dtype=torch.int64)
    drafted, own = sampler.choose(draft, place), sampler.choose(target, place)
    after = sampler.choose(target, place + 1)
    relevance = (torch.arange(DRAWS) % 2).float()[:, None]  # every other slot is relevant
    special = torch.arange(SIZE) == EOS
    logits, said = target.expand(DRAWS, 2, SIZE), torch.cat([own, after], 1)
    return Evidence(drafted, logits, said, relevance, special)


def emitted(block: Evidence, policy) -> torch.Tensor:
    """The first token that comes out, int64 [DRAWS]."""
    decided = verdict(block, policy)
    return torch.where(decided.accepted > 0, block.draft_tokens[:, 0], decided.next_token)


def shares(tokens: torch.Tensor) -> torch.Tensor:
    return torch.bincount(tokens, minlength=SIZE).double() / len(tokens)


def chi_square(tokens: torch.Tensor, logits: torch.Tensor) -> float:
    expected = logits.double().softmax(-1)
    return float(((shares(tokens) - expected) ** 2 / expected).sum() * len(tokens))


LOOSE = [
    Lvspec(loose_share=1.0),
    Lvspec(scope="fixed", threshold=0.5, shift=False),
    Gate(min_probability=0.1),
    Entropy(min_entropy=0.0),
    Fly(min_entropy=0.0),
]


def test_exact_follows_the_target(models, block):
    assert chi_square(emitted(block, Exact()), models[0]) < CHI_SQUARE


@pytest.mark.parametrize("policy", [Exact(), *LOOSE])
def test_captions_end_where_the_targets_draw_ends_them(block, policy):
    assert torch.equal(emitted(block, policy) == EOS, block.target_tokens[:, 0] == EOS)


def test_entropy_is_the_target_where_it_is_sure_and_else_the_draft(models, block):
    assert chi_square(emitted(block, Entropy(min_entropy=1.0)), models[0]) < CHI_SQUARE
    free = ~block.guarded[:, 0]
    assert torch.equal(emitted(block, Entropy(0.0))[free], block.draft_tokens[free, 0])


def test_lvspec_is_the_target_at_strict_slots_and_the_draft_at_loose_ones(models, block):
    said = emitted(block, Lvspec(scope="fixed", threshold=0.5, shift=False))
    strict = block.relevance[:, 0] > 0.5
    assert torch.equal(said[strict], block.target_tokens[strict, 0])
    assert chi_square(said[strict], models[0]) < CHI_SQUARE
    free = ~strict & ~block.guarded[:, 0]
    assert torch.equal(said[free], block.draft_tokens[free, 0])
    assert chi_square(said[~strict], models[0]) > 10 * CHI_SQUARE, "the test must be able to tell"


@pytest.mark.parametrize("floor", [0.05, 0.1, 0.2])
def test_the_gate_is_as_far_from_the_target_as_it_keeps_tokens_at_most(models, block, floor):
    said, own = emitted(block, Gate(min_probability=floor)), block.target_tokens[:, 0]
    probability = models[0].softmax(-1)
    against = said != own
    assert bool((probability[said[against]] >= floor).all())
    distance = 0.5 * float((shares(said) - probability.double()).abs().sum())
    kept = float(against.double().mean())
    assert kept > 0 and distance <= kept + 0.01
