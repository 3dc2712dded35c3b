"""The table from answers written by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import ReconciliationError
from pipeline.evaluation.items import Item
from pipeline.evaluation.log import Answer
from pipeline.evaluation.report import rows, save, table
from pipeline.evaluation.settings import BenchmarkSettings

CAPTIONS = BenchmarkSettings("captions", "caption", "c.jsonl", "videos")
CHOICES = BenchmarkSettings("choices", "multiple_choice", "q.jsonl", "videos")
ITEMS = [Item(str(i), f"{i}.mp4", "?", "?", "B") for i in range(2)]


def answers(*given: Answer) -> dict[tuple[str, str, str], Answer]:
    return {answer.key: answer for answer in given}


def test_speeds_acceptance_and_quality_by_hand() -> None:
    plain = Answer("captions", "0", "plain", "a red ring turns blue", tuple(range(11)), 1.0, 2.0)
    loose = Answer("captions", "0", "lvspec", "red ring", tuple(range(6)), 1.0, 0.5, 2, 20, 9)
    found = rows(CAPTIONS, ITEMS[:1], ["plain", "lvspec"], answers(plain, loose))
    assert [row.kept for row in found] == [1.0, 0.5]  # of red, ring, turns, blue
    row = found[1]
    assert (row.measure, row.score) == ("rouge_l", pytest.approx(2 * 2 / 7))
    assert (row.tau, row.acceptance) == (4.5, 0.45)
    assert row.decode_speedup == pytest.approx((2.0 / 10) / (0.5 / 5))
    assert row.end_to_end_speedup == pytest.approx((3.0 / 11) / (1.5 / 6))


def test_the_judge_scores_where_there_is_one() -> None:
    said = answers(
        *(Answer("captions", i, "plain", "good", (1,)) for i in "01"),
        Answer("captions", "0", "lvspec", "good", (1,)),
        Answer("captions", "1", "lvspec", "bad", (1,)),
    )
    found = rows(
        CAPTIONS, ITEMS, ["plain", "lvspec"], said, lambda item, text: 4 * (text == "good")
    )
    assert [(row.measure, row.score, row.kept) for row in found] == [
        ("judge", 4.0, 1.0),
        ("judge", 2.0, 0.5),
    ]


def test_multiple_choice_is_accuracy_and_must_begin_as_plain_does() -> None:
    plain = [
        Answer("choices", "0", "plain", "B", (5, 2)),
        Answer("choices", "1", "plain", "A", (4,)),
    ]
    same = [replace(answer, method="lvspec") for answer in plain]
    found = rows(CHOICES, ITEMS, ["plain", "lvspec"], answers(*plain, *same))
    assert [(row.score, row.kept, row.identical) for row in found] == [(0.5, 1.0, 1.0)] * 2
    planted = replace(same[1], text="B", token_ids=(5,))
    with pytest.raises(ReconciliationError, match="item 1: lvspec begins with 'B'"):
        rows(CHOICES, ITEMS, ["plain", "lvspec"], answers(*plain, same[0], planted))


def test_failed_items_are_left_out_of_every_method_and_counted() -> None:
    said = answers(
        Answer("captions", "0", "plain", "red", (1, 2)),
        Answer("captions", "0", "lvspec", "red", (1, 2)),
        Answer("captions", "1", "plain", "blue", (1, 2)),
        Answer("captions", "1", "lvspec", error="too_long: raise it"),
    )
    found = rows(CAPTIONS, ITEMS, ["plain", "lvspec"], said)
    assert [(row.items, row.failed) for row in found] == [(1, 1), (1, 1)]


def test_missing_answers_are_no_table() -> None:
    said = answers(Answer("captions", "0", "plain", "red", (1, 2)))
    with pytest.raises(ReconciliationError, match="plain: 1"):
        rows(CAPTIONS, ITEMS, ["plain"], said)


def test_files_and_the_papers_figures(tmp_path: Path) -> None:
    plain = Answer("choices", "0", "plain", "A", (5, 2))
    found = rows(
        CHOICES, ITEMS[:1], ["plain", "lvspec"], answers(plain, replace(plain, method="lvspec"))
    )
    save(tmp_path, found, "Qwen/Qwen2.5-VL-32B-Instruct")
    text = (tmp_path / "table.md").read_text()
    assert "| 7.76 | 2.70x | >99.8% |" in text
    points = json.loads((tmp_path / "points.json").read_text())
    assert points[1]["kept"] is None  # plain scored nothing: there is no ratio
    assert (tmp_path / "points.csv").read_text().count("\n") == 3
    assert (tmp_path / "quality_speed.png").read_bytes()[:4] == b"\x89PNG"
    assert "paper" not in table(found, "demo")
