"""Measure what pruning saves and costs: python tests/lvspec/measure_pruning.py

Prints the tables of docs/results.md. One thread; every figure is the median of repeats in which all
cases ran in turn.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import transformers as hf

import lvspec
from jobs.benchmark_decode import demo_items
from lvspec import DecodeSettings, Engine, Exact
from lvspec.attention import VideoAttention
from lvspec.models.qwen2_5_vl import Qwen25VL
from lvspec.pruning import PRUNERS, frames
from tests.lvspec import tiny

REPEATS = 7
FRAMES, SIDE = 16, 224
HEADS, GROUPS, DIM, TEXT = 28, 4, 128, 30


def main() -> None:
    torch.set_num_threads(1)
    with torch.inference_mode():
        attention_cost()  # first: memory that was taken before is not seen as added
        vision_time()
    acceptance()


def vision_time() -> None:
    """`frames` on a vision tower of Qwen2.5-VL's width, two of its 32 layers."""
    model = wide_tower()
    pixels = np.random.default_rng(0).integers(0, 256, (FRAMES, SIDE, SIDE, 3), dtype=np.uint8)
    prepared = model.prepare(pixels, np.arange(float(FRAMES)), "x")
    cases = {keep: partial(frames, keep=keep) for keep in (1.0, 0.5, 0.25, 0.125)}
    times = in_turn({k: partial(model.encode, prepared, s) for k, s in cases.items()})
    print("\n| keep | temporal patches | encoding | of unpruned |\n|---|---|---|---|")
    for keep, seconds in times.items():
        patches = round(keep * model.num_patches(prepared))
        print(f"| {keep} | {patches} | {seconds * 1e3:.0f} ms | {seconds / times[1.0]:.2f} |")


def wide_tower() -> Qwen25VL:
    small = tiny.qwen2_5_vl(0, layers=1)
    config = small.model.config
    config.vision_config = hf.Qwen2_5_VLConfig(
        vision_config={
            "depth": 2,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": config.text_config.hidden_size,
            "fullatt_block_indexes": [1],
        }
    ).vision_config
    model = hf.Qwen2_5_VLForConditionalGeneration(config).eval()
    return Qwen25VL(model, small.processor)


def attention_cost() -> None:
    """What `attention` adds to one layer of a prefill, at the heads of Qwen2.5-VL-7B."""
    print("| prompt | time per layer | peak memory added | the whole map |\n|---|---|---|---|")
    for size in (4096, 16384, 65536):
        query, key = torch.randn(1, HEADS, TEXT, DIM), torch.randn(1, GROUPS, size, DIM)
        is_video = torch.arange(size) < size - TEXT
        watch = VideoAttention(is_video)._watch
        added = peak_added(partial(watch, query, key)) / 2**20
        seconds = in_turn({0: partial(watch, query, key)})[0]
        whole = HEADS * size * size * 4 / 2**30
        print(f"| {size} | {seconds * 1e3:.0f} ms | {added:.0f} MiB | {whole:.0f} GiB |")


def acceptance() -> None:
    """tau of strict decoding on held-out scenes with the embedded pair."""
    requests = [item.request for item in demo_items(1, 24)]
    pair = lvspec.load()
    print("\n| drafter | " + " | ".join(PRUNERS) + " |" + "\n|---" + "|---" * len(PRUNERS) + "|")
    for drafter in ("model", "self"):
        cells = [drafter]
        for pruning in PRUNERS:
            settings = DecodeSettings(policy=Exact(), drafter=drafter, pruning=pruning)
            results = Engine(pair, settings).run(requests)
            stats = [r.stats for r in results if isinstance(r, lvspec.Generation)]
            accepted = sum(s.num_accepted_draft_tokens for s in stats)
            cells.append(f"{accepted / sum(s.num_spec_steps for s in stats):.2f}")
        print("| " + " | ".join(cells) + " |")


def in_turn(cases: dict[float, Callable[[], object]]) -> dict[float, float]:
    """Median seconds of each case."""
    times: dict[float, list[float]] = {name: [] for name in cases}
    for repeat in range(REPEATS + 1):
        for name, run in cases.items():
            began = time.perf_counter()
            run()
            if repeat:  # the first warms up
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def peak_added(run: Callable[[], object]) -> int:
    """Bytes by which the process grew at its largest (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the largest size so far
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024


if __name__ == "__main__":
    main()
