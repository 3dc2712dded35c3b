"""Training arithmetic equals the stock model's, and deepening changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lvspec.demo import heldout, path
from lvspec.demo.data import GRID, Batch
from lvspec.demo.distill import greedy, kept_tokens
from lvspec.demo.evaluate import load
from lvspec.demo.losses import Runner
from lvspec.demo.models import DRAFT, build, grow
from lvspec.demo.optimizer import Optimizer, _orthogonal


@pytest.fixture(scope="module")
def draft() -> Runner:
    return load(path("draft"))


@pytest.fixture(scope="module")
def batch(draft: Runner) -> Batch:
    scenes = heldout(5)
    return draft.maker.batch(np.random.default_rng(0), [next(scenes) for _ in range(2)])


@torch.no_grad()
def test_the_vision_tower_is_stock(draft: Runner, batch: Batch) -> None:
    ours = draft.see(batch.pixels)
    stock = draft.model.model.visual(
        batch.pixels.reshape(-1, 1176), grid_thw=torch.tensor([GRID] * 2)
    ).pooler_output
    assert torch.allclose(ours.reshape(stock.shape), stock, atol=1e-4)


@torch.no_grad()
def test_a_whole_pass_is_stock(draft: Runner, batch: Batch) -> None:
    out = draft.read(batch)
    maker = draft.maker
    ids = torch.cat((torch.tensor([maker.prompt] * 2), batch.inputs), 1)
    kinds = torch.zeros_like(ids)
    kinds[:, maker.video_at : maker.video_at + 64] = 2
    stock = draft.model(
        input_ids=ids,
        mm_token_type_ids=kinds,
        pixel_values_videos=batch.pixels.reshape(-1, 1176),
        video_grid_thw=torch.tensor([GRID] * 2),
        second_per_grid_ts=torch.tensor([s.duration_s / GRID[0] for s in batch.scenes]),
    ).logits
    start = len(maker.prompt) - 1
    assert torch.allclose(draft.logits(out.states), stock[:, start:-1], atol=1e-3)


@torch.no_grad()
def test_keeping_every_video_token_changes_nothing(draft: Runner, batch: Batch) -> None:
    whole, kept = draft.read(batch), draft.read(batch, torch.arange(64))
    assert torch.equal(whole.states, kept.states)
    few = draft.read(batch, torch.tensor([3, 20, 40]))
    assert few.states.shape == whole.states.shape
    assert few.video_states.shape[1] == 3


@torch.no_grad()
def test_teacher_forcing_predicts_what_generate_says(draft: Runner, batch: Batch) -> None:
    said = greedy(draft.model, draft.maker, batch)
    inputs, labels = draft.maker.tokens(draft.maker.tokenizer.batch_decode(said))
    length = inputs.shape[1]
    at = torch.stack([draft.maker.positions(s.duration_s, length) for s in batch.scenes], 1)
    out = draft.read(replace(batch, inputs=inputs, labels=labels, positions=at))
    known = labels >= 0
    assert bool((draft.logits(out.states).argmax(-1) == labels)[known].all())


@torch.no_grad()
def test_growing_keeps_the_function(draft: Runner) -> None:
    model = build(DRAFT, draft.maker.tokenizer, seed=1)
    deep = grow(model, 5, seed=2)
    ids = torch.arange(300, 320)[None]
    before, after = (m.model.language_model(input_ids=ids)[0] for m in (model, deep))
    assert len(deep.model.language_model.layers) == 5
    assert torch.allclose(before, after, atol=1e-5)


def test_kept_tokens_are_even_and_mostly_few() -> None:
    rng = np.random.default_rng(0)
    draws = [kept_tokens(rng) for _ in range(400)]
    some = [k for k in draws if k is not None]
    assert 0.1 < 1 - len(some) / len(draws) < 0.3
    assert sum(len(k) in (6, 7) for k in some) > 0.7 * len(some)
    for kept in some:
        gaps = kept.diff()
        assert int(kept.min()) >= 0
        assert int(kept.max()) < 64
        assert int(gaps.max() - gaps.min()) <= 1


def test_muon_orthogonalises_and_learns() -> None:
    x = torch.randn(2, 12, 30, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(_orthogonal(x))
    assert float(values.min()) > 0.5
    assert float(values.max()) < 1.3
    weight = torch.nn.Parameter(torch.zeros(4, 3))
    goal = torch.arange(12.0).view(4, 3) / 12
    optimizer = Optimizer([weight], [])
    for step in range(300):
        (weight - goal).square().sum().backward()
        optimizer.step(0.05 * (1 - step / 300))
    assert float((weight - goal).abs().max()) < 0.05
