"""From logged answers to the paper's table."""

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from pipeline.errors import ReconciliationError
from pipeline.evaluation.items import Item, letter
from pipeline.evaluation.log import Answer
from pipeline.evaluation.scoring import content_kept, kept_interval, rouge_l
from pipeline.evaluation.settings import BenchmarkSettings

# Published (arXiv 2604.05650, table of main results): tau, speedup, share of quality kept. They are
# means over the four benchmarks. SpecVLM's there drafts a tree, ours a chain.
PAPER: dict[str, dict[str, tuple[str, str, str]]] = {
    "Qwen2.5-VL-32B": {
        "exact": ("3.28", "1.41x", "100%"),
        "specvlm": ("3.29", "2.00x", "100%"),
        "fly": ("4.5", "1.71x", "87%"),
        "entropy": ("6.81", "2.32x", "97%"),
        "lvspec": ("7.76", "2.70x", ">99.8%"),
    },
    "LLaVA-OneVision-72B": {"lvspec": ("7.34", "2.94x", ">99.8%")},
}
_SIZES = {
    "qwen2.5-vl-32b": "Qwen2.5-VL-32B",
    "llava-onevision-qwen2-72b": "LLaVA-OneVision-72B",
}


@dataclass(frozen=True)
class Row:
    """One method on one benchmark, over the items that no method failed at.

    score: of `measure`: "accuracy" (share), "judge" (0..5), or "rouge_l" (agreement with plain).
    kept: quality relative to plain with its 95 % interval: the scores' ratio, or without a judge
        the share of plain's content words. tau: accepted draft tokens per round, bonus excluded.
    decode_speedup: seconds per token of plain over those of the method, prefill apart;
        end_to_end_speedup: prefill counted. identical: share of answers equal to plain's in every
        token. failed: items that some method could not answer.
    """

    benchmark: str
    method: str
    items: int
    failed: int
    measure: str
    score: float
    kept: float
    kept_low: float
    kept_high: float
    tau: float
    acceptance: float
    decode_speedup: float
    end_to_end_speedup: float
    peak_gib: float
    identical: float


Judged = Callable[[Item, str], int]


def rows(
    benchmark: BenchmarkSettings,
    items: Sequence[Item],
    names: Sequence[str],
    answers: Mapping[tuple[str, str, str], Answer],
    judged: Judged | None = None,
) -> list[Row]:
    """One row per method. Raises `ReconciliationError` where answers are missing or a multiple
    choice differs from plain decoding's.
    """
    said = {
        name: [answers.get((benchmark.name, item.id, name)) for item in items] for name in names
    }
    lost = [f"{name}: {column.count(None)}" for name, column in said.items() if None in column]
    if lost:
        raise ReconciliationError(f"{benchmark.name}: answers are missing ({', '.join(lost)})")
    whole = {name: [a for a in column if a is not None] for name, column in said.items()}
    good = [i for i in range(len(items)) if not any(whole[name][i].error for name in names)]
    asked = [items[i] for i in good]
    table = {name: [whole[name][i] for i in good] for name in names}
    if benchmark.kind == "multiple_choice":
        check_choices(benchmark.name, table)
    if not asked:
        raise ReconciliationError(
            f"{benchmark.name}: no item was answered by every method; the first failed with: "
            + next(a.error for column in whole.values() for a in column if a.error)
        )
    failed = len(items) - len(good)
    return [_row(benchmark, name, asked, table, failed, judged) for name in names]


def check_choices(benchmark: str, table: Mapping[str, Sequence[Answer]]) -> None:
    """The first token is the target's own under every method, so a choice must be plain's."""
    for name, column in table.items():
        for answer, plain in zip(column, table["plain"], strict=True):
            if answer.token_ids[:1] != plain.token_ids[:1]:
                raise ReconciliationError(
                    f"{benchmark}: item {answer.item}: {name} begins with {answer.text[:20]!r}, "
                    f"plain decoding with {plain.text[:20]!r}; the first token is the target's "
                    "under every method, so this is a bug, or a run in half precision whose "
                    "passes are not reproducible"
                )


def _row(
    benchmark: BenchmarkSettings,
    name: str,
    items: Sequence[Item],
    table: Mapping[str, Sequence[Answer]],
    failed: int,
    judged: Judged | None,
) -> Row:
    mine, plain = table[name], table["plain"]
    measure, scores, kept = _scores(benchmark, items, mine, plain, judged)
    share, low, high = kept_interval(*kept)
    drafted, accepted = sum(a.drafted for a in mine), sum(a.accepted for a in mine)
    return Row(
        benchmark.name,
        name,
        len(items),
        failed,
        measure,
        sum(scores) / len(scores),
        share,
        low,
        high,
        accepted / max(1, sum(a.rounds for a in mine)) if drafted else 0.0,
        accepted / drafted if drafted else 0.0,
        _per_token(plain, False) / _per_token(mine, False),
        _per_token(plain, True) / _per_token(mine, True),
        max(a.peak_bytes for a in mine) / 2**30,
        sum(a.token_ids == b.token_ids for a, b in zip(mine, plain, strict=True)) / len(mine),
    )


