"""Imitation: what a lesson holds, and what its loss is."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lvspec.demo import facts, heldout, path
from lvspec.demo.distill import Lesson, imitation_loss, lesson, part, practice
from lvspec.demo.evaluate import load
from lvspec.demo.losses import Runner
from lvspec.demo.train import foreign


@pytest.fixture(scope="module")
def draft() -> Runner:
    return load(path("draft"))


def fresh(draft: Runner, count: int) -> Lesson:
    return practice(draft.maker, np.random.default_rng(0), list(islice(heldout(8), count)))


def test_practice_is_true_captions(draft: Runner) -> None:
    taught = fresh(draft, 4)
    for scene, row in zip(taught.batch.scenes, taught.batch.labels, strict=True):
        ids = [i for i in row.tolist() if i >= 0]
        assert ids.pop() == draft.maker.eos
        assert facts.parse(draft.maker.tokenizer.decode(ids)) == facts.truth(scene)


def test_imitating_one_sure_word_is_cross_entropy(draft: Runner) -> None:
    taught = fresh(draft, 2)
    labels, is_fact = taught.batch.labels, draft.maker.is_fact
    logits = torch.randn(*labels.shape, 1024, generator=torch.Generator().manual_seed(0))
    flat = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    assert imitation_loss(logits, taught, is_fact, 1.0) == pytest.approx(float(flat))
    heavy = float(imitation_loss(logits, taught, is_fact, 1e6))
    only = labels.where(is_fact[labels.clamp(min=0)], -100)
    of_facts = F.cross_entropy(logits.flatten(0, 1), only.flatten(), ignore_index=-100)
    assert heavy == pytest.approx(float(of_facts), rel=1e-3)


def test_a_lesson_is_the_teachers_own_caption(draft: Runner) -> None:
    taught = lesson(draft, np.random.default_rng(0), list(islice(heldout(8), 3)))
    known = taught.batch.labels >= 0
    assert bool((taught.top_ids[..., 0] == taught.batch.labels)[known].all())
    assert torch.allclose(taught.top_shares.sum(-1), torch.ones(()))
    one = part(taught, slice(1, 2))
    assert one.batch.labels.shape == (1, int(known[1].sum()))
    assert one.batch.pixels.dtype == torch.float32


def test_foreign_captions_teach_facts_and_the_end_only(draft: Runner) -> None:
    maker = draft.maker
    scenes = list(islice(heldout(8), 6))
    batch = foreign(np.random.default_rng(0), maker, scenes, share=1.0)
    learned = batch.labels[batch.labels >= 0]
    assert bool((maker.is_fact[learned] | (learned == maker.eos)).all())
    assert int((batch.labels == maker.eos).sum()) == 6
    usual = foreign(np.random.default_rng(0), maker, scenes, share=0.0)
    assert bool((usual.labels >= 0).sum() > 5 * len(learned))
