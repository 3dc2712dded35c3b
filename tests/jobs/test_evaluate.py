"""The evaluation job on demo scenes, with the embedded pair."""

import json
import os
from pathlib import Path

import pytest

from jobs import evaluate
from pipeline.evaluation.settings import load_eval_config

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "eval_demo.yaml"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert evaluate.main(["--write-demo", "eval_demo", "--scenes", "2"]) == 0
    return tmp_path / "eval_demo"


def test_the_table_and_a_run_that_was_killed(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["--config", str(CONFIG), "--set", "methods=[plain, exact, lvspec]"]
    assert evaluate.main(run) == 0
    shown = capsys.readouterr().out
    rows = [line.split(" | ") for line in shown.splitlines() if line.startswith("| demo-")]
    assert [row[1] for row in rows] == ["plain", "exact", "lvspec"] * 2
    assert all(row[-1].startswith("100.0%") for row in rows if row[1] == "exact")
    log = demo / "results" / "answers.jsonl"
    content = log.read_bytes()
    answers = [json.loads(line) for line in content.splitlines()]
    assert len(answers) == 2 * 2 * 3
    os.truncate(log, len(content) // 2)  # as a kill leaves it: in the middle of a line
    assert evaluate.main(run) == 0
    again = [json.loads(line) for line in log.read_bytes().splitlines()]

    def said(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
        return sorted((r["benchmark"], r["item"], r["method"], r["text"]) for r in rows)

    assert said(again) == said(answers)


def test_what_is_wrong_is_said_before_anything_is_decoded(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for change, message in (
        ("decoding.keep=2", "decoding.keep = 2.0: expected above 0, up to 1"),
        ("methods=[exact, fast]", "methods"),
        ("models.target=/no/such", "/no/such"),
        ("judge.model=x", "expected keys below it: url, model"),
    ):
        assert evaluate.main(["--config", str(CONFIG), "--set", change]) == 2
        assert message in capsys.readouterr().err
    (demo / "choices.jsonl").write_text('{"videoID": "scene_000"}\n')
    assert evaluate.main(["--config", str(CONFIG)]) == 2
    assert "choices.jsonl, row 0: 'options'" in capsys.readouterr().err


def test_unreadable_videos_are_counted_not_dropped(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (demo / "videos" / "scene_001.mp4").write_bytes(b"no video")
    run = ["--config", str(CONFIG), "--set", "methods=[plain]"]
    assert evaluate.main(run) == 0
    assert "| 1 (1 failed) |" in capsys.readouterr().out


def test_the_config_holds_the_papers_rule() -> None:
    settings = load_eval_config(CONFIG)
    assert settings.methods == ("plain", "exact", "specvlm", "fly", "lvspec")
    assert (settings.decoding.slots, settings.decoding.draft_length) == (1, 10)
