"""The Parquet schemas: every column with its type, unit and meaning, in one place.

`docs/schema.md` is generated from here (`python -m pipeline.schema > docs/schema.md`). To add a
column: one `Column` below, and the stage that fills it. Columns are nullable unless they say
otherwise.
"""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column and what it means."""

    name: str
    type: pa.DataType
    meaning: str
    unit: str = ""
    nullable: bool = True


def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in columns])


SOURCE_COLUMNS = (
    Column(
        "clip_id",
        pa.string(),
        "UUID v5 of uri, start and end in milliseconds: the same clip has the same id in every run",
        nullable=False,
    ),
    Column(
        "video_id",
        pa.string(),
        "The caller's name of the video; the path below the prefix by default",
    ),
    Column("uri", pa.string(), "Where the video was read from", nullable=False),
    Column("start_s", pa.float64(), "Start of the clip in the video; null = its start", "s"),
    Column("end_s", pa.float64(), "End of the clip in the video; null = its end", "s"),
    Column("prompt", pa.string(), "The clip's own prompt; null = the job's `decoding.prompt`"),
    Column("size_bytes", pa.int64(), "Size of the video file, where its storage says so", "bytes"),
    Column(
        "offset_bytes",
        pa.int64(),
        "Where the video begins in its tar shard; null = it is a file of its own",
        "bytes",
    ),
    Column(
        "source_version",
        pa.string(),
        "State of the file when it was planned: size with etag or mtime; `missing` if not there",
        nullable=False,
    ),
)

STATUS_COLUMNS = (
    Column("run_id", pa.string(), "The run that made this row", nullable=False),
    Column("status", pa.string(), "`ok` or `error`", nullable=False),
)

ERROR_COLUMNS = (
    Column(
        "error_stage",
        pa.string(),
        "Where it failed: `cut` (a video that was to become clips), `decode` (reading a clip) or "
        "`caption`",
    ),
    Column("error_code", pa.string(), "Stable code of the failure, for filtering and for retries"),
    Column("error_message", pa.string(), "What happened, for people"),
)

VIDEO_COLUMNS = (
    Column("decoder", pa.string(), "Library that decoded the frames: `pyav` or `decord`"),
    Column("codec", pa.string(), "Video codec, as FFmpeg names it"),
    Column("container", pa.string(), "Container format, as FFmpeg names it"),
    Column("fps", pa.float64(), "Average frame rate of the video", "1/s"),
    Column("duration_s", pa.float64(), "Duration of the video", "s"),
    Column("width", pa.int32(), "Displayed width (upright, sample aspect applied)", "pixels"),
    Column("height", pa.int32(), "Displayed height (upright, sample aspect applied)", "pixels"),
    Column("rotation", pa.int32(), "Turn that was applied to show frames upright", "degrees"),
    Column("num_frames_requested", pa.int32(), "Frames that were asked for", "frames"),
    Column("num_frames_decoded", pa.int32(), "Frames that the model saw", "frames"),
    Column("damaged", pa.bool_(), "The decoder met errors; the frames used are clean ones"),
    Column("read_s", pa.float64(), "Time to open, seek, decode and scale the video", "s"),
)

PROGRESS_COLUMNS = (
    Column("finished_at", pa.timestamp("us", "UTC"), "When the caption stage was done with it"),
)

CAPTION_COLUMNS = (
    Column("caption", pa.string(), "The caption"),
    Column(
        "finish_reason",
        pa.string(),
        "`stop` (the model ended it) or `length` (max_new_tokens reached)",
    ),
    Column("truncated", pa.bool_(), "The caption was cut at max_new_tokens"),
    Column(
        "degenerate",
        pa.bool_(),
        "The caption loops: it ends in the same words three times or more (24 tokens at least), or "
        "few of its 4-grams are different ones",
    ),
    Column(
        "num_generated_tokens", pa.int32(), "Tokens of the caption, end token included", "tokens"
    ),
    Column(
        "num_prompt_tokens", pa.int32(), "Prompt tokens of the target, video included", "tokens"
    ),
    Column("num_video_tokens", pa.int32(), "Video tokens that the target saw", "tokens"),
    Column(
        "num_draft_video_tokens",
        pa.int32(),
        "Video tokens that the draft kept after pruning",
        "tokens",
    ),
    Column(
        "num_spec_steps",
        pa.int32(),
        "Rounds of drafting and verifying (target passes after prefill)",
    ),
    Column("num_draft_tokens", pa.int32(), "Tokens the draft proposed", "tokens"),
    Column("num_accepted_draft_tokens", pa.int32(), "Proposed tokens that were accepted", "tokens"),
    Column(
        "num_loose_tokens",
        pa.int32(),
        "Accepted tokens that differ from the target's, by low relevance",
    ),
    Column(
        "num_shift_tokens", pa.int32(), "Accepted tokens that differ, rescued by position shift"
    ),
    Column("draft_acceptance_rate", pa.float64(), "num_accepted_draft_tokens / num_draft_tokens"),
    Column(
        "mean_accepted_length",
        pa.float64(),
        "The paper's τ: accepted draft tokens per round, bonus token excluded (vLLM's is this + 1)",
        "tokens",
    ),
    Column("prefill_s", pa.float64(), "Time of this clip's prefill, both models", "s"),
    Column("decode_s", pa.float64(), "Time from prefill to the last token", "s"),
    Column(
        "plain_s",
        pa.float64(),
        "Estimate of plain decoding's time for the same tokens: the engine times plain steps "
        "on the same device at the same occupancy",
        "s",
    ),
    Column(
        "speedup", pa.float64(), "Estimate: plain_s / decode_s; below 1 means that speculation lost"
    ),
)

SAMPLE_COLUMNS = (
    Column(
        "flags",
        pa.list_(pa.string()),
        "Why it is worth a look: `truncated` (max_new_tokens reached), `damaged` (the decoder met "
        "errors), `degenerate` (the caption repeats itself)",
    ),
    Column("strip_jpeg", pa.binary(), "Up to 8 frames side by side, 72 pixels high, as a JPEG"),
    Column("token_texts", pa.list_(pa.string()), "The caption in pieces, one per token"),
    Column(
        "token_reasons",
        pa.list_(pa.string()),
        "Why each token was emitted: `exact`, `loose`, `shift` (drafted) or `target`",
    ),
    Column(
        "token_relevance",
        pa.list_(pa.float32()),
        "Visual relevance of each token's slot; null where no block was drafted for it, and under "
        "policies that have no need of it",
    ),
    Column(
        "audit_caption", pa.string(), "What plain decoding says of the clip; null = not audited"
    ),
    Column(
        "audit_agreement",
        pa.float64(),
        "Share of the audit caption's words that the caption has in the same order, 0..1",
    ),
    Column(
        "audit_words_lost",
        pa.list_(pa.string()),
        "Content words of the audit caption that the caption says nowhere",
    ),
    Column("audit_decode_s", pa.float64(), "Measured time of that plain decoding", "s"),
    Column(
        "audit_estimate_s",
        pa.float64(),
        "What the engine's estimate says of the same plain decoding (as `plain_s` does of the "
        "caption's); audit_decode_s / audit_estimate_s is how far estimated speedups are off",
        "s",
    ),
)
LATER_COLUMNS = frozenset(column.name for column in PROGRESS_COLUMNS)
"""Columns of captions and errors that datasets of earlier versions lack."""

MANIFEST = _schema(SOURCE_COLUMNS)
ROWS = _schema(
    SOURCE_COLUMNS
    + STATUS_COLUMNS
    + ERROR_COLUMNS
    + VIDEO_COLUMNS
    + CAPTION_COLUMNS
    + PROGRESS_COLUMNS
    + SAMPLE_COLUMNS
)
CAPTIONS = _schema(
    SOURCE_COLUMNS + STATUS_COLUMNS + VIDEO_COLUMNS + CAPTION_COLUMNS + PROGRESS_COLUMNS
)
ERRORS = _schema(SOURCE_COLUMNS + STATUS_COLUMNS + ERROR_COLUMNS + VIDEO_COLUMNS + PROGRESS_COLUMNS)
SAMPLES = _schema(SOURCE_COLUMNS + STATUS_COLUMNS + SAMPLE_COLUMNS)
DELETED = _schema(SOURCE_COLUMNS + STATUS_COLUMNS)

# Where videos are cut into clips: one row per video, before the manifest is written.
CUT_COLUMNS = (
    Column("starts_ms", pa.list_(pa.int64()), "Where its clips start; null if it failed", "ms"),
    Column("ends_ms", pa.list_(pa.int64()), "Where they end", "ms"),
    Column("read_s", pa.float64(), "Time to open and scan the video", "s"),
)
CUT = _schema(SOURCE_COLUMNS + ERROR_COLUMNS + CUT_COLUMNS)

# Between decode and caption: a row with its frames. Raw bytes with a shape, because clips of one
# block may differ in size and an error has none; reading them back is a view, not a copy (see
# frames.py).
FRAME_COLUMNS = (
    Column("frames", pa.large_binary(), "uint8 RGB frames at the model's input size, C order"),
    Column("frames_shape", pa.list_(pa.int32()), "[T, H, W, 3]"),
    Column("times_s", pa.list_(pa.float64()), "Time of each frame from the start of the clip", "s"),
)
DECODED = _schema(SOURCE_COLUMNS + STATUS_COLUMNS + ERROR_COLUMNS + VIDEO_COLUMNS + FRAME_COLUMNS)


def to_markdown() -> str:
    """The documentation page of the output, column by column."""
    tables = (
        ("captions/run=<run_id>/part-*.parquet", "One row per captioned clip.", CAPTIONS),
        (
            "errors/run=<run_id>/part-*.parquet",
            "One row per clip that failed. It is a valid manifest: `source.manifest` accepts it.",
            ERRORS,
        ),
        (
            "samples/run=<run_id>/part-*.parquet",
            "A few captioned clips of a run in more detail (`run.samples`, `run.audit_share`), and "
            "flagged ones; docs/report.md says which. Join with captions by `clip_id`.",
            SAMPLES,
        ),
    )
    columns = {
        c.name: c
        for c in (
            *(SOURCE_COLUMNS + STATUS_COLUMNS + ERROR_COLUMNS + VIDEO_COLUMNS),
            *(CAPTION_COLUMNS + PROGRESS_COLUMNS + SAMPLE_COLUMNS),
        )
    }
    lines = [
        "# Output schema",
        "",
        "Generated by `python -m pipeline.schema > docs/schema.md`; edit `pipeline/schema.py`.",
        "Files are Parquet with zstd, sorted by `clip_id`; captions and errors hold an id once.",
        "`run=<run_id>` is a Hive partition; the column `run_id` says the same inside a file.",
    ]
    for title, text, schema in tables:
        lines += [
            "",
            f"## `{title}`",
            "",
            text,
            "",
            "| column | type | unit | meaning |",
            "|---|---|---|---|",
        ]
        for name in schema.names:
            column = columns[name]
            required = "" if column.nullable else ", never null"
            lines.append(
                f"| `{name}` | {column.type}{required} | {column.unit} | {column.meaning} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(to_markdown(), end="")
