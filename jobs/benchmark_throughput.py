"""Measure the throughput of the captioning plan: `python jobs/benchmark_throughput.py --help`."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

os.environ.setdefault("OMP_NUM_THREADS", "1")  # inherited by actors and the bare engine alike

from pipeline.errors import ConfigError, JobError

EXAMPLES = """\
examples:
  do the slots of 16 actors stay full, with clips of very different length? (logical GPUs)
    python jobs/benchmark_throughput.py scheduling --rows 960
    ... --schedule 32x1 1x2      also as if blocks had 32 clips and calls did not overlap, ...
    ... --slow 1                 one actor four times as slow
    ... --least 1                the pool grows from one actor
  what does the plan itself cost?
    ... scale --rows 1000 10000 100000
  does decoding hide behind captioning? (the embedded pair, or --set models.target=...)
    ... overlap --clips 480 --rounds 3
  a sweep, what it would do, two results compared
    ... sweep configs/benchmark_demo.yaml --out results/a [--dry-run]
    ... compare results/a results/b

Every measure prints a table, and one line of JSON as its last.
"""


def main(arguments: list[str] | None = None, *, prog: str | None = None) -> int:
    """Run one measure; returns the exit code."""
    options = command_line(prog).parse_args(arguments)
    try:
        return options.command(options)
    except JobError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def scheduling(options: argparse.Namespace) -> int:
    from pipeline.benchmark.engine import ServiceTimes  # noqa: PLC0415
    from pipeline.benchmark.fake_run import Pool, fake_run  # noqa: PLC0415
    from pipeline.schedule import Schedule  # noqa: PLC0415

    pool = Pool(options.actors, options.slots, options.least)
    times = ServiceTimes(
        options.median, options.p99_ratio, options.seed, slow_factor=4.0, slow_engines=options.slow
    )
    plans = [Schedule(*map(int, text.split("x"))) for text in options.schedule]
    with _ray(options.actors):
        points = [asdict(fake_run(options.rows, pool, times, plan)) for plan in [*plans, None]]
    return _show(points)


def scale(options: argparse.Namespace) -> int:
    from pipeline.benchmark.scale import scale  # noqa: PLC0415

    with _ray():
        return _show([asdict(scale(rows, options.set)) for rows in sorted(options.rows)])


def overlap(options: argparse.Namespace) -> int:
    from pipeline.benchmark.measures import overlap  # noqa: PLC0415
    from pipeline.benchmark.subject import real_subject  # noqa: PLC0415

    subject = real_subject(options.videos)
    with _ray():
        rounds = [
            asdict(overlap(subject, options.set, options.clips, options.warm))
            for _ in range(options.rounds)
        ]
    return _show(rounds)


def sweep(options: argparse.Namespace) -> int:
    from pipeline.benchmark import result  # noqa: PLC0415
    from pipeline.benchmark.sweep import load_sweep, run_sweep  # noqa: PLC0415

    settings = load_sweep(options.file)
    points = settings.points()
    print(f"{len(points)} points, {settings.repeats} runs of {settings.clips} clips each")
    if options.dry_run:
        print("\n".join(f"  {point.name}" for point in points))
        return 0
    if options.out is None:
        raise ConfigError("sweep: --out is needed: the folder for its results")
    from pipeline.benchmark.engine import ServiceTimes  # noqa: PLC0415
    from pipeline.benchmark.measures import point  # noqa: PLC0415
    from pipeline.benchmark.subject import fake_subject, real_subject  # noqa: PLC0415

    fake = settings.engine == "fake"
    subject = (
        fake_subject(ServiceTimes(settings.service_s, 1.0))
        if fake
        else real_subject(options.videos)
    )
    with _ray():
        entries = run_sweep(
            settings,
            options.out,
            lambda chosen: point(subject, settings, chosen),
            lambda line: print(line, file=sys.stderr, flush=True),
        )
    result.save(options.out, entries)
    print(result.table(entries))
    print(json.dumps({"out": str(options.out), "points": len(entries)}))
    return 0


def compare(options: argparse.Namespace) -> int:
    from pipeline.benchmark.result import comparison, load_results  # noqa: PLC0415

    print(comparison(load_results(options.before), load_results(options.after)))
    return 0


def _ray(gpus: int = 0) -> AbstractContextManager[None]:
    """The cluster of RAY_ADDRESS, or a local one; with logical GPUs, one that believes in them."""
    from pipeline.cluster import connect  # noqa: PLC0415

    # A logical CPU for each task that feeds so many actors; they sleep more than they compute.
    return connect(num_gpus=gpus, num_cpus=max(8, gpus // 2)) if gpus else connect()


def _show(points: list[dict[str, float]]) -> int:
    """A Markdown table, then JSON."""
    print("| " + " | ".join(points[0]) + " |")
    print("|" + " --- |" * len(points[0]))
    for point in points:
        cells = (str(x) if isinstance(x, int) else f"{x:.4g}" for x in point.values())
        print("| " + " | ".join(cells) + " |")
    print(json.dumps(points))
    return 0


def command_line(prog: str | None = None) -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Measure the throughput of the captioning plan.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="MEASURE")

    def command(run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        found = commands.add_parser(run.__name__, help=text, description=text)
        found.set_defaults(command=run)
        return found

    chosen = command(scheduling, "engines that sleep: how full do slots stay?")
    chosen.add_argument("--rows", type=_positive, default=320, help="clips (default 320)")
    chosen.add_argument("--actors", type=_positive, default=16, help="of one logical GPU each")
    chosen.add_argument("--slots", type=_positive, default=1, help="clips at once per actor")
    chosen.add_argument("--median", type=float, default=2.0, help="seconds per clip")
    chosen.add_argument("--p99-ratio", type=float, default=10.0, help="99th percentile / median")
    chosen.add_argument("--seed", type=int, default=0, help="which service times")
    chosen.add_argument("--slow", type=int, default=0, help="actors that are 4 times as slow")
    chosen.add_argument("--least", type=_positive, help="actors at the start; the pool grows")
    chosen.add_argument(
        "--schedule", nargs="*", default=[], metavar="ROWSxCALLS", help="beside the product's own"
    )
    chosen = command(scale, "an engine that takes no time: what does the plan cost?")
    chosen.add_argument("--rows", type=_positive, nargs="+", default=[1000, 10_000])
    _settings(chosen)
    chosen = command(overlap, "real models: the plan against the bare engine")
    chosen.add_argument("--clips", type=_positive, default=240)
    chosen.add_argument("--warm", type=_positive, default=32, help="answers that do not count")
    chosen.add_argument("--rounds", type=_positive, default=3)
    _settings(chosen)
    _videos(chosen)
    chosen = command(sweep, "every combination of settings in a YAML file")
    chosen.add_argument("file", type=Path)
    chosen.add_argument("--out", type=Path, help="folder; what it holds already is not run again")
    chosen.add_argument("--dry-run", action="store_true", help="list the points")
    _videos(chosen)
    chosen = command(compare, "what changed between two sweeps, beyond noise")
    chosen.add_argument("before", type=Path)
    chosen.add_argument("after", type=Path)
    return parser


def _settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the job"
    )


def _videos(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--videos",
        type=Path,
        default=Path("benchmark_videos"),
        help="where demo scenes are written",
    )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
