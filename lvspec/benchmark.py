"""Decoding methods measured against each other: same clips, same process, interleaved.

Clips are dealt into chunks; every method decodes every chunk at every batch size before the next
chunk begins, so a machine whose speed drifts slows all of them alike. A speedup is the median over
chunks of a ratio within one chunk, never a ratio of two times taken far apart.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, TypeVar

import torch

from lvspec.config import DecodeSettings, Exact, Gate, Lvspec
from lvspec.engine import Engine
from lvspec.pair import Pair
from lvspec.types import Generation, Request

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
    facts_kept: facts_right over plain's. identical_share: captions equal to plain's in every token.
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
    identical_share: float
    scenes: int


def methods(base: DecodeSettings) -> dict[str, DecodeSettings | None]:
    """The methods by name; None is `generate` of transformers."""
    return {
        "plain": replace(base, drafter="none"),
        "generate": None,
        "exact": replace(base, policy=Exact()),
        "lvspec": base,
        "gate": replace(base, policy=Gate()),
        "accept-all": replace(base, policy=Lvspec(loose_share=1.0)),
    }


@dataclass
class _Tally:
    """What one method did at one batch size, chunk by chunk."""

    tokens: list[int] = field(default_factory=list)
    decode_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)
    said: dict[str, tuple[int, ...]] = field(default_factory=dict)
    right: int = 0
    facts: int = 0
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
    chosen = {name: methods(base)[name] for name in wanted}
    tallies = {(name, batch): _Tally() for batch in batches for name in wanted}
    runners = {
        (name, batch): _runner(pair, settings, base, batch)
        for batch in batches
        for name, settings in chosen.items()
    }
    for runner in runners.values():  # warm: first passes allocate and choose kernels
        runner([item.request for item in items[: max(batches)]])
    size = -(-len(items) // chunks)
    for number, chunk in enumerate(_groups(items, size), 1):
        for key, runner in runners.items():
            _run_chunk(runner, chunk, tallies[key])
        progress(f"chunk {number}/{-(-len(items) // size)} of {size} scenes")
    return [_point(key, tally, tallies["plain", key[1]]) for key, tally in tallies.items()]


@dataclass(frozen=True)
class _Outcome:
    """One caption. aside_s: seconds spent on measuring, not part of the method."""

    tokens: tuple[int, ...]
    text: str
    prefill_s: float
    aside_s: float = 0.0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0


def _run_chunk(runner: Any, chunk: Sequence[Item], tally: _Tally) -> None:
    began = time.perf_counter()
    outcomes: dict[str, _Outcome] = runner([item.request for item in chunk])
    total_s = time.perf_counter() - began - sum(o.aside_s for o in outcomes.values())
    tally.total_s.append(total_s)
    tally.decode_s.append(total_s - sum(o.prefill_s for o in outcomes.values()))
    tally.tokens.append(sum(len(o.tokens) for o in outcomes.values()))
    for item in chunk:
        outcome = outcomes[item.request.id]
        right, facts = item.score(outcome.text)
        tally.said[item.request.id] = outcome.tokens
        tally.right, tally.facts = tally.right + right, tally.facts + facts
        tally.rounds += outcome.rounds
        tally.drafted += outcome.drafted
        tally.accepted += outcome.accepted


def _runner(
    pair: Pair, settings: DecodeSettings | None, base: DecodeSettings, batch: int
) -> Callable[[Sequence[Request]], dict[str, _Outcome]]:
    if settings is None:
        return lambda requests: _generate(pair, base, batch, requests)
    engine = Engine(pair, replace(settings, slots=batch))
    return lambda requests: {r.request_id: _outcome(r) for r in engine.run(requests)}


def _outcome(result: Any) -> _Outcome:
    if not isinstance(result, Generation):
        raise ValueError(f"request {result.request_id} cannot run: {result.message}")
    stats = result.stats
    return _Outcome(
        result.token_ids,
        result.text,
        stats.prefill_s,
        rounds=stats.num_spec_steps,
        drafted=stats.num_draft_tokens,
        accepted=stats.num_accepted_draft_tokens,
    )


@torch.inference_mode()
def _generate(
    pair: Pair, base: DecodeSettings, batch: int, requests: Sequence[Request]
) -> dict[str, _Outcome]:
    """`generate` of transformers, on prompts of one length; prefill is what one token takes."""
    target, outcomes = pair.target, {}
    for group in _groups(requests, batch):
        began = time.perf_counter()
        prepared = [target.prepare(r.frames, r.times_s, r.prompt or base.prompt) for r in group]
        inputs = _stack([p.inputs for p in prepared])
        size = inputs["input_ids"].shape[1]
        prepared_s = time.perf_counter() - began
        out = target.model.generate(**inputs, max_new_tokens=base.max_new_tokens, do_sample=False)
        began = time.perf_counter()
        target.model.generate(**inputs, max_new_tokens=1, do_sample=False)
        one_token_s = time.perf_counter() - began
        for request, row in zip(group, out[:, size:].tolist(), strict=True):
            tokens = _until_end(row, pair.eos_token_ids)
            text = target.tokenizer.decode(tokens, skip_special_tokens=True).strip()
            prefill_s = (prepared_s + one_token_s) / len(group)
            outcomes[request.id] = _Outcome(
                tuple(tokens), text, prefill_s, aside_s=one_token_s / len(group)
            )
    return outcomes


def _stack(inputs: Sequence[Any]) -> dict[str, Any]:
    lengths = {i["input_ids"].shape[1] for i in inputs}
    if len(lengths) > 1:
        raise ValueError(f"`generate` needs prompts of one length to batch, got {lengths}")
    stacked = {key: [i[key] for i in inputs] for key in inputs[0]}
    return {key: torch.cat([torch.as_tensor(v) for v in vs]) for key, vs in stacked.items()}


def _groups(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def _until_end(tokens: list[int], eos: Sequence[int]) -> list[int]:
    for index, token in enumerate(tokens):
        if token in eos:
            return tokens[: index + 1]
    return tokens


def _point(key: tuple[str, int], tally: _Tally, plain: _Tally) -> Point:
    decode = [t / s for t, s in zip(tally.tokens, tally.decode_s, strict=True)]
    plain_decode = [t / s for t, s in zip(plain.tokens, plain.decode_s, strict=True)]
    whole = [t / s for t, s in zip(tally.tokens, tally.total_s, strict=True)]
    plain_whole = [t / s for t, s in zip(plain.tokens, plain.total_s, strict=True)]
    right = tally.right / max(1, tally.facts)
    same = sum(tokens == plain.said[key] for key, tokens in tally.said.items())
    return Point(
        method=key[0],
        batch=key[1],
        tokens_per_s=median(decode),
        speedup=median(a / b for a, b in zip(decode, plain_decode, strict=True)),
        end_to_end_speedup=median(a / b for a, b in zip(whole, plain_whole, strict=True)),
        mean_accepted_length=tally.accepted / max(1, tally.rounds),
        draft_acceptance_rate=tally.accepted / max(1, tally.drafted),
        facts_right=right,
        facts_kept=right / max(1e-9, plain.right / max(1, plain.facts)),
        identical_share=same / len(tally.said),
        scenes=len(tally.said),
    )
