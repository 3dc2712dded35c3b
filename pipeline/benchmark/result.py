"""Results of a sweep as a table, CSV and a picture, and two of them compared."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.benchmark.compare import change, interval
from pipeline.benchmark.sweep import RESULTS, means
from pipeline.errors import ConfigError

SHOWN = (
    ("clips_per_s", "clips/s", "{:.2f}"),
    ("tokens_per_s", "tokens/s", "{:.0f}"),
    ("clips_per_s_per_device", "clips/s per device", "{:.2f}"),
    ("device_hours_per_1000", "device h / 1,000 clips", "{:.4f}"),
    ("price_per_1000", "price / 1,000 clips", "{:.4f}"),
    ("efficiency", "of bare engine", "{:.2f}"),
    ("read_s_per_clip", "decode s/clip", "{:.3f}"),
    ("prefill_s_per_clip", "prefill s/clip", "{:.3f}"),
    ("generate_s_per_clip", "generate s/clip", "{:.3f}"),
    ("engine_busy", "engine busy", "{:.0%}"),
)


def table(entries: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: the mean of each point's repeats; clips/s with its 95 % interval."""
    heads = ["point", *(head for _, head, _ in SHOWN), "95 % of clips/s"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for entry in entries:
        mean = means(entry["runs"])
        cells = [shape.format(mean[key]) for key, _, shape in SHOWN]
        found = interval([run["clips_per_s"] for run in entry["runs"]])
        cells.append(f"{found[0]:.2f}-{found[1]:.2f}" if found else "-")
        lines.append("| " + " | ".join([entry["name"], *cells]) + " |")
    return "\n".join(lines)


def save(folder: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write results.csv (a line per run), table.md and throughput.png beside results.json."""
    (folder / "table.md").write_text(table(entries) + "\n")
    figures = list(entries[0]["runs"][0])
    with (folder / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["point", *entries[0]["varied"], "run", *figures])
        writer.writeheader()
        for entry in entries:
            varied = {key: json.dumps(value) for key, value in entry["varied"].items()}
            for number, run in enumerate(entry["runs"]):
                writer.writerow({"point": entry["name"], **varied, "run": number, **run})
    _picture(entries, folder / "throughput.png")


def _picture(entries: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Clips per second with intervals, and where the seconds of a clip go."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # the extra `benchmark`

    names = [entry["name"] for entry in entries]
    mean = [means(entry["runs"]) for entry in entries]
    figure = Figure(figsize=(12, 1.5 + 0.4 * len(names)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    rates = [m["clips_per_s"] for m in mean]
    spans = [interval([run["clips_per_s"] for run in entry["runs"]]) for entry in entries]
    half = [(span[1] - span[0]) / 2 if span else 0.0 for span in spans]
    left.barh(names, rates, xerr=half, capsize=3)
    left.set_xlabel("clips/s (95 % interval)")
    left.invert_yaxis()
    offset = [0.0] * len(names)
    for key, label in (
        ("read_s_per_clip", "decode (CPU workers)"),
        ("prefill_s_per_clip", "prefill"),
        ("generate_s_per_clip", "generate"),
    ):
        values = [m[key] for m in mean]
        right.barh(names, values, left=offset, label=label)
        offset = [a + b for a, b in zip(offset, values, strict=True)]
    right.set_xlabel("seconds per clip, by stage")
    right.legend()
    figure.savefig(file, dpi=120)


def load_results(path: Path) -> list[dict[str, Any]]:
    """Of a sweep's folder or its results.json. Raises ConfigError."""
    file = path / RESULTS if path.is_dir() else path
    try:
        return json.loads(file.read_text())["points"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file}: no results of a sweep: {error}") from error


def comparison(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> str:
    """A line per point that both have: what became of its clips/s. Points that only one has are
    named last.
    """
    old, new = (
        {e["name"]: [r["clips_per_s"] for r in e["runs"]] for e in es if e["runs"]}
        for es in (before, after)
    )
    lines = ["| point | before | after | change | 95 % | |", "|" + " --- |" * 6]
    for name in (name for name in old if name in new):
        found = change(old[name], new[name])
        ends = (found.low, found.high)
        span = " to ".join("-" if end is None else f"{end - 1:+.1%}" for end in ends)
        rates = (sum(x) / len(x) for x in (old[name], new[name]))
        cells = [name, *(f"{rate:.2f}" for rate in rates), f"{found.ratio - 1:+.1%}", span]
        lines.append("| " + " | ".join([*cells, found.verdict]) + " |")
    for side, names in (("before", old.keys() - new.keys()), ("after", new.keys() - old.keys())):
        lines += [f"only {side}: {name}" for name in sorted(names)]
    return "\n".join(lines)
