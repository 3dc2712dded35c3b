"""Measure which relevance tells facts from fillers on the embedded pair, and what the alternatives
of the `lvspec` policy do: python tests/lvspec/measure_sources.py [sources|policies] [scenes] [seed]

Prints the tables of docs/results.md. One thread. AUC is of the target's own words; tau, facts kept
and why blocks end come from decoding with loose_share 0.7 and K = 10.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import lvspec
from jobs.benchmark_decode import demo_items
from lvspec import DecodeSettings, Engine, Gate, Generation, Lvspec, Pair
from lvspec.benchmark import Item
from lvspec.demo.evaluate import auc
from lvspec.demo.tokenizer import VOCABULARY, fact_ids
from lvspec.scorer import Scorer
from lvspec.slots import SlotModel

LAYERS = (None, 19, 14, 9, 4)
BASE = DecodeSettings(slots=1)
POLICIES = {
    "lvspec": Lvspec(),
    "scope running": Lvspec(scope="running"),
    "scope running, window 32": Lvspec(scope="running", running_window=32),
    "min_probability .05": Lvspec(min_probability=0.05),
    "strict_probability .05": Lvspec(strict_probability=0.05),
    "scope running, strict_probability .05": Lvspec(scope="running", strict_probability=0.05),
    "top_k 5": Lvspec(top_k=5),
    "min_entropy .1": Lvspec(min_entropy=0.1),
    "gate .05 (no vision)": Gate(),
}


@dataclass
class Decoded:
    """What a setting said, over all scenes."""

    tau: float
    right: int
    stops: Counter[str]


def main() -> None:
    torch.set_num_threads(1)
    table, count, seed = [*sys.argv[1:], *("sources", "64", "0")[len(sys.argv) - 1 :]]
    pair, items = lvspec.load(), demo_items(int(seed), int(count))
    plain = generations(pair, replace(BASE, drafter="none"), items)
    right = sum(item.score(plain[item.request.id].text)[0] for item in items)
    if table == "sources":
        sources(pair, items, plain, right)
    else:
        policies(pair, items, right)
        costs(pair, items[:16])


def sources(pair: Pair, items: Sequence[Item], plain: dict[str, Generation], right: int) -> None:
    """Every layer, source and slot."""
    print("| layer | source | slot | AUC | tau | facts kept |\n|---|---|---|---|---|---|")
    for layer in LAYERS:
        for source in ("states", "features"):
            for slot in ("predicting", "own"):
                policy = Lvspec(
                    relevance_layer=layer,
                    relevance_source=source,
                    relevance_slot=slot,
                )
                told = word_auc(pair, policy, items, plain)
                done = decoded(pair, replace(BASE, policy=policy), items)
                name = "last hidden" if layer is None else layer
                print(
                    f"| {name} | {source} | {slot} | {told:.3f} | {done.tau:.2f} "
                    f"| {done.right / right:.2%} |",
                    flush=True,
                )


def policies(pair: Pair, items: Sequence[Item], right: int) -> None:
    """The alternatives of the policy. right: facts that plain decoding gets right."""
    print("| policy | tau | facts kept | why a block ended |\n|---|---|---|---|")
    for name, chosen in POLICIES.items():
        done = decoded(pair, replace(BASE, policy=chosen), items)
        total = done.stops.total()
        why = ", ".join(f"{stop} {n / total:.1%}" for stop, n in done.stops.most_common() if n)
        print(f"| {name} | {done.tau:.2f} | {done.right / right:.2%} | {why} |", flush=True)


def costs(pair: Pair, items: Sequence[Item]) -> None:
    print("\n| scope | relevance and policy, of the time of all rounds |\n|---|---|")
    for scope in ("block", "running"):
        policy = Lvspec(scope=scope)
        print(f"| {scope} | {cost(pair, replace(BASE, policy=policy), items):.2%} |")


def generations(
    pair: Pair, settings: DecodeSettings, items: Sequence[Item]
) -> dict[str, Generation]:
    results = Engine(pair, settings).run([item.request for item in items])
    return {r.request_id: r for r in results if isinstance(r, Generation)}


def decoded(pair: Pair, settings: DecodeSettings, items: Sequence[Item]) -> Decoded:
    said = generations(pair, settings, items)
    stats = [r.stats for r in said.values()]
    accepted, rounds = (
        sum(getattr(s, name) for s in stats)
        for name in ("num_accepted_draft_tokens", "num_spec_steps")
    )
    stops: Counter[str] = Counter()
    for each in stats:
        stops.update(vars(each.stops))
    right = sum(item.score(said[item.request.id].text)[0] for item in items)
    return Decoded(accepted / rounds, right, stops)


@torch.inference_mode()
def word_auc(
    pair: Pair, policy: Lvspec, items: Sequence[Item], plain: dict[str, Generation]
) -> float:
    """The chance that a fact's word is more relevant than another, in the target's own captions."""
    target = pair.target
    facts = torch.zeros(VOCABULARY, dtype=torch.bool)
    facts[list(fact_ids(target.tokenizer).values())] = True
    scores, is_fact = list[torch.Tensor](), list[torch.Tensor]()
    for item in items:
        request, tokens = item.request, torch.tensor([plain[item.request.id].token_ids])
        prompt = target.encode(target.prepare(request.frames, request.times_s, BASE.prompt))
        scorer, slots = Scorer(policy, target, 1), SlotModel(target, 1)
        with scorer.watch():
            read = slots.prefill(0, prompt)
        scorer.admit(0, prompt, read)
        with scorer.watch():
            hidden = slots.extend(1, tokens)
        scores.append(scorer.score(hidden)[0][0])
        is_fact.append(facts[tokens[0, 1:]])
    return auc(torch.cat(scores), torch.cat(is_fact))


def cost(pair: Pair, settings: DecodeSettings, items: Sequence[Item]) -> float:
    """Share of the rounds' time that scoring, deciding and remembering take, of the thread's own
    time: others on the machine do not count.
    """
    engine, spent, rounds = Engine(pair, settings), [0.0], [0.0]
    judge: Any = engine._judge
    parts = ((judge._scorer, "score"), (judge._scorer, "commit"), (judge, "_decide"))
    for owner, name in parts:
        setattr(owner, name, timed(getattr(owner, name), spent))
    engine._round = timed(engine._round, rounds)
    requests = [item.request for item in items]
    list(engine.run(requests))  # warm
    spent[0] = rounds[0] = 0.0
    list(engine.run(requests))
    return spent[0] / rounds[0]


def timed(function: Any, spent: list[float]) -> Any:
    def call(*args: Any) -> Any:
        began = time.thread_time()
        result = function(*args)
        spent[0] += time.thread_time() - began
        return result

    return call


if __name__ == "__main__":
    main()
