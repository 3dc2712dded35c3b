"""Making the draft: the target captions scenes greedily, and the draft imitates those captions and
their distributions.

Belongs here: the pool of the target's captions, and the draft's imitation of it (training only).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import Qwen2_5_VLForConditionalGeneration

from lvspec.demo.data import GRID, NUM_TOKENS, Batch, Maker
from lvspec.demo.losses import Runner, caption_loss
from lvspec.demo.optimizer import Optimizer
from lvspec.demo.scenes import Scene

_TOP = 24  # target probabilities kept per token; they hold nearly all mass
MAX_TOKENS = 110


@torch.no_grad()
def greedy(
    model: Qwen2_5_VLForConditionalGeneration,
    maker: Maker,
    batch: Batch,
    max_tokens: int = MAX_TOKENS,
) -> list[list[int]]:
    """Greedy captions by stock `generate`, token ids without EOS; `max_tokens` long where no EOS
    came.
    """
    size = len(batch.scenes)
    ids = torch.tensor(maker.prompt).expand(size, -1)
    kinds = torch.zeros_like(ids)
    kinds[:, maker.video_at : maker.video_at + NUM_TOKENS] = 2
    generate: Any = model.generate  # pyright: ignore  # transformers gives it no usable type
    out = generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        mm_token_type_ids=kinds,
        pixel_values_videos=batch.pixels.reshape(-1, batch.pixels.shape[-1]),
        video_grid_thw=torch.tensor([GRID] * size),
        second_per_grid_ts=torch.tensor([s.duration_s / GRID[0] for s in batch.scenes]),
        max_new_tokens=max_tokens,
        do_sample=False,
    )[:, ids.shape[1] :].tolist()
    return [row[: row.index(maker.eos)] if maker.eos in row else row for row in out]


@dataclass(frozen=True)
class Lesson:
    """Scenes as the target saw them, captions, and what the target expected at every token."""

    batch: Batch
    top_ids: Tensor  # [B, L, 24] the target's likeliest next tokens
    top_shares: Tensor  # [B, L, 24] their probabilities, summing to 1


@torch.no_grad()
def lesson(target: Runner, rng: np.random.Generator, scenes: list[Scene]) -> Lesson:
    """A lesson over the target's own greedy captions of `scenes`."""
    maker = target.maker
    batch = maker.batch(rng, scenes)
    texts = maker.tokenizer.batch_decode(greedy(target.model, maker, batch))
    inputs, labels = maker.tokens(texts)
    places = [maker.positions(s.duration_s, inputs.shape[1]) for s in scenes]
    batch = replace(batch, positions=torch.stack(places, 1), inputs=inputs, labels=labels)
    shares, ids = target.logits(target.read(batch).states).softmax(-1).topk(_TOP, -1)
    light = replace(batch, pixels=batch.pixels.half())  # a pool of thousands has to fit in memory
    return Lesson(light, ids, shares / shares.sum(-1, keepdim=True))


def practice(maker: Maker, rng: np.random.Generator, scenes: list[Scene]) -> Lesson:
    """A lesson over the grammar's captions of fresh `scenes`, which teach the draft to see."""
    batch = maker.batch(rng, scenes)
    ids = batch.labels.clamp(min=0)[..., None]
    return Lesson(batch, ids, torch.ones(ids.shape))


def imitation_loss(logits: Tensor, taught: Lesson, is_fact: Tensor, fact_weight: float) -> Tensor:
    """Cross-entropy of the taught distribution under the draft's, weighted mean over tokens."""
    log_shares = logits.log_softmax(-1).gather(-1, taught.top_ids)
    each = -(taught.top_shares * log_shares).sum(-1)
    known = taught.batch.labels >= 0
    fact = is_fact[taught.batch.labels.clamp(min=0)] & known
    weight = known.float() + fact.float() * (fact_weight - 1)
    return (each * weight).sum() / weight.sum()