def _scores(
    benchmark: BenchmarkSettings,
    items: Sequence[Item],
    mine: Sequence[Answer],
    plain: Sequence[Answer],
    judged: Judged | None,
) -> tuple[str, list[float], tuple[list[float], list[float]]]:
    """What is measured, a score per item, and the two columns whose sums' ratio is `kept`."""
    if benchmark.kind == "multiple_choice" or judged:

        def score(item: Item, answer: Answer) -> float:
            if judged and benchmark.kind != "multiple_choice":
                return float(judged(item, answer.text))
            return float(letter(answer.text) == item.reference)

        ours = [score(i, a) for i, a in zip(items, mine, strict=True)]
        theirs = [score(i, a) for i, a in zip(items, plain, strict=True)]
        measure = "accuracy" if benchmark.kind == "multiple_choice" else "judge"
        return measure, ours, (ours, theirs)
    pairs = [(a.text, b.text) for a, b in zip(mine, plain, strict=True)]
    agreement = [rouge_l(ours, theirs) for ours, theirs in pairs]
    kept = [content_kept(ours, theirs) for ours, theirs in pairs]
    return "rouge_l", agreement, (kept, [1.0] * len(kept))


def _per_token(answers: Sequence[Answer], with_prefill: bool) -> float:
    """Seconds a token. Without prefill, the first token is not counted: prefill says it."""
    prefill_s = sum(a.prefill_s for a in answers) if with_prefill else 0.0
    tokens = sum(len(a.token_ids) - (not with_prefill) for a in answers)
    seconds = sum(a.decode_s for a in answers) + prefill_s
    return seconds / tokens if tokens and seconds else math.nan


HEAD = (
    *("benchmark", "method", "items", "score", "kept", "95 %", "tau", "accepted", "decode"),
    *("end to end", "peak GiB", "same as plain"),
)


def table(points: Sequence[Row], target: str) -> str:
    """The rows as Markdown; beside them the paper's figures where it has them for `target`."""
    paper = PAPER.get(next((v for k, v in _SIZES.items() if k in target.lower()), ""), {})
    head = [*HEAD, *(("paper tau", "paper speedup", "paper kept") if paper else ())]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for p in points:
        cells = [
            p.benchmark,
            p.method,
            f"{p.items}" + (f" ({p.failed} failed)" if p.failed else ""),
            f"{p.score:.3f} ({p.measure})",
            _percent(p.kept),
            f"{_percent(p.kept_low)} to {_percent(p.kept_high)}",
            f"{p.tau:.2f}",
            f"{p.acceptance:.1%}",
            _times(p.decode_speedup),
            _times(p.end_to_end_speedup),
            f"{p.peak_gib:.2f}" if p.peak_gib else "-",
            f"{p.identical:.1%}",
            *(paper.get(p.method, ("-", "-", "-")) if paper else ()),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"


def _times(ratio: float) -> str:
    return "-" if math.isnan(ratio) else f"{ratio:.2f}x"


def save(folder: Path, points: Sequence[Row], target: str) -> None:
    """Writes table.md, points.csv, points.json and quality_speed.png."""
    (folder / "table.md").write_text(table(points, target) + "\n")
    plain = [{key: _finite(value) for key, value in asdict(p).items()} for p in points]
    (folder / "points.json").write_text(json.dumps(plain, indent=2, allow_nan=False) + "\n")
    with (folder / "points.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Row)])
        writer.writeheader()
        writer.writerows(plain)
    picture(points, folder / "quality_speed.png")


def _finite(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value  # JSON has no NaN


def picture(points: Sequence[Row], file: Path) -> None:
    """Quality kept against decode speedup, a panel for each benchmark."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # the extra `evaluate`

    names = list(dict.fromkeys(p.benchmark for p in points))
    figure = Figure(figsize=(5.5 * len(names), 4.5), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        chosen = [
            p for p in points if p.benchmark == name and not math.isnan(p.kept + p.decode_speedup)
        ]
        for p in chosen:
            ends = [[100 * (p.kept - p.kept_low)], [100 * (p.kept_high - p.kept)]]
            axes.errorbar([p.decode_speedup], [100 * p.kept], yerr=ends, fmt="o", capsize=2)
            axes.annotate(
                p.method,
                (p.decode_speedup, 100 * p.kept),
                (4, 4),
                textcoords="offset points",
                fontsize=8,
            )
        axes.set_title(name)
        axes.set_xlabel("decode speedup over plain")
        axes.set_ylabel("quality kept, % of plain's")
    figure.savefig(file, dpi=120)
