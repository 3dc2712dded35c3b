"""Decoding by transformers' own `generate`, timed like ours: what one token takes is prefill."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from lvspec.config import DecodeSettings
from lvspec.pair import Pair
from lvspec.types import Request


@dataclass(frozen=True)
class Outcome:
    """One caption. aside_s: seconds spent on measuring, not part of the method. rounds: verify
    passes of the target.
    """

    tokens: tuple[int, ...]
    text: str
    prefill_s: float
    aside_s: float = 0.0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0


@torch.inference_mode()
def generate(
    pair: Pair, settings: DecodeSettings, requests: Sequence[Request]
) -> dict[str, Outcome]:
    """Greedy `generate` in batches of `settings.slots`, on prompts of one length."""
    outcomes: dict[str, Outcome] = {}
    for first in range(0, len(requests), settings.slots):
        outcomes |= _batch(pair, settings, requests[first : first + settings.slots])
    return outcomes


@torch.inference_mode()
def assisted(
    pair: Pair, settings: DecodeSettings, requests: Sequence[Request]
) -> dict[str, Outcome]:
    """`generate(assistant_model=...)`, one by one: the draft gets no video from transformers."""
    assert pair.draft is not None
    outcomes: dict[str, Outcome] = {}
    for request in requests:
        passes = _Passes(pair)
        (outcome,) = _batch(pair, settings, [request], assistant_model=pair.draft.model).values()
        rounds = passes.stop() - 2  # prefill, and that of the one token beside it
        accepted = max(0, len(outcome.tokens) - 1 - rounds)
        outcomes[request.id] = replace(outcome, rounds=rounds, accepted=accepted)
    return outcomes


class _Passes:
    """Counts passes of the target's decoder."""

    def __init__(self, pair: Pair) -> None:
        self._count = 0
        self._hook = pair.target.decoder.register_forward_hook(self._add)

    def _add(self, *_: Any) -> None:
        self._count += 1

    def stop(self) -> int:
        self._hook.remove()
        return self._count


def _batch(
    pair: Pair, settings: DecodeSettings, group: Sequence[Request], **extra: Any
) -> dict[str, Outcome]:
    target = pair.target
    began = time.perf_counter()
    prepared = [target.prepare(r.frames, r.times_s, r.prompt or settings.prompt) for r in group]
    inputs = _stack([p.inputs for p in prepared])
    size = inputs["input_ids"].shape[1]
    prepared_s = time.perf_counter() - began
    limit = settings.max_new_tokens
    out = target.model.generate(**inputs, max_new_tokens=limit, do_sample=False, **extra)
    began = time.perf_counter()
    target.model.generate(**inputs, max_new_tokens=1, do_sample=False)
    one_token_s = time.perf_counter() - began
    outcomes: dict[str, Outcome] = {}
    for request, row in zip(group, out[:, size:].tolist(), strict=True):
        tokens = _until_end(row, pair.eos_token_ids)
        text = target.tokenizer.decode(tokens, skip_special_tokens=True).strip()
        prefill_s, aside_s = (prepared_s + one_token_s) / len(group), one_token_s / len(group)
        outcomes[request.id] = Outcome(tuple(tokens), text, prefill_s, aside_s)
    return outcomes


def _stack(inputs: Sequence[Any]) -> dict[str, Any]:
    lengths = {i["input_ids"].shape[1] for i in inputs}
    if len(lengths) > 1:
        raise ValueError(f"`generate` needs prompts of one length to batch, got {lengths}")
    stacked = {key: [i[key] for i in inputs] for key in inputs[0]}
    return {key: torch.cat([torch.as_tensor(v) for v in vs]) for key, vs in stacked.items()}


def _until_end(tokens: list[int], eos: Sequence[int]) -> list[int]:
    for index, token in enumerate(tokens):
        if token in eos:
            return tokens[: index + 1]
    return tokens