def kept_tokens(rng: np.random.Generator) -> Tensor | None:
    """Evenly spaced video tokens, as uniform pruning keeps them: mostly 10 %, at times more; None
    for all.

    The offset varies, so that the draft does not depend on one way of spacing them.
    """
    kind = rng.random()
    if kind < 0.2:
        return None
    share = 0.1 if kind < 0.85 else float(rng.uniform(0.1, 0.6))
    count = round(share * NUM_TOKENS + float(rng.uniform(-0.5, 0.5)))
    kept: NDArray[np.int64] = ((np.arange(count) + rng.random()) * NUM_TOKENS / count).astype(
        np.int64
    )
    return torch.from_numpy(kept)


def teach(
    target: Runner, scenes: Iterator[Scene], rng: np.random.Generator, count: int
) -> list[Lesson]:
    """`count` lessons of 64 scenes each over the target's captions."""
    started, lessons = time.time(), list[Lesson]()
    for i in range(count):
        lessons.append(lesson(target, rng, [next(scenes) for _ in range(64)]))
        if i % 4 == 3:
            print(f"[teach] {(i + 1) * 64} scenes {time.time() - started:.0f}s", flush=True)
    return lessons


def part(taught: Lesson, rows: slice) -> Lesson:
    """Some scenes of a lesson, padding trimmed."""
    b = taught.batch
    length = int((b.labels[rows] >= 0).sum(1).max())
    prompt = b.positions.shape[-1] - b.labels.shape[1]
    return Lesson(
        Batch(
            b.scenes[rows],
            b.pixels[rows].float(),
            b.positions[:, rows, : prompt + length],
            b.inputs[rows, :length],
            b.labels[rows, :length],
            b.seen[rows],
            b.told[rows],
            b.gist[rows],
        ),
        taught.top_ids[rows, :length],
        taught.top_shares[rows, :length],
    )


@dataclass(frozen=True)
class Imitation:
    """How the draft is taught. The defaults made the shipped pair."""

    steps: int = 1500
    batch: int = 16
    rate: float = 4e-3
    word_weight: float = 0.2
    fact_weight: float = 3.0
    fresh: float = 0.4  # share of steps on fresh scenes instead of the target's captions


def imitate(
    draft: Runner,
    lessons: list[Lesson],
    scenes: Iterator[Scene],
    rng: np.random.Generator,
    plan: Imitation,
) -> None:
    """Trains the draft on the lessons, again and again in changing order, and on fresh scenes."""
    maker = draft.maker
    optimizer = Optimizer(draft.model.parameters(), [draft.embedding])
    per = len(lessons[0].batch.scenes) // plan.batch
    started, order = time.time(), np.zeros(0, int)
    facts = fillers = 0.0
    for step in range(plan.steps):
        if not len(order):
            order = rng.permutation(len(lessons) * per)
        if rng.random() < plan.fresh:
            taught = practice(maker, rng, [next(scenes) for _ in range(plan.batch)])
        else:
            (which, place), order = divmod(int(order[0]), per), order[1:]
            taught = part(lessons[which], slice(place * plan.batch, (place + 1) * plan.batch))
        out = draft.read(taught.batch, kept_tokens(rng))
        logits = draft.logits(out.states)
        _, fact, filler = caption_loss(logits, taught.batch.labels, maker.is_fact, 1.0)
        seen, _ = draft.vision_loss(out.video, taught.batch.gist)
        loss = imitation_loss(logits, taught, maker.is_fact, plan.fact_weight)
        (loss + plan.word_weight * seen).backward()
        left = (1 - step / plan.steps) / 0.8
        optimizer.step(plan.rate * min(1.0, (step + 1) / 40) * min(1.0, left + 0.02))
        facts, fillers = 0.95 * facts + 0.05 * fact, 0.95 * fillers + 0.05 * filler
        if step % 100 == 99:
            print(
                f"[imitate] step {step + 1} {time.time() - started:.0f}s loss {loss.item():.3f} "
                f"facts {facts:.3f} fillers {fillers:.3f}",
                flush=True,
            )
