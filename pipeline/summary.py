"""The summary of a run: counts, rates and times, computed from the published rows."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute

from pipeline.dataset import Dataset
from pipeline.increments import Deleted
from pipeline.schema import CAPTIONS, ERRORS

pc: Any = pyarrow.compute  # its functions are made at import, so type checkers see none
NONE = Deleted()
FLAGS = ("truncated", "degenerate")


@dataclass(frozen=True)
class RunSummary:
    """What `--json` prints and runs/<id>/summary.json holds. Rates are None where nothing was
    measured.

    seconds_by_stage: `plan`, `caption` and `publish` are wall clock of this attempt; `read`,
    `prefill` and `decode` are sums over clips, which run in parallel.
    mean_accepted_length: tau over all rounds of the run. speedup: sum of plain_s over sum of
    decode_s. truncated, degenerate: captions with these flags. deleted: rows of the dataset whose
    videos the source no longer has, and the first of those videos (deleted.parquet lists all).
    resumed_runs: summaries of the unfinished runs that this call finished.
    """

    run_id: str | None
    output: str
    fingerprint: str
    manifest_rows: int
    succeeded: int
    failed: int
    failed_by_code: dict[str, int]
    tokens: int
    mean_accepted_length: float | None
    draft_acceptance_rate: float | None
    speedup: float | None
    clips_per_s: float | None
    seconds_by_stage: dict[str, float]
    truncated: int = 0
    degenerate: int = 0
    replaced: int = 0
    already_held: int = 0
    deleted: int = 0
    deleted_uris: list[str] = field(default_factory=list[str])
    resumed_runs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def error_share(self) -> float:
        return self.failed / self.manifest_rows if self.manifest_rows else 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def amount(count: int, what: str) -> str:
    """`1 clip`, `2 clips`."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def nothing_new(
    output: str, fingerprint: str, held: int, seconds: dict[str, float], deleted: Deleted = NONE
) -> RunSummary:
    """The summary of a job that had nothing to do."""
    rates = (None, None, None, None)
    summary = RunSummary(None, output, fingerprint, 0, 0, 0, {}, 0, *rates, seconds)
    return replace(
        summary, already_held=held, deleted=deleted.rows, deleted_uris=list(deleted.uris)
    )


def summarize(
    dataset: Dataset,
    run_id: str,
    *,
    output: str,
    fingerprint: str,
    seconds: dict[str, float],
    captioned: int,
    replaced: int,
    already_held: int,
    deleted: Deleted,
) -> RunSummary:
    """`captioned`: clips that this attempt captioned, for its rate.

    Reads the figures of a run back from what publish wrote, so that they describe the dataset
    itself."""
    captions = dataset.scan(dataset.parquet_files(dataset.captions(run_id)), CAPTIONS)
    measured = ["num_generated_tokens", "num_spec_steps", "num_draft_tokens"]
    measured += ["num_accepted_draft_tokens", "plain_s", "read_s", "prefill_s", "decode_s"]
    table = captions.to_table(columns=[*measured, *FLAGS])
    total = {name: float(pc.sum(table[name]).as_py() or 0) for name in measured}
    errors = dataset.scan(dataset.parquet_files(dataset.errors(run_id)), ERRORS)
    failures = errors.to_table(columns=["error_code", "read_s"])
    total["read_s"] += float(pc.sum(failures["read_s"]).as_py() or 0)
    rows, flagged = table.num_rows + failures.num_rows, _flagged(table)
    return RunSummary(
        run_id=run_id,
        output=output,
        fingerprint=fingerprint,
        manifest_rows=rows,
        succeeded=table.num_rows,
        failed=failures.num_rows,
        failed_by_code=_counts(failures["error_code"]),
        tokens=int(total["num_generated_tokens"]),
        mean_accepted_length=_ratio(total["num_accepted_draft_tokens"], total["num_spec_steps"]),
        draft_acceptance_rate=_ratio(total["num_accepted_draft_tokens"], total["num_draft_tokens"]),
        speedup=_ratio(total["plain_s"], total["decode_s"]),
        clips_per_s=_ratio(captioned, seconds["caption"]) if captioned else None,
        seconds_by_stage={
            **{name: round(value, 3) for name, value in seconds.items()},
            **{name: round(total[f"{name}_s"], 3) for name in ("read", "prefill", "decode")},
        },
        truncated=flagged["truncated"],
        degenerate=flagged["degenerate"],
        replaced=replaced,
        already_held=already_held,
        deleted=deleted.rows,
        deleted_uris=list(deleted.uris),
    )


def figures(dataset: Dataset, run_id: str) -> dict[str, Any]:
    """Those figures of a summary that its rows tell again at any time."""
    captions = dataset.scan(dataset.parquet_files(dataset.captions(run_id)), CAPTIONS)
    errors = dataset.scan(dataset.parquet_files(dataset.errors(run_id)), ERRORS)
    table = captions.to_table(columns=["num_generated_tokens", *FLAGS])
    tokens = int(pc.sum(table["num_generated_tokens"]).as_py() or 0)
    codes = errors.to_table(columns=["error_code"])["error_code"]
    return {"tokens": tokens, "failed_by_code": _counts(codes), **_flagged(table)}


def _flagged(captions: pa.Table) -> dict[str, int]:
    return {flag: int(pc.sum(captions[flag]).as_py() or 0) for flag in FLAGS}


def _counts(codes: pa.ChunkedArray) -> dict[str, int]:
    pairs = pc.value_counts(codes).to_pylist()
    return dict(sorted((pair["values"], pair["counts"]) for pair in pairs))


def _ratio(amount: float, per: float) -> float | None:
    return round(amount / per, 4) if per else None
