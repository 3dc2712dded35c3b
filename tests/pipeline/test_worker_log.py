"""A job that logs JSON: every line of its stderr, those of its workers included."""

import json
import subprocess
from pathlib import Path

from tests.pipeline.scripted import rows
from tests.pipeline.test_resume import command
from tests.pipeline.videos import write_corpus

OFTEN = {"note", "clip_failed", "progress", "waiting"}  # as often as a busy machine makes them


def test_a_job_s_stderr_is_json_from_driver_and_workers(tmp_path: Path) -> None:
    write_corpus(tmp_path / "videos", good=2)
    secret = ["--set", "storage.s3.secret=canary-in-a-mine"]
    done = subprocess.run(
        [*command(tmp_path, 0.0), "--log-format", "json", *secret],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "canary" not in done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    summary = json.loads(done.stdout.splitlines()[-1])
    assert all({"time", "level", "event", "message"} <= line.keys() for line in lines)
    events = [line["event"] for line in lines]
    assert [event for event in events if event not in OFTEN] == [
        "planned", "starting", "models_loaded", "published",
    ]  # fmt: skip
    of = {line["event"]: line for line in lines}
    assert (of["planned"]["planned"], of["planned"]["run_id"]) == (4, summary["run_id"])
    assert (of["progress"]["done"], of["progress"]["total"]) == (4, 4)
    assert (of["published"]["succeeded"], of["published"]["failed"]) == (2, 2)
    assert isinstance(of["models_loaded"]["pid"], int)
    assert of["models_loaded"]["node"]
    failed = [line for line in lines if line["event"] == "clip_failed"]
    said = {(each["run_id"], each["clip_id"], each["code"], each["message"]) for each in failed}
    assert said == {
        (row["run_id"], row["clip_id"], row["error_code"], row["error_message"])
        for row in rows(tmp_path, "errors")
    }
    assert {(line["stage"], line["level"]) for line in failed} == {("decode", "warning")}


def test_a_bad_setting_is_one_object_with_the_exit_code(tmp_path: Path) -> None:
    done = subprocess.run(
        [*command(tmp_path, 0.0), "--log-format", "json", "--set", "run.no_such=1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (line["event"], line["level"], line["exit_code"]) == ("failed", "error", 2)
    assert "run.no_such" in line["message"]
