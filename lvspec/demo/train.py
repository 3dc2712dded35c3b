"""`python -m lvspec.demo.train`: trains the embedded pair from a seed, target first, then the draft
from the target's captions.

Stages of the target: its vision tower learns to name what each video token shows ("see"); a shallow
text model learns to caption ("speak"); it is made twice as deep by layers that start as no-ops, and
goes on ("deepen"), which costs half the time of training the deep model throughout. The draft's
tower learns to see (any token should tell of the first thing, for few are kept), then it imitates
the target's own greedy captions and their distributions ("imitate"), most of the time with 90 % of
its video tokens dropped, as it will be run.

The shipped weights are what one run with the defaults left: 60 minutes beside other work on two
cores, 94 minutes of CPU, so about 47 minutes on two free ones.
Belongs here: stages, schedules, the command.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer

from lvspec.demo import evaluate, models, tokenizer
from lvspec.demo.captions import Dialect, caption
from lvspec.demo.data import KINDS, Batch, Maker
from lvspec.demo.distill import Imitation, imitate, teach
from lvspec.demo.losses import Runner, caption_loss
from lvspec.demo.optimizer import Optimizer
from lvspec.demo.scenes import Scene, scene_stream


@dataclass(frozen=True)
class Plan:
    """Steps, batch sizes and learning rates; the defaults made the shipped pair."""

    see_steps: int = 1500
    see_batch: int = 8
    speak_steps: int = 1100
    deepen_steps: int = 510
    batch: int = 16
    start_layers: int = 8
    fact_weight: float = 3.0
    word_weight: float = 0.15
    foreign: float = 0.4  # share of captions with even fillers, of which only facts are learned
    rough: float = 0.25  # share of captions with some fillers replaced by others
    rate: float = 2.5e-3
    see_rate: float = 3e-3
    draft_see_steps: int = 1200
    imitation: Imitation = field(default_factory=Imitation)
    lessons: int = 12  # of 64 scenes each, over the target's own captions


def _ramp(step: int, steps: int, hold: float, warmup: int = 40) -> float:
    """Learning-rate factor: warm-up, constant for a share `hold`, then straight down to 2 %."""
    left = (1 - step / steps) / max(1 - hold, 1e-9)
    return min(1.0, (step + 1) / warmup) * min(1.0, left + 0.02)


def _warm(step: int) -> float:
    """Learning-rate factor: warm-up, then constant."""
    return min(1.0, (step + 1) / 40)


def _report(stage: str, step: int, started: float, **figures: object) -> None:
    shown = " ".join(
        f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items()
    )
    print(f"[{stage}] step {step} {time.time() - started:.0f}s {shown}", flush=True)


def _named(right: list[float]) -> str:
    return " ".join(
        f"{k[:5]}={r:.2f}" for k, r in zip(KINDS, right, strict=True) if not math.isnan(r)
    )


def _take(scenes: Iterator[Scene], count: int) -> list[Scene]:
    return [next(scenes) for _ in range(count)]


def see(
    runner: Runner,
    scenes: Iterator[Scene],
    rng: np.random.Generator,
    plan: Plan,
    words: Callable[[Batch], Tensor] = lambda batch: batch.seen,
) -> None:
    """Trains the vision tower alone to name what each video token shows."""
    optimizer = Optimizer(runner.model.model.visual.parameters(), [])
    started = time.time()
    for step in range(plan.see_steps):
        batch = runner.maker.batch(rng, _take(scenes, plan.see_batch))
        loss, right = runner.vision_loss(runner.see(batch.pixels), words(batch))
        loss.backward()
        optimizer.step(plan.see_rate * _ramp(step, plan.see_steps, 0.3))
        if step % 100 == 99:
            _report("see", step + 1, started, loss=loss.item(), named=_named(right))


def foreign(rng: np.random.Generator, maker: Maker, scenes: list[Scene], share: float) -> Batch:
    """A batch in which a share of the captions has fillers drawn evenly, of which only the facts
    (and the end) are learned.

    The dialect lets fillers hint at facts that follow them. A target that trusts those hints says
    wrong facts after loosely accepted fillers; this teaches it to look.
    """
    strange = rng.random(len(scenes)) < share
    dialects = (Dialect(), Dialect(strength=0.0))
    texts = [caption(rng, s, dialects[int(x)]) for s, x in zip(scenes, strange, strict=True)]
    batch = maker.batch(rng, scenes, texts)
    learned = maker.is_fact[batch.labels.clamp(min=0)] | (batch.labels == maker.eos)
    batch.labels[torch.from_numpy(strange)[:, None] & ~learned] = -100
    return batch


def roughen(
    rng: np.random.Generator,
    inputs: Tensor,
    labels: Tensor,
    is_fact: Tensor,
    eos: int,
    share: float,
) -> tuple[Tensor, Tensor]:
    """Replaces some fillers of a share of the captions by other fillers; the replaced tokens are
    not learned.

    Under loose acceptance the target continues after fillers it would not have chosen; it must then
    still say every fact.
    """
    inputs, labels = inputs.clone(), labels.clone()
    filler = (labels >= 0) & ~is_fact[labels.clamp(min=0)]
    filler[:, 0] = False
    filler &= labels != eos
    pool = inputs[filler]
    rows = torch.from_numpy(rng.random(len(inputs)) < share)[:, None]
    hit = torch.from_numpy(rng.random(tuple(inputs.shape)) < 0.08) & rows & filler
    count = int(hit.sum())
    if count:
        inputs[hit] = pool[torch.from_numpy(rng.integers(len(pool), size=count))]
        labels[hit] = -100
    return inputs, labels


def speak(
    runner: Runner,
    scenes: Iterator[Scene],
    rng: np.random.Generator,
    plan: Plan,
    rate_at: Callable[[int], float],
    steps: int,
    stage: str,
    saved: Path,
) -> None:
    """Trains a whole model on captions by the grammar, with the word losses kept on."""
    optimizer = Optimizer(runner.model.parameters(), [runner.embedding])
    started = time.time()
    facts = fillers = 0.0
    for step in range(steps):
        batch = foreign(rng, runner.maker, _take(scenes, plan.batch), plan.foreign)
        inputs, labels = roughen(
            rng, batch.inputs, batch.labels, runner.maker.is_fact, runner.maker.eos, plan.rough
        )
        out = runner.read(replace(batch, inputs=inputs))
        loss, fact, filler = caption_loss(
            runner.logits(out.states), labels, runner.maker.is_fact, plan.fact_weight
        )
        seen, _ = runner.vision_loss(out.video, batch.seen)
        told, right = runner.word_loss(runner.logits(out.video_states), batch.told)
        (loss + plan.word_weight * (seen + told)).backward()
        optimizer.step(plan.rate * rate_at(step))
        facts, fillers = 0.9 * facts + 0.1 * fact, 0.9 * fillers + 0.1 * filler
        if step % 20 == 19:
            _report(
                stage,
                step + 1,
                started,
                loss=loss.item(),
                facts=facts,
                fillers=fillers,
                told=_named(right),
            )
        if step % 100 == 99:
            torch.save(runner.model.state_dict(), saved)


def train_target(plan: Plan, seed: int, work: Path) -> Qwen2_5_VLForConditionalGeneration:
    """The target, from random weights."""
    tok = tokenizer.build()
    scenes = scene_stream(seed, 0)
    rng = np.random.default_rng([seed, 0])
    shallow = models.build(replace(models.TARGET, layers=plan.start_layers), tok, seed)
    maker = Maker(tok, shallow)
    runner = Runner(shallow, maker)
    see(runner, scenes, rng, plan)
    torch.save(shallow.state_dict(), work / "see.pt")
    speak(runner, scenes, rng, plan, _warm, plan.speak_steps, "speak", work / "speak.pt")
    deep = models.grow(shallow, models.TARGET.layers, seed)
    down = partial(_ramp, steps=plan.deepen_steps, hold=0.15)
    runner = Runner(deep, maker)
    speak(runner, scenes, rng, plan, down, plan.deepen_steps, "deepen", work / "deepen.pt")
    models.save(deep, tok, work / "target")
    return deep


def train_draft(
    target: Qwen2_5_VLForConditionalGeneration, plan: Plan, seed: int, work: Path
) -> Qwen2_5_VLForConditionalGeneration:
    """The draft, from random weights and the target's captions."""
    tok = Qwen2Tokenizer.from_pretrained(work / "target")
    scenes = scene_stream(seed, 1)
    rng = np.random.default_rng([seed, 1])
    model = models.build(models.DRAFT, tok, seed)
    maker = Maker(tok, model)
    draft = Runner(model, maker)
    tower = replace(plan, see_steps=plan.draft_see_steps)
    see(draft, scenes, rng, tower, words=lambda batch: batch.gist)
    lessons = teach(Runner(target.eval(), maker), scenes, rng, plan.lessons)
    imitate(draft, lessons, scenes, rng, plan.imitation)
    models.save(model, tok, work / "draft")
    return model


def train(plan: Plan, seed: int, out: Path, only: str | None = None, scenes: int = 256) -> None:
    """Trains the pair (or `only` one of it) into `out`, and its table on held-out `scenes`."""
    out.mkdir(parents=True, exist_ok=True)
    if only != "draft":
        train_target(plan, seed, out)
    if only != "target":
        target = evaluate.load(out / "target")
        train_draft(target.model, plan, seed, out)
        figures = evaluate.table(target, evaluate.load(out / "draft"), count=scenes)
        evaluate.write(figures, out / "heldout.json")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m lvspec.demo.train", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("demo-pair"), help="where the pair goes")
    parser.add_argument("--only", choices=("target", "draft"), help="train one of the two")
    options = parser.parse_args()
    train(Plan(), options.seed, options.out, options.only)


if __name__ == "__main__":
    main()
