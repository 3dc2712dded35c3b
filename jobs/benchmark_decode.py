"""Measure decoding methods on held-out demo scenes: `python jobs/benchmark_decode.py`."""

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import transformers

import lvspec
from lvspec import demo
from lvspec.benchmark import Item, Point, measure, methods
from lvspec.demo import facts, scenes

METHODS = tuple(methods(lvspec.DecodeSettings()))

EXAMPLES = """\
examples:
  all methods at batch 1, 4 and 8 on 256 scenes (about 40 minutes)
    python jobs/benchmark_decode.py
  other scenes, or a quick look
    ... --seed 5            ... --scenes 32 --batch 1 --methods lvspec

The table: tokens/s of decoding alone, speedup over plain decoding at the same batch (median over
chunks of clips in which all methods ran), end-to-end speedup with prefill, tau (mean accepted draft
tokens per round, bonus excluded), visual facts right and kept relative to plain decoding.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    pair = lvspec.load()
    base = lvspec.DecodeSettings(draft_length=options.draft_length, keep=options.keep)
    points = measure(
        pair,
        demo_items(options.seed, options.scenes),
        base,
        options.methods,
        options.batch,
        chunks=min(8, options.scenes),
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(table(points))
    print(json.dumps({"points": [asdict(p) for p in points], "environment": environment(options)}))
    return 0


def demo_items(seed: int, count: int) -> list[Item]:
    """Held-out scenes, as their frames reach a model, each with its own ground truth."""
    times_s = (torch.arange(scenes.FRAMES).numpy() + 0.5) * (3.0 / scenes.FRAMES)
    return [
        Item(
            lvspec.Request(str(number), scenes.render(scene, scenes.FRAMES), times_s),
            lambda text, scene=scene: facts.score(text, scene),
        )
        for number, scene in enumerate(islice(demo.heldout(seed), count))
    ]


def table(points: list[Point]) -> str:
    """The points as a Markdown table."""
    head = (
        "| batch | method | tokens/s | speedup | end to end | tau | accepted | facts right "
        "| facts kept | identical |"
    )
    lines = [head, "|" + " --- |" * 10]
    lines += [
        f"| {p.batch} | {p.method} | {p.tokens_per_s:.0f} | {p.speedup:.2f}x "
        f"| {p.end_to_end_speedup:.2f}x | {p.mean_accepted_length:.2f} "
        f"| {p.draft_acceptance_rate:.1%} | {p.facts_right:.2%} | {p.facts_kept:.2%} "
        f"| {p.identical_share:.1%} |"
        for p in points
    ]
    return "\n".join(lines)


def environment(options: argparse.Namespace) -> dict[str, object]:
    """What the figures depend on."""
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "lvspec": vars(options),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Measure decoding methods against plain decoding, on held-out demo scenes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--scenes", type=_positive, default=256, help="scenes (default 256)")
    parser.add_argument("--seed", type=int, default=0, help="which held-out scenes (default 0)")
    parser.add_argument("--batch", type=_positive, nargs="+", default=[1, 4, 8], metavar="B")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=METHODS,
        default=METHODS,
        metavar="METHOD",
        help="some of: " + ", ".join(METHODS),
    )
    parser.add_argument("--draft-length", type=_positive, default=10, help="K (default 10)")
    parser.add_argument("--keep", type=float, default=0.1, help="video tokens the draft keeps")
    parser.add_argument("--threads", type=_positive, default=1, help="torch threads (default 1)")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
