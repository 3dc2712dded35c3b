"""Caption: frames -> a caption and how it was decoded. One actor holds target and draft together.

A request that the engine refuses is a row with an error. An engine that raises is not data: the
task fails, and with it the job, which resumes at the last commit when the command is run again.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lvspec.config import DecodeSettings, ModelSettings
from lvspec.types import Generation, Refusal, Request
from pipeline.backend import Backend, Captioner
from pipeline.captioning.loops import is_degenerate
from pipeline.frames import unpack
from pipeline.metrics import BusyClock, count_captioned
from pipeline.schema import CAPTION_COLUMNS, FRAME_COLUMNS, ROWS
from pipeline.shared_engine import SharedEngine
from pipeline.worker_log import log_event, log_failures

pc: Any = pyarrow.compute  # its functions are made at import, so type checkers see none
NO_CAPTION: Mapping[str, Any] = {column.name: None for column in CAPTION_COLUMNS}


def caption_table(table: pa.Table, captioner: Captioner) -> pa.Table:
    """DECODED rows in, the same clips as ROWS out, in the same order.

    Raises RuntimeError if the captioner does not answer each request exactly once.
    """
    rows = table.drop_columns([column.name for column in FRAME_COLUMNS]).to_pylist()
    asked = {row["clip_id"] for row in rows if row["status"] == "ok"}
    answers: dict[str, dict[str, Any]] = {}
    for item in captioner.run(_requests(table, rows)):
        if item.request_id not in asked or item.request_id in answers:
            raise RuntimeError(
                f"the engine answered clip {item.request_id}, which is not waiting for it"
            )
        answers[item.request_id] = _refused(item) if isinstance(item, Refusal) else _captioned(item)
    if len(answers) != len(asked):
        raise RuntimeError(f"the engine lost clips: {sorted(asked - answers.keys())}")
    full = [{**NO_CAPTION, **row, **answers.get(row["clip_id"], {})} for row in rows]
    return pa.Table.from_pylist(full, schema=ROWS)


class Caption:
    """What Ray Data keeps as an actor. Only settings are pickled; models are built here, once.

    Several calls may run at once: they share the engine's slots.
    """

    def __init__(self, backend: Backend, models: ModelSettings, decoding: DecodeSettings) -> None:
        started = time.monotonic()
        self._captioner = SharedEngine(backend.make_captioner(models, decoding))
        took_s = round(time.monotonic() - started, 1)
        log_event("models_loaded", f"{models.target} in {took_s} s", seconds=took_s)
        self._busy = BusyClock()

    def __call__(self, table: pa.Table) -> pa.Table:
        run_id = table["run_id"][0].as_py()
        with self._busy.call(run_id):
            rows = caption_table(table, self._captioner)
        count_captioned(rows)
        failed = rows.filter(pc.equal(rows["error_stage"], "caption"))
        log_failures(failed.to_pylist(), "caption", run_id)
        return rows


def _requests(table: pa.Table, rows: list[dict[str, Any]]) -> Iterator[Request]:
    """Lazily, so that the engine admits a clip when it has a slot for it."""
    for index, row in enumerate(rows):
        if row["status"] == "ok":
            frames, times_s = unpack(table, index)
            yield Request(id=row["clip_id"], frames=frames, times_s=times_s, prompt=row["prompt"])


def _refused(refusal: Refusal) -> dict[str, Any]:
    return {
        "status": "error",
        "error_stage": "caption",
        "error_code": refusal.code,
        "error_message": refusal.message,
    }


def _captioned(generation: Generation) -> dict[str, Any]:
    stats = generation.stats
    ended = generation.finish_reason == "stop"  # by an end token, which is no word of the caption
    return {
        "caption": generation.text,
        "finish_reason": generation.finish_reason,
        "truncated": generation.finish_reason == "length",
        "degenerate": is_degenerate(generation.token_ids[: -1 if ended else None]),
        "num_generated_tokens": stats.num_generated_tokens,
        "num_prompt_tokens": stats.num_prompt_tokens,
        "num_video_tokens": stats.num_video_tokens,
        "num_draft_video_tokens": stats.num_draft_video_tokens,
        "num_spec_steps": stats.num_spec_steps,
        "num_draft_tokens": stats.num_draft_tokens,
        "num_accepted_draft_tokens": stats.num_accepted_draft_tokens,
        "num_loose_tokens": stats.num_loose_tokens,
        "num_shift_tokens": stats.num_shift_tokens,
        "draft_acceptance_rate": stats.draft_acceptance_rate,
        "mean_accepted_length": stats.mean_accepted_length,
        "prefill_s": stats.prefill_s,
        "decode_s": stats.decode_s,
        "plain_s": stats.plain_s,
        "speedup": stats.speedup,
    }
