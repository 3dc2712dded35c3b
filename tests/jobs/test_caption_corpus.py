"""The job script as people meet it: messages, exit codes, the last line."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jobs import caption_corpus
from pipeline.increments import Retry
from pipeline.lock import hold
from pipeline.summary import RunSummary, nothing_new
from tests.pipeline.videos import write_video

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "jobs" / "caption_corpus.py"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write_video(tmp_path / "videos" / "a.mp4", brightness=50)
    path = tmp_path / "job.yaml"
    path.write_text(f"source: {{prefix: {tmp_path / 'videos'}}}\noutput: {tmp_path / 'out'}\n")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = caption_corpus.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_bad_setting_is_one_message_and_exit_2(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "--config", config, "--set", "decoding.keeep=1")
    assert (code, out) == (2, "")
    assert err == (
        "error: decoding.keeep = 1: there is no such setting; did you mean decoding.keep?\n"
    )


def test_a_missing_source_is_exit_2(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "--config", config, "--set", "source.prefix=/nowhere")
    assert code == 2
    assert err == "error: source.prefix: there is no folder, prefix or file /nowhere\n"


def test_a_dry_run_counts(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--config", config, "--dry-run")
    assert code == 0
    assert out.startswith("1 clip in the source, 0 already in ")
    assert out.endswith("1 would be captioned\n")


def test_a_dry_run_as_json(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--config", config, "--dry-run", "--json")
    found = json.loads(out)
    assert (found["dry_run"], found["listed"], found["planned"], found["held"]) == (True, 1, 1, 0)
    assert (found["unfinished_run"], found["deleted"], found["deleted_uris"]) == (None, 0, [])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], None),
        (["--retry-failed"], Retry()),
        (["--retry-failed=no_frames, read_failed"], Retry(frozenset({"no_frames", "read_failed"}))),
    ],
)
def test_failed_clips_are_tried_again_as_asked(
    config: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: Retry | None
) -> None:
    asked: list[Retry | None] = []

    def note(settings: object, retry: Retry | None, **_: object) -> RunSummary:
        asked.append(retry)
        return nothing_new("o", "f", 0, {})

    monkeypatch.setattr(caption_corpus, "caption_corpus", note)
    assert caption_corpus.main(["--config", str(config), *arguments]) == 0
    assert asked == [expected]


def test_an_unknown_code_to_retry_is_refused_with_the_known_ones(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run(capsys, "--config", config, "--retry-failed=no_frames,decode_timout")
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert "no such error code: decode_timout; known: " in err
    assert "decode_timeout" in err
    assert "too_long" in err


def test_the_printed_config_loads(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, printed, _ = run(capsys, "--config", config, "--print-config")
    config.write_text(printed)
    assert run(capsys, "--config", config, "--print-config")[1] == printed


def test_models_of_no_supported_family_are_refused_with_the_reason(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"model_type": "llava_next_video"}')
    target = f"models.target={tmp_path / 'other'}"
    code, _, err = run(capsys, "--config", config, "--set", target)
    assert code == 2
    assert "family llava_next_video, which is not supported" in err
    assert not list((tmp_path / "out").rglob("checkpoint"))


def test_too_many_errors_is_exit_3(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = RunSummary(
        run_id="r", output="o", fingerprint="f", manifest_rows=10, succeeded=9, failed=1,
        failed_by_code={"empty_file": 1}, tokens=90, mean_accepted_length=3.0,
        draft_acceptance_rate=0.3, speedup=2.0, clips_per_s=1.0, seconds_by_stage={},
    )  # fmt: skip
    monkeypatch.setattr(caption_corpus, "caption_corpus", lambda settings, **_: summary)
    code, out, err = run(capsys, "--config", config, "--json")
    assert code == 3
    assert "10.0% of the clips failed, run.max_error_share is 5.0%" in err
    assert json.loads(out.splitlines()[-1])["failed_by_code"] == {"empty_file": 1}
    assert run(capsys, "--config", config, "--set", "run.max_error_share=0.1")[0] == 0


def test_an_output_in_use_is_exit_5_and_names_its_owner(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold(str(tmp_path / "out"), {}, print):
        code, out, err = run(capsys, "--config", config)
    assert (code, out) == (5, "")
    assert err.startswith(f"error: {tmp_path / 'out'} is in use by ")
    assert re.search(rf"\(pid {os.getpid()}\), for \d+ s, last heard from \d+ s ago", err)
    assert not (tmp_path / "out").exists()


def test_the_table_says_where_the_dataset_is() -> None:
    assert caption_corpus.table(nothing_new("s3://b/out", "f", 7, {})).splitlines() == [
        "clips          0",
        "already there  7",
        "dataset        s3://b/out/captions",
    ]


def test_the_table_counts_flagged_captions_where_there_are_any() -> None:
    flagged = replace(nothing_new("s3://b/out", "f", 0, {}), degenerate=3)
    assert "degenerate  3 (column `degenerate`)" in caption_corpus.table(flagged).splitlines()


def test_it_runs_from_any_folder_without_installation(config: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), "--config", str(config), "--dry-run"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "1 would be captioned" in done.stdout
