"""The real `lmms-eval` command with our engine as its model, in its own environment."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from pipeline.evaluation import demo

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("LMMS_EVAL", ROOT / ".venv-eval" / "bin" / "lmms-eval"))


def lmms_eval(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    tasks = ["--include_path", str(ROOT / "pipeline" / "evaluation" / "lmms_tasks")]
    names = ["--tasks", "lvspec_demo_captions,lvspec_demo_choices"]
    return subprocess.run(
        [str(COMMAND), "--model", "lvspec", *tasks, *names, *options],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.skipif(not COMMAND.exists(), reason="no LMMs-Eval here: make eval-env")
def test_the_command_line_scores_both_tasks_and_logs_how_each_was_decoded(tmp_path: Path) -> None:
    demo.write(tmp_path / "eval_demo", scenes=3)
    arguments = "decoding.policy.name=exact,decoding.draft_length=8,frames.count=8"
    done = lmms_eval(
        tmp_path,
        *("--model_args", arguments, "--batch_size", "2", "--log_samples", "--output_path", "out"),
    )
    assert "lvspec_demo_captions" in done.stdout, done.stderr
    (results,) = (tmp_path / "out").rglob("*results.json")
    scores = json.loads(results.read_text())["results"]
    assert scores["lvspec_demo_captions"]["content_kept,none"] > 0.3
    assert "accuracy,none" in scores["lvspec_demo_choices"]
    log = (tmp_path / "lvspec_statistics.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in log]
    asked = sorted((line["task"], line["doc_id"]) for line in lines)
    tasks = ("lvspec_demo_captions", "lvspec_demo_choices")
    assert asked == [(task, doc) for task in tasks for doc in range(3)]
    assert all(line["num_draft_tokens"] == 8 * line["num_spec_steps"] for line in lines)
    wrong = lmms_eval(tmp_path, "--model_args", "decoding.kepe=0.2")
    assert "did you mean decoding.keep?" in wrong.stdout + wrong.stderr
