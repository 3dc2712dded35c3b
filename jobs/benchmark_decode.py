"""Measure decoding methods on held-out demo scenes: `python jobs/benchmark_decode.py`."""

import argparse
import csv
import json
import os
import platform
import sys
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import transformers

import lvspec
from lvspec import demo
from lvspec.benchmark import COMPILED, FRONT, MAIN, PEERS, SWEEP, Item, Point, measure, methods
from lvspec.benchmark.shape import SHAPES, ShapeSettings, build, measure_shape
from lvspec.demo import drawing, facts
from lvspec.demo.scenes import FRAMES

GROUPS = {"main": MAIN, "front": FRONT, "peers": PEERS, "sweep": SWEEP, "compiled": COMPILED}
METHODS = tuple(methods(lvspec.DecodeSettings()))

EXAMPLES = """\
examples:
  the six main methods at batch 1, 4 and 8 on 256 scenes
    python jobs/benchmark_decode.py
  other scenes, or a quick look
    ... --seed 5            ... --scenes 32 --batch 1 --methods lvspec
  the rules with the most speed for the facts they keep
    ... --methods front --batch 1 --scenes 512
  all peers, then the ablations, with a table, CSV and a picture (needs `pip install .[benchmark]`)
    ... --methods peers --batch 1 --scenes 512 --out results/peers
    ... --methods sweep --batch 1 --scenes 128 --out results/sweep
  what a GPU makes of the paper's pair, without its weights (about 80 GiB, some minutes)
    ... --shape qwen2.5-vl-32b --batch 1 4 8
  our loop through torch.compile (some minutes of compiling first)
    ... --methods compiled --batch 1 --scenes 64

The table: tokens/s of decoding alone, speedup over plain decoding at the same batch (median over
chunks of clips in which all methods ran), end-to-end speedup with prefill, tau (mean accepted draft
tokens per round, bonus excluded), visual facts right and kept relative to plain decoding, with a
95 % interval. `assisted` is transformers' own assisted generation, whose draft gets no video.
"""


