"""Caption: frames -> a caption and how it was decoded. One actor holds target and draft together.

A request that the engine refuses is a row with an error. An engine that raises is not data: the
task fails, and with it the job, which resumes at the last commit when the command is run again.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lvspec.config import DecodeSettings, ModelSettings
from lvspec.types import Generation, Refusal, Request
from pipeline.audit import agreement, lost_words
from pipeline.backend import Backend, Captioner
from pipeline.captioning.loops import is_degenerate
from pipeline.frames import unpack
from pipeline.metrics import BusyClock, count_captioned
from pipeline.samples import Chosen
from pipeline.schema import (
    CAPTION_COLUMNS,
    FRAME_COLUMNS,
    PROGRESS_COLUMNS,
    ROWS,
    SAMPLE_COLUMNS,
)
from pipeline.shared_engine import SharedEngine
from pipeline.strips import strip_jpeg
from pipeline.worker_log import log_event, log_failures

pc: Any = pyarrow.compute  # its functions are made at import, so type checkers see none
NOTHING: Mapping[str, Any] = {
    column.name: None for column in (*CAPTION_COLUMNS, *PROGRESS_COLUMNS, *SAMPLE_COLUMNS)
}
NO_SAMPLES = Chosen()
FLAGGED_SHARE = 0.05  # of a call's clips, and at least two: flagged clips that are kept in detail


def caption_table(table: pa.Table, captioner: Captioner, chosen: Chosen = NO_SAMPLES) -> pa.Table:
    """DECODED rows in, the same clips as ROWS out, in the same order.

    Raises RuntimeError if the captioner does not answer each request exactly once.
    """
    rows = table.drop_columns([column.name for column in FRAME_COLUMNS]).to_pylist()
    places = {row["clip_id"]: index for index, row in enumerate(rows) if row["status"] == "ok"}
    answers: dict[str, dict[str, Any]] = {}
    said: dict[str, Generation] = {}
    requests = _requests(table, rows, places.values())
    for item in captioner.run(requests, reasons=chosen.any, relevance=chosen.any):
        if item.request_id not in places or item.request_id in answers:
            raise RuntimeError(
                f"the engine answered clip {item.request_id}, which is not waiting for it"
            )
        if isinstance(item, Refusal):
            answers[item.request_id] = _refused(item)
        else:
            said[item.request_id] = item
            answers[item.request_id] = _captioned(item)
        answers[item.request_id]["finished_at"] = datetime.now(UTC)
    if len(answers) != len(places):
        raise RuntimeError(f"the engine lost clips: {sorted(places.keys() - answers.keys())}")
    now = {"finished_at": datetime.now(UTC)}
    full = [{**NOTHING, **now, **row, **answers.get(row["clip_id"], {})} for row in rows]
    if chosen.any:
        _add_samples(full, table, said, captioner, chosen)
    return pa.Table.from_pylist(full, schema=ROWS)


def flags_of(row: Mapping[str, Any]) -> list[str]:
    """Why a captioned clip is worth a look; a row of `captions`."""
    flags = {
        "truncated": row["truncated"],
        "damaged": row["damaged"],
        "degenerate": row["degenerate"],
    }
    return [flag for flag, is_so in flags.items() if is_so]


def _add_samples(
    rows: list[dict[str, Any]],
    table: pa.Table,
    said: Mapping[str, Generation],
    captioner: Captioner,
    chosen: Chosen,
) -> None:
    """Fill the sample columns of the rows that are chosen by id or for a flag. After all clips of
    the call are captioned, so that a plain decode takes part in no round of theirs.
    """
    flagged = max(2, round(FLAGGED_SHARE * len(rows)))
    audited: list[int] = []
    for index, row in enumerate(rows):
        if row["clip_id"] not in said:
            continue
        flags = flags_of(row)
        is_flagged = bool(chosen.shown and flags and flagged > 0)
        is_shown = row["clip_id"] <= chosen.shown or is_flagged
        is_audited = row["clip_id"] <= chosen.audited
        if is_shown:
            flagged -= bool(flags)
            row.update(_detail(said[row["clip_id"]], captioner))
            row["strip_jpeg"] = strip_jpeg(unpack(table, index)[0])
        if is_audited:
            audited.append(index)
        if is_shown or is_audited:
            row["flags"] = flags
    places = {rows[index]["clip_id"]: index for index in audited}
    for item in captioner.run(_requests(table, rows, audited), plain=True) if audited else ():
        if isinstance(item, Generation):
            rows[places[item.request_id]] |= _audit(item, said[item.request_id].text)


def _detail(generation: Generation, captioner: Captioner) -> dict[str, Any]:
    return {
        "token_texts": captioner.token_texts(generation.token_ids),
        "token_reasons": generation.reasons,
        "token_relevance": generation.relevance,
    }


def _audit(plain: Generation, caption: str) -> dict[str, Any]:
    return {
        "audit_caption": plain.text,
        "audit_agreement": agreement(plain.text, caption),
        "audit_words_lost": lost_words(plain.text, caption),
        "audit_decode_s": plain.stats.decode_s,
        "audit_estimate_s": plain.stats.plain_s or None,  # 0: no plain step was measured
    }


class Caption:
    """What Ray Data keeps as an actor. Only settings are pickled; models are built here, once.

    Several calls may run at once: they share the engine's slots.
    """

    def __init__(
        self, backend: Backend, models: ModelSettings, decoding: DecodeSettings, chosen: Chosen
    ) -> None:
        started = time.monotonic()
        self._captioner = SharedEngine(backend.make_captioner(models, decoding))
        took_s = round(time.monotonic() - started, 1)
        log_event("models_loaded", f"{models.target} in {took_s} s", seconds=took_s)
        self._chosen = chosen
        self._busy = BusyClock()

    def __call__(self, table: pa.Table) -> pa.Table:
        run_id = table["run_id"][0].as_py()
        with self._busy.call(run_id):
            rows = caption_table(table, self._captioner, self._chosen)
        count_captioned(rows)
        failed = rows.filter(pc.equal(rows["error_stage"], "caption"))
        log_failures(failed.to_pylist(), "caption", run_id)
        return rows


def _requests(
    table: pa.Table, rows: list[dict[str, Any]], places: Iterable[int]
) -> Iterator[Request]:
    """Lazily, so that the engine admits a clip when it has a slot for it."""
    for index in places:
        row = rows[index]
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
