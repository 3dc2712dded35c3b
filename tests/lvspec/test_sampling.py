"""Sampling follows the target's distribution, draws alike for draft and target, and a caption is
that of plain sampling with its seed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from lvspec import DecodeSettings, Engine, Exact, Lvspec, Request, Sampling
from lvspec.sampling import Sampler, gumbel, warp
from tests.lvspec import tiny

DRAWS = 40_000
# 99.9 % quantiles of chi-square by degrees of freedom
CHI_SQUARE = {4: 18.47, 7: 24.32}


def chi_square(tokens: torch.Tensor, probability: torch.Tensor) -> float:
    counts = torch.bincount(tokens.flatten(), minlength=len(probability)).double()
    expected = probability.double() * counts.sum()
    return float(((counts - expected) ** 2 / expected).sum())


def sampler(settings: Sampling, seeds) -> Sampler:
    made = Sampler(len(seeds), torch.device("cpu"))
    for slot, seed in enumerate(seeds):
        made.admit(slot, replace(settings, seed=int(seed)))
    return made


def speculate(target: torch.Tensor, draft: torch.Tensor, draw) -> torch.Tensor:
    """Second tokens of strict captions: drafted tokens that agree, else the target's.

    target: [V, V], logits of the next token given the last. draft: the same of a draft.
    draw(logits [B, 1, V], place) -> [B, 1].
    """
    rows = DRAWS
    last = torch.zeros(rows, dtype=torch.int64)
    first = draw(draft[last][:, None], 0)[:, 0]  # the draft runs ahead on its own tokens
    second = draw(draft[first][:, None], 1)[:, 0]
    own = draw(target[last][:, None], 0)[:, 0]
    after = draw(target[own][:, None], 1)[:, 0]  # verified, or said by the target after a miss
    return torch.where((first == own) & (second == after), second, after)


def models(seed=0, size=8):
    generator = torch.Generator().manual_seed(seed)
    target = torch.randn(size, size, generator=generator)
    return target, target + torch.randn(size, size, generator=generator)


def test_speculative_draws_follow_the_targets_distribution():
    target, draft = models()
    made = sampler(Sampling(temperature=0.8), range(DRAWS))

    def draw(logits, place):
        return made.choose(logits, torch.full((DRAWS, 1), place))

    share = (target / 0.8).softmax(-1)
    assert chi_square(speculate(target, draft, draw), share[0] @ share) < CHI_SQUARE[7]


def test_the_chi_square_finds_a_planted_bug():
    """Noise that is the same at every place: each draw is right by itself, the pair is not."""
    target, draft = models()
    made = sampler(Sampling(temperature=0.8), range(DRAWS))
    same = torch.zeros(DRAWS, 1, dtype=torch.int64)
    share = (target / 0.8).softmax(-1)
    bugged = speculate(target, draft, lambda logits, place: made.choose(logits, same))
    assert chi_square(bugged, share[0] @ share) > 10 * CHI_SQUARE[7]


def test_a_draft_and_a_target_that_nearly_agree_draw_the_same():
    """The coupling is what makes drafts worth verifying: independent draws would agree in the sum
    of squared probabilities only.
    """
    target, _ = models()
    made = sampler(Sampling(temperature=1.0), range(DRAWS))
    place = torch.zeros(DRAWS, 1, dtype=torch.int64)
    close = target[0] + 0.1 * torch.randn(8, generator=torch.Generator().manual_seed(1))
    one, other = (made.choose(row.expand(DRAWS, 1, 8), place) for row in (target[0], close))
    distance = 0.5 * (target[0].softmax(-1) - close.softmax(-1)).abs().sum()
    agreed = float((one == other).float().mean())
    assert agreed >= float((1 - distance) / (1 + distance)) - 0.01


def test_noise_is_gumbel_and_independent():
    seeds = torch.arange(-50, 50)
    noise = gumbel(seeds, torch.arange(20).expand(100, 20), 50)  # [100, 20, 50]
    assert noise.mean() == pytest.approx(0.5772, abs=0.02)
    assert noise.var() == pytest.approx(np.pi**2 / 6, abs=0.05)
    for axis in range(3):  # neighbours in seed, place and token know nothing of each other
        a, b = noise.narrow(axis, 0, 19).flatten(), noise.narrow(axis, 1, 19).flatten()
        assert abs(float(torch.corrcoef(torch.stack([a, b]))[0, 1])) < 0.02


@given(
    st.integers(0, 2**32),
    st.floats(0.1, 3),
    st.integers(1, 9),
    st.floats(0.05, 1),
)
def test_warping_is_that_of_transformers(seed, temperature, top_k, top_p):
    logits = 3 * torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))
    expected = TemperatureLogitsWarper(temperature)(None, logits)
    expected = TopKLogitsWarper(min(top_k, 8))(None, expected)
    expected = TopPLogitsWarper(top_p)(None, expected)
    values = torch.full((1,), temperature), torch.full((1,), top_k), torch.full((1,), top_p)
    ours = warp(logits[None], *values)[0]
    near_edge = (expected.softmax(-1).sort(descending=True).values.cumsum(-1) - top_p).abs() < 1e-5
    if not near_edge.any():
        assert torch.equal(ours.isinf(), expected.isinf())
        assert torch.allclose(ours.softmax(-1), expected.softmax(-1), atol=1e-6)


def test_one_row_greedy_one_row_sampled():
    made = Sampler(2, torch.device("cpu"))
    made.admit(1, Sampling(temperature=5.0, seed=3))
    logits = torch.tensor([0.0, 1.0, 0.5, 0.2]).expand(2, 400, 4)
    chosen = made.choose(logits, torch.zeros(2, 1, dtype=torch.int64))
    assert set(chosen[0].tolist()) == {1}
    assert set(chosen[1].tolist()) == {0, 1, 2, 3}


# Through the engine, on a tiny checkpoint.

SETTINGS = DecodeSettings(policy=Exact(), max_new_tokens=30, slots=3, draft_length=5)
WARM = Sampling(temperature=1.2, top_p=0.95, top_k=40)


@pytest.fixture(scope="module")
def target():
    torch.set_num_threads(1)
    return tiny.qwen2_5_vl(0, layers=3, hidden=48)


def requests(count=6) -> list[Request]:
    return [replace(r, sampling=replace(WARM, seed=i)) for i, r in enumerate(tiny.requests(count))]


def run(target, draft, settings, asked):
    return {
        r.request_id: r.token_ids for r in Engine(tiny.pair(target, draft), settings).run(asked)
    }


@pytest.mark.parametrize("length,slots", [(1, 2), (5, 3), (12, 6)])
def test_exact_says_what_plain_sampling_with_the_seed_says(target, length, slots):
    plain = run(target, None, replace(SETTINGS, drafter="none", slots=1), requests())
    draft = tiny.noisy_copy(target, 0.02)
    settings = replace(SETTINGS, draft_length=length, slots=slots)
    assert run(target, draft, settings, requests()) == plain
    assert run(target, draft, settings, requests()[::-1]) == plain  # nor on the order
    greedy = run(target, None, replace(SETTINGS, drafter="none"), tiny.requests(6))
    assert plain != greedy


def test_seeds_differ_and_repeat(target):
    def caption(seed):
        (request,) = tiny.requests(1)
        asked = [replace(request, sampling=replace(WARM, seed=seed))]
        return run(target, None, replace(SETTINGS, drafter="none"), asked)["0"]

    assert caption(1) == caption(1)
    assert len({caption(seed) for seed in range(5)}) > 3


def test_settings_sample_requests_that_do_not_say(target):
    plain = replace(SETTINGS, drafter="none", sampling=WARM)
    asked = [replace(r, sampling=WARM) for r in tiny.requests(2)]
    unsaid = run(target, None, plain, tiny.requests(2))
    assert unsaid == run(target, None, replace(SETTINGS, drafter="none"), asked)


def test_first_tokens_of_the_engine_follow_the_checkpoints_distribution(target):
    """The whole path on a real checkpoint, top_k cut to five tokens: 2,000 seeds."""
    (request,) = tiny.requests(1)
    sampling = Sampling(temperature=1.0, top_k=5)
    asked = [
        replace(request, id=str(i), sampling=replace(sampling, seed=i), max_new_tokens=1)
        for i in range(2000)
    ]
    settings = replace(SETTINGS, drafter="none", slots=1)
    said = torch.tensor([t[0] for t in run(target, None, settings, asked).values()])
    prepared = target.prepare(request.frames, request.times_s, request.prompt)
    logits = target.model(**prepared.inputs).logits[0, -1].detach()
    best = logits.topk(5)
    places = (said[:, None] == best.indices).long().argmax(-1)
    assert (said[:, None] == best.indices).any(-1).all()
    assert chi_square(places, best.values.softmax(-1)) < CHI_SQUARE[4]


def test_loose_policies_sample_too(target):
    draft = tiny.qwen2_5_vl(7, layers=1, hidden=32)
    settings = replace(SETTINGS, policy=Lvspec())
    one = run(target, draft, settings, requests())
    assert one == run(target, draft, replace(settings, slots=1), requests())
    assert one != run(target, draft, replace(settings, policy=Exact()), requests())