def main(arguments: list[str] | None = None, *, prog: str | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    options = command_line(prog).parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.shape:
        return shape_main(options)
    pair = lvspec.load()
    base = lvspec.DecodeSettings(draft_length=options.draft_length, keep=options.keep)
    names = [name for given in options.methods for name in GROUPS.get(given, (given,))]
    points = measure(
        pair,
        demo_items(options.seed, options.scenes),
        base,
        names,
        options.batch,
        chunks=min(8, options.scenes),
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(table(points))
    result: dict[str, object] = {
        "points": [asdict(p) for p in points],
        "environment": environment(options),
    }
    if options.out:
        save(options.out, points, result)
    print(json.dumps(result))
    return 0


def shape_main(options: argparse.Namespace) -> int:
    """Step costs at a real checkpoint's widths, with random weights."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    target, draft = SHAPES[options.shape]
    models = build(target, device, dtype), build(draft, device, dtype)
    points = []
    for batch in options.batch:
        chosen = ShapeSettings(
            batch, options.context, options.draft_length, options.keep, compiled=options.compiled
        )
        points.append(measure_shape(options.shape, chosen, models))
        print(json.dumps(asdict(points[-1])), file=sys.stderr, flush=True)
    head = ("batch", "plain ms", "draft ms", "verify ms", "policy ms", "round ms", "tokens/round")
    print("| " + " | ".join((*head, "speedup", "policy share")) + " |")
    print("|" + " --- |" * (len(head) + 2))
    for p in points:
        parts = (p.plain_ms, p.draft_ms, p.verify_ms, p.policy_ms, p.round_ms, p.tokens_per_round)
        cells = [str(p.batch), *(f"{x:.2f}" for x in parts), f"{p.speedup:.2f}x"]
        print("| " + " | ".join((*cells, f"{p.policy_share:.2%}")) + " |")
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor()
    found = {"device": name, **environment(options)}
    print(json.dumps({"points": [asdict(p) for p in points], "environment": found}))
    return 0


def demo_items(seed: int, count: int) -> list[Item]:
    """Held-out scenes, as their frames reach a model, each with its own ground truth."""
    times_s = (torch.arange(FRAMES).numpy() + 0.5) * (3.0 / FRAMES)
    return [
        Item(
            lvspec.Request(str(number), drawing.render(scene), times_s),
            lambda text, scene=scene: facts.score(text, scene),
        )
        for number, scene in enumerate(islice(demo.heldout(seed), count))
    ]


def table(points: list[Point]) -> str:
    """The points as a Markdown table."""
    head = (
        "| batch | method | tokens/s | speedup | end to end | tau | accepted | facts right "
        "| facts kept | 95 % | identical |"
    )
    lines = [head, "|" + " --- |" * 11]
    lines += [
        f"| {p.batch} | {p.method} | {p.tokens_per_s:.0f} | {p.speedup:.2f}x "
        f"| {p.end_to_end_speedup:.2f}x | {p.mean_accepted_length:.2f} "
        f"| {p.draft_acceptance_rate:.1%} | {p.facts_right:.2%} | {p.facts_kept:.2%} "
        f"| {p.facts_kept_low:.1%}-{p.facts_kept_high:.1%} | {p.identical_share:.1%} |"
        for p in points
    ]
    return "\n".join(lines)


def save(folder: Path, points: list[Point], result: dict[str, object]) -> None:
    """Write points.csv, points.json, table.md and speed_fidelity.png."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "points.json").write_text(json.dumps(result, indent=2) + "\n")
    (folder / "table.md").write_text(table(points) + "\n")
    with (folder / "points.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Point)])
        writer.writeheader()
        writer.writerows(asdict(p) for p in points)
    picture(points, folder / "speed_fidelity.png")


def picture(points: list[Point], file: Path) -> None:
    """Speedup against facts lost (a logarithmic axis from 0.2 % on), one panel for each batch."""
    from matplotlib import colormaps  # noqa: PLC0415  # the extra `benchmark`
    from matplotlib.figure import Figure  # noqa: PLC0415

    batches = sorted({p.batch for p in points})
    figure = Figure(figsize=(9 * len(batches), 6), layout="constrained")
    panels = figure.subplots(1, len(batches), squeeze=False)[0]
    for axes, batch in zip(panels, batches, strict=True):
        chosen = sorted((p for p in points if p.batch == batch), key=lambda p: -p.speedup)
        for number, p in enumerate(chosen):
            lost = 100 * (1 - p.facts_kept)
            less = 100 * max(0.0, p.facts_kept_high - p.facts_kept)
            more = 100 * max(0.0, p.facts_kept - p.facts_kept_low)
            axes.errorbar(
                *([p.speedup], [lost], [[less], [more]]),
                fmt=_MARKERS[number % len(_MARKERS)],
                color=colormaps["tab10"](number % 10),
                label=f"{p.method}  {p.speedup:.2f}x",
                **{"elinewidth": 0.5, "markersize": 8, "alpha": 0.85},
            )
        axes.axvline(1.0, color="grey", linewidth=0.8)
        axes.set_yscale("symlog", linthresh=0.2, linscale=0.8)
        axes.set_yticks(_TICKS, [f"{tick:g}" for tick in _TICKS], minor=False)
        axes.set_ylim(60, -1)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
        axes.set_title(f"batch {batch}: up and to the right is better")
        axes.set_xlabel("decode speedup over plain decoding")
        axes.set_ylabel("visual facts lost against plain, % (95 % interval)")
    figure.savefig(file, dpi=110)


_MARKERS = "osD^v<>PX*hp"
_TICKS = (0, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def environment(options: argparse.Namespace) -> dict[str, object]:
    """What the figures depend on."""
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "lvspec": {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()},
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def command_line(prog: str | None = None) -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog=prog,
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
        choices=[*GROUPS, *METHODS],
        default=["main"],
        metavar="METHOD",
        help="a group (main, front, peers, sweep, compiled) or some of: " + ", ".join(METHODS),
    )
    parser.add_argument("--draft-length", type=_positive, default=10, help="K (default 10)")
    parser.add_argument("--keep", type=float, default=0.1, help="video tokens the draft keeps")
    parser.add_argument("--threads", type=_positive, default=1, help="torch threads (default 1)")
    shape = parser.add_argument_group("step costs of a real checkpoint's sizes instead")
    shape.add_argument("--shape", choices=SHAPES, help="random weights, acceptance as the paper's")
    shape.add_argument("--context", type=_positive, default=16384, help="prompt tokens")
    shape.add_argument("--compiled", action="store_true", help="through torch.compile")
    parser.add_argument("--out", type=Path, help="folder for table.md, points.csv/json, a picture")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
