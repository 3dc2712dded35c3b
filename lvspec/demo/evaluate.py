"""The held-out table of the pair: what both models get right, how often they agree, where not, and
what a step costs.

Strict acceptance needs no decoding loop here: with greedy decoding the draft proposes after
prefixes of the target's own caption, so one teacher-forced pass of the draft over that caption
tells every round. Loose rules do need the loop: see `jobs/benchmark_decode.py`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer

from lvspec.demo import facts, heldout
from lvspec.demo.data import NUM_TOKENS, Batch, Maker
from lvspec.demo.distill import MAX_TOKENS, greedy
from lvspec.demo.losses import Runner
from lvspec.demo.scenes import Scene
from lvspec.pruning import uniform
from lvspec.relevance import relevance, visual_states

DRAFT_LENGTH = 10
RELEVANCE_TOP = 10
KEEP = 0.1


def load(folder: Path) -> Runner:
    """A saved model, fp32."""
    tokenizer = Qwen2Tokenizer.from_pretrained(folder)
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    return Runner(model, Maker(tokenizer, model))


def rounds(agrees: Sequence[bool], length: int) -> list[int]:
    """Accepted draft tokens in each round of strict greedy speculation over one caption.

    `agrees[j]` says whether the draft, after the target's tokens before j, proposes token j. The
    first token is the target's.
    """
    accepted: list[int] = []
    at = 1
    while at < len(agrees):
        run = 0
        while run < length and at + run < len(agrees) and agrees[at + run]:
            run += 1
        accepted.append(run)
        at += run + 1
    return accepted


def auc(scores: Tensor, positive: Tensor) -> float:
    """Area under the ROC curve: the chance that a positive scores above a negative."""
    ranks = scores.argsort().argsort().double() + 1
    n = int(positive.sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(scores) - n)))


@torch.no_grad()
def step_ms(runner: Runner, width: int, context: int = 130, repeats: int = 20) -> float:
    """Milliseconds of one stock decoding pass over `width` tokens at batch 1 behind `context`
    cached ones; median.
    """
    language: Any = runner.model.model.language_model
    embed: Any = runner.model.get_input_embeddings()
    head: Any = runner.model.lm_head
    text: Any = runner.model.config.text_config
    cache = DynamicCache(config=text)
    positions = torch.arange(context + width).expand(3, 1, -1)
    ids = torch.randint(300, 900, (1, context + width))
    language(
        inputs_embeds=embed(ids[:, :context]),
        position_ids=positions[..., :context],
        cache=cache,
        use_cache=True,
    )
    times: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        out = language(
            inputs_embeds=embed(ids[:, context:]),
            position_ids=positions[..., context:],
            cache=cache,
            use_cache=True,
        )
        head(out.last_hidden_state).argmax(-1)
        times.append((time.perf_counter() - started) * 1e3)
        cache.crop(-width)
    return float(np.median(times))


def _facts(texts: Sequence[str], scenes: Sequence[Scene]) -> dict[str, float]:
    """Share of facts right, overall and by kind ("other_" and "new_" facts stand beside the first
    thing's).
    """
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for text, scene in zip(texts, scenes, strict=True):
        for name, (hit, _) in facts.score_by_kind(text, scene).items():
            right[name] += hit
            total[name] += 1
    table = {name: round(right[name] / total[name], 4) for name in sorted(total)}
    return {"all": round(right.total() / total.total(), 4), **table}


@torch.no_grad()
def table(target: Runner, draft: Runner, seed: int = 1, count: int = 256) -> dict[str, object]:
    """The held-out table over `count` scenes."""
    rng = np.random.default_rng(seed)
    scenes = list(islice(heldout(seed), count))
    said: dict[str, list[str]] = {"target": [], "draft": []}
    ended: Counter[str] = Counter()
    lengths: list[int] = []
    scores, is_fact = list[Tensor](), list[Tensor]()
    accepted: dict[float, list[int]] = {1.0: [], KEEP: []}
    misses: Counter[str] = Counter()
    known = 0
    maker = target.maker
    for start in range(0, count, 32):
        part = scenes[start : start + 32]
        batch = maker.batch(rng, part)
        for name, runner in (("target", target), ("draft", draft)):
            ids = greedy(runner.model, maker, batch)
            said[name] += maker.tokenizer.batch_decode(ids)
            ended[name] += sum(len(row) < MAX_TOKENS for row in ids)
            if name == "target":
                lengths += [len(row) + 1 for row in ids]
        own = _with_captions(maker, batch, said["target"][start:])
        mask = own.labels >= 0
        fact = maker.is_fact[own.labels.clamp(min=0)] & mask
        out = target.read(own)
        counts = torch.full((len(part),), NUM_TOKENS)
        visual = visual_states(out.video_states)
        scores.append(relevance(out.states, visual, counts, RELEVANCE_TOP)[mask])
        is_fact.append(fact[mask])
        for keep in accepted:
            proposed = draft.logits(
                draft.read(own, None if keep == 1 else uniform(NUM_TOKENS, keep)).states
            ).argmax(-1)
            agrees = proposed == own.labels
            for row, valid in zip(agrees, mask, strict=True):
                accepted[keep] += rounds(row[valid].tolist(), DRAFT_LENGTH)
            if keep == KEEP:
                wrong = mask & ~agrees
                misses["fact"] += int((wrong & fact).sum())
                misses["filler"] += int((wrong & ~fact).sum())
                known += int(mask.sum())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    costs = {
        "target_step_ms": step_ms(target, 1),
        "target_verify_11_ms": step_ms(target, DRAFT_LENGTH + 1),
        "draft_step_ms": step_ms(draft, 1),
    }
    torch.set_num_threads(threads)
    return {
        "seed": seed,
        "scenes": count,
        "facts_target": _facts(said["target"], scenes),
        "facts_draft": _facts(said["draft"], scenes),
        "ended_share_target": ended["target"] / count,
        "ended_share_draft": ended["draft"] / count,
        "tokens": {
            "mean": round(float(np.mean(lengths)), 1),
            "min": min(lengths),
            "max": max(lengths),
        },
        "fact_token_share": round(float(torch.cat(is_fact).float().mean()), 4),
        "strict_tau_keep_all": round(float(np.mean(accepted[1.0])), 3),
        "strict_tau_keep_10_percent": round(float(np.mean(accepted[KEEP])), 3),
        "mismatch_rate": round(misses.total() / known, 4),
        "mismatches_at_fillers": round(misses["filler"] / max(1, misses.total()), 4),
        "relevance_auc": round(auc(torch.cat(scores), torch.cat(is_fact)), 4),
        **{k: round(v, 3) for k, v in costs.items()},
        "cost_ratio": round(costs["target_step_ms"] / costs["draft_step_ms"], 2),
    }


def _with_captions(maker: Maker, batch: Batch, texts: Sequence[str]) -> Batch:
    inputs, labels = maker.tokens(texts)
    length = inputs.shape[1]
    positions = torch.stack([maker.positions(s.duration_s, length) for s in batch.scenes], 1)
    return replace(batch, positions=positions, inputs=inputs, labels=labels)


def write(figures: dict[str, object], file: Path) -> None:
    """Stores the table as JSON and prints it."""
    text = json.dumps(figures, indent=2)
    file.write_text(text + "\n")
    print(text, flush=True)
