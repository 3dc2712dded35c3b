"""Is speculation ever a loss? Run it: `python -m tests.lvspec.measure_never_slower [clips]`.

Prints, at batch 1 and 4 on one thread, clip by clip in turn so that a drifting machine slows all
alike:
- the time of the adaptive engine with a draft of random weights, over plain decoding's;
- the adaptive engine's tokens/s on the embedded pair, over the best fixed draft length's;
- the engine's own estimate of a clip's speedup against the real plain decode of that clip.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from transformers import Qwen2Tokenizer

import lvspec
from jobs.benchmark_decode import demo_items
from lvspec import demo
from lvspec.demo import models
from lvspec.models.qwen2_5_vl import Qwen25VL
from lvspec.pair import Pair

LENGTHS = (2, 4, 6, 8, 10, 12)


def random_draft(pair: Pair) -> Pair:
    """The embedded target beside a draft of the embedded draft's sizes that knows nothing."""
    tokenizer = Qwen2Tokenizer.from_pretrained(demo.path("draft"))
    model = models.build(models.DRAFT, tokenizer, seed=1).eval()
    return Pair(pair.target, Qwen25VL(model, pair.target.processor))


def seconds_per_token(
    engines: dict[str, lvspec.Engine], requests: Sequence[lvspec.Request], batch: int
) -> tuple[dict[str, float], dict[str, list[lvspec.Generation]]]:
    """Decoding alone, engines in turn over groups of clips."""
    spent, results = defaultdict(float), defaultdict(list)
    for engine in engines.values():
        list(engine.run(requests[: 2 * batch]))  # warm
    for first in range(0, len(requests), 2 * batch):
        for name, engine in engines.items():
            began = time.perf_counter()
            group = list(engine.run(requests[first : first + 2 * batch]))
            spent[name] += time.perf_counter() - began - sum(r.stats.prefill_s for r in group)
            results[name] += group
    tokens = {n: sum(r.stats.num_generated_tokens for r in rs) for n, rs in results.items()}
    return {name: spent[name] / tokens[name] for name in engines}, results


def main(clips: int) -> None:
    torch.set_num_threads(1)
    pair = lvspec.load()
    requests = [item.request for item in demo_items(0, clips)]
    for batch in (1, 4):
        base = lvspec.DecodeSettings(slots=batch)
        plain = replace(base, drafter="none")
        strict = replace(base, policy=lvspec.Exact())
        useless = random_draft(pair)
        cost, _ = seconds_per_token(
            {
                "plain": lvspec.Engine(pair, plain),
                "adaptive": lvspec.Engine(useless, replace(strict, adaptive=True)),
                "fixed": lvspec.Engine(useless, strict),
            },
            requests,
            batch,
        )
        shown = {k: round(cost[k] / cost["plain"], 3) for k in ("adaptive", "fixed")}
        print(f"batch {batch}: random draft, time over plain's: {shown}", flush=True)
        tiered = lvspec.Lvspec(scope="running", strict_probability=0.2, shift=False)
        for name, settings in (("exact", strict), ("tiered", replace(base, policy=tiered))):
            longest = replace(settings, adaptive=True, draft_length=20)
            engines = {
                "plain": lvspec.Engine(pair, plain),
                "adaptive": lvspec.Engine(pair, longest),
                **{str(k): lvspec.Engine(pair, replace(settings, draft_length=k)) for k in LENGTHS},
            }
            cost, results = seconds_per_token(engines, requests, batch)
            speed = {k: round(cost["plain"] / c, 3) for k, c in cost.items()}
            best = max(speed[str(k)] for k in LENGTHS)
            print(
                f"batch {batch}: {name} speedups {speed}; adaptive over the best fixed: "
                f"{speed['adaptive'] / best:.3f}",
                flush=True,
            )
            if batch == 1:
                print(f"batch 1: {name} estimated over real speedup: {_estimates(results)}")


def _estimates(results: dict[str, list[lvspec.Generation]]) -> str:
    """Per clip, at K = 10: the engine's estimate over (plain's time per token / its own)."""
    real = {r.request_id: r.stats for r in results["plain"]}
    ratios = []
    for result in results["10"]:
        stats, slow = result.stats, real[result.request_id]
        audited = (slow.decode_s / (slow.num_generated_tokens - 1)) / (
            stats.decode_s / (stats.num_generated_tokens - 1)
        )
        ratios.append(stats.speedup / audited)
    low, middle, high = np.quantile(ratios, [0.1, 0.5, 0.9])
    return f"median {middle:.3f}, 80 % of clips within {low:.3f} to {high:.3f}"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 32)
