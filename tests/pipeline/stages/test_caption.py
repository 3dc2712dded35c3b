"""Captioning one table: rows in = rows out, whatever order and answers the engine gives."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lvspec import DecodeSettings, Generation, ModelSettings, Refusal, Request
from pipeline.frames import NO_FRAMES, pack
from pipeline.samples import Chosen
from pipeline.schema import DECODED, ROWS
from pipeline.stages.caption import caption_table
from tests.pipeline.fakes import STATS, FakeCaptioner

ERROR = {"status": "error", "error_stage": "decode", "error_code": "empty_file", **NO_FRAMES}


def decoded(*rows: dict[str, Any]) -> pa.Table:
    base = {"uri": "u", "source_version": "v", "run_id": "r"}
    return pa.Table.from_pylist([{**base, **row} for row in rows], schema=DECODED)


def good(clip: str, brightness: int, **more: Any) -> dict[str, Any]:
    frames = np.full((2, 28, 56, 3), brightness, np.uint8)
    return {"clip_id": clip, "status": "ok", **pack(frames, np.array([0.5, 1.5])), **more}


def fake(script: str = "plain") -> FakeCaptioner:
    return FakeCaptioner(ModelSettings(target=script), DecodeSettings(prompt="P"))


def test_rows_keep_their_order_and_answers_go_to_their_clips() -> None:
    table = decoded(
        good("a", 10), {"clip_id": "b", **ERROR}, good("c", 30, prompt="Q"), good("d", 40)
    )
    result = caption_table(table, fake())
    assert result.schema.equals(ROWS)
    assert result["clip_id"].to_pylist() == ["a", "b", "c", "d"]
    assert result["caption"].to_pylist() == [
        "P 2x28x56x3 10",
        None,
        "Q 2x28x56x3 30",
        "P 2x28x56x3 40",
    ]
    assert result["status"].to_pylist() == ["ok", "error", "ok", "ok"]
    first = result.to_pylist()[0]
    assert (first["mean_accepted_length"], first["speedup"]) == (1.5, 2.5)
    assert (first["truncated"], first["degenerate"]) == (False, False)


def test_a_refusal_is_an_error_row() -> None:
    result = caption_table(decoded(good("a", 1)), fake("refuse")).to_pylist()[0]
    assert (result["status"], result["error_stage"]) == ("error", "caption")
    assert (result["error_code"], result["caption"]) == ("too_long", None)


def test_a_dead_engine_is_not_a_row() -> None:
    with pytest.raises(RuntimeError, match="device lost"):
        caption_table(decoded(good("a", 1)), fake("broken"))


class Scripted:
    """Answers with these ids, whatever was asked."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        return ["?" for _ in token_ids]

    def run(self, requests: Iterable[Request], **asked: bool) -> Iterator[Generation | Refusal]:
        list(requests)
        for clip in self.ids:
            yield Generation(clip, "text", (1,), "stop", STATS)


@pytest.mark.parametrize("ids", [("a",), ("a", "b", "b"), ("a", "b", "x"), ()])
def test_an_engine_that_loses_doubles_or_invents_a_clip_is_an_error(ids: tuple[str, ...]) -> None:
    with pytest.raises(RuntimeError, match="the engine"):
        caption_table(decoded(good("a", 1), good("b", 2)), Scripted(*ids))


def test_a_table_of_failures_needs_no_engine() -> None:
    assert caption_table(decoded({"clip_id": "b", **ERROR}), Scripted()).num_rows == 1


class Looping:
    """Says the same word until its tokens are used up."""

    def run(self, requests: Iterable[Request], **_: bool) -> Iterator[Generation | Refusal]:
        for request in requests:
            yield Generation(request.id, "so so so", (7,) * 40, "length", STATS)


def test_cut_and_looping_captions_are_flagged() -> None:
    (row,) = caption_table(decoded(good("a", 1)), Looping()).to_pylist()
    assert (row["status"], row["truncated"], row["degenerate"]) == ("ok", True, True)


def test_chosen_and_flagged_clips_are_kept_in_detail_and_audited() -> None:
    clips = [good(name, 1) | {"damaged": name == "d"} for name in "abcde"]
    chosen = Chosen(audited="a", shown="b")
    rows = caption_table(decoded(*clips), fake(), chosen).to_pylist()
    assert [row["flags"] for row in rows] == [[], [], None, ["damaged"], None]
    assert [row["strip_jpeg"] is not None for row in rows] == [True, True, False, True, False]
    first = rows[0]
    assert first["token_texts"] == [" word1", " word2", " word3", " word4"]
    assert first["token_reasons"] == ["target", "exact", "loose", "target"]
    assert first["token_relevance"] == [None, 0.5, 0.25, None]
    assert first["audit_caption"] == f"plainly {first['caption']}"
    assert first["audit_words_lost"] == ["plainly"]
    assert 0 < first["audit_agreement"] < 1
    assert (first["audit_decode_s"], first["audit_estimate_s"]) == (0.02, 0.05)
    assert [row["audit_caption"] for row in rows[1:]] == [None] * 4
    plain = caption_table(decoded(*clips), fake()).to_pylist()
    assert [row["caption"] for row in plain] == [row["caption"] for row in rows]
    assert all(row["flags"] is None for row in plain)
    assert all(row["finished_at"] is not None for row in rows)


def test_flagged_clips_beyond_a_share_are_not_kept() -> None:
    clips = [good(f"{i:03d}", 1) | {"damaged": True} for i in range(100)]
    rows = caption_table(decoded(*clips), fake(), Chosen(shown="")).to_pylist()
    assert sum(row["flags"] is not None for row in rows) == 0
    rows = caption_table(decoded(*clips), fake(), Chosen(shown="000")).to_pylist()
    assert sum(row["flags"] is not None for row in rows) == 5
