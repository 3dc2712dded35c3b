"""Decoding methods measured against each other: same clips, same process, interleaved.

Clips are dealt into chunks; every method decodes every chunk at every batch size before the next
chunk begins, so a machine whose speed drifts slows all of them alike. A speedup is the median over
chunks of a ratio within one chunk, never a ratio of two times taken far apart.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TypeVar

import numpy as np

from lvspec.benchmark.methods import Method, methods
from lvspec.benchmark.stock import Outcome
from lvspec.config import DecodeSettings
from lvspec.engine import Engine
from lvspec.pair import Pair
from lvspec.types import Generation, Refusal, Request

T = TypeVar("T")


@dataclass(frozen=True)
class Item:
    """A clip to caption. score: what a caption says -> (facts right, facts there are)."""

    request: Request
    score: Callable[[str], tuple[int, int]]


@dataclass(frozen=True)
class Point:
    """One method at one batch size.

    tokens_per_s: decoding alone, prefill taken out. speedup: over `plain` at the same batch.
    facts_kept: facts_right over plain's, with the ends of its 95 % interval (bootstrap over clips,
    paired with plain's). identical_share: captions equal to plain's in every token.
    """

    method: str
    batch: int
    tokens_per_s: float
    speedup: float
    end_to_end_speedup: float
    mean_accepted_length: float
    draft_acceptance_rate: float
    facts_right: float
    facts_kept: float
    facts_kept_low: float
    facts_kept_high: float
    identical_share: float
    scenes: int


@dataclass
class _Tally:
    """What one method did at one batch size, chunk by chunk."""

    tokens: list[int] = field(default_factory=list)
    decode_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)
    said: dict[str, tuple[int, ...]] = field(default_factory=dict)
    right: list[int] = field(default_factory=list)  # per clip, in the order of the clips
    facts: list[int] = field(default_factory=list)
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0


def measure(
    pair: Pair,
    items: Sequence[Item],
    base: DecodeSettings,
    names: Iterable[str],
    batches: Sequence[int],
    chunks: int = 8,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Point]:
    """Decode all items by each method at each batch size; plain decoding always runs too."""
    wanted = list(dict.fromkeys(["plain", *names]))
    known = methods(base)
    runners = {
        (name, batch): _runner(pair, known[name], batch)
        for batch in batches
        for name in wanted
        if known[name].only_batch in (None, batch)
    }
    tallies = {key: _Tally() for key in runners}
    for runner in runners.values():  # warm: first passes allocate and choose kernels
        runner([item.request for item in items[: max(batches)]])
    size = -(-len(items) // chunks)
    for number, chunk in enumerate(_groups(items, size), 1):
        for key, runner in runners.items():
            _run_chunk(runner, chunk, tallies[key])
        progress(f"{min(number * size, len(items))} of {len(items)} scenes")
    return [_point(key, tally, tallies["plain", key[1]]) for key, tally in tallies.items()]


Runner = Callable[[Sequence[Request]], dict[str, Outcome]]


def _run_chunk(runner: Runner, chunk: Sequence[Item], tally: _Tally) -> None:
    began = time.perf_counter()
    outcomes = runner([item.request for item in chunk])
    total_s = time.perf_counter() - began - sum(o.aside_s for o in outcomes.values())
    tally.total_s.append(total_s)
    tally.decode_s.append(total_s - sum(o.prefill_s for o in outcomes.values()))
    tally.tokens.append(sum(len(o.tokens) for o in outcomes.values()))
    for item in chunk:
        outcome = outcomes[item.request.id]
        right, facts = item.score(outcome.text)
        tally.said[item.request.id] = outcome.tokens
        tally.right.append(right)
        tally.facts.append(facts)
        tally.rounds += outcome.rounds
        tally.drafted += outcome.drafted
        tally.accepted += outcome.accepted


def _runner(pair: Pair, method: Method, batch: int) -> Runner:
    settings = replace(method.settings, slots=batch)
    if method.stock:
        stock = method.stock
        return lambda requests: stock(pair, settings, requests)
    engine = Engine(pair, settings)
    return lambda requests: {r.request_id: _outcome(r) for r in engine.run(requests)}


def _outcome(result: Generation | Refusal) -> Outcome:
    if isinstance(result, Refusal):
        raise ValueError(f"request {result.request_id} cannot run: {result.message}")
    stats = result.stats
    return Outcome(
        result.token_ids,
        result.text,
        stats.prefill_s,
        rounds=stats.num_spec_steps,
        drafted=stats.num_draft_tokens,
        accepted=stats.num_accepted_draft_tokens,
    )


def _groups(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def interval(right: Sequence[int], plain: Sequence[int]) -> tuple[float, float]:
    """95 % interval of sum(right) / sum(plain) over clips [N]: bootstrap, clips drawn together."""
    pairs = np.array([right, plain], np.float64)
    drawn = np.random.default_rng(0).integers(len(right), size=(2000, len(right)))
    sums = pairs[:, drawn].sum(-1)  # [2, 2000]
    low, high = np.quantile(sums[0] / np.maximum(sums[1], 1e-9), [0.025, 0.975])
    return float(low), float(high)


def _point(key: tuple[str, int], tally: _Tally, plain: _Tally) -> Point:
    decode = [t / s for t, s in zip(tally.tokens, tally.decode_s, strict=True)]
    plain_decode = [t / s for t, s in zip(plain.tokens, plain.decode_s, strict=True)]
    whole = [t / s for t, s in zip(tally.tokens, tally.total_s, strict=True)]
    plain_whole = [t / s for t, s in zip(plain.tokens, plain.total_s, strict=True)]
    right, plain_right = sum(tally.right), sum(plain.right)
    low, high = interval(tally.right, plain.right)
    same = sum(tokens == plain.said[key] for key, tokens in tally.said.items())
    return Point(
        method=key[0],
        batch=key[1],
        tokens_per_s=median(decode),
        speedup=median(a / b for a, b in zip(decode, plain_decode, strict=True)),
        end_to_end_speedup=median(a / b for a, b in zip(whole, plain_whole, strict=True)),
        mean_accepted_length=tally.accepted / max(1, tally.rounds),
        draft_acceptance_rate=tally.accepted / tally.drafted if tally.drafted else 0.0,
        facts_right=right / max(1, sum(tally.facts)),
        facts_kept=right / max(1, plain_right),
        facts_kept_low=low,
        facts_kept_high=high,
        identical_share=same / len(tally.said),
        scenes=len(tally.said),
    )
