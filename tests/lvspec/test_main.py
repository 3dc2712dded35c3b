"""`python -m lvspec caption`."""

import json
import re
import subprocess
import sys

import pytest

from lvspec import demo
from lvspec.__main__ import COLORS, main
from lvspec.demo import video


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    video.write(next(demo.heldout(3)), path)
    return path


def test_the_command_as_a_process(file):
    command = [sys.executable, "-m", "lvspec", "caption", str(file), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["finish_reason"] == "stop" and len(result["text"].split()) > 20
    assert result["stats"]["mean_accepted_length"] > 1
    assert len(result["reasons"]) == len(result["token_ids"])
    assert done.stderr == ""


def test_tokens_are_coloured_by_why_they_were_accepted(file, capsys):
    assert main(["caption", str(file), "--color", "never"]) == 0
    plain = capsys.readouterr().out.splitlines()[0]
    assert main(["caption", str(file), "--color", "always"]) == 0
    colored = capsys.readouterr().out.splitlines()[0]
    assert re.sub("\033\\[[0-9]+m", "", colored).strip() == plain
    for reason in ("exact", "loose", "target"):
        assert f"\033[{COLORS[reason]}m" in colored


def test_policies_and_drafters(file, capsys):
    texts = []
    for extra in (["--policy", "exact"], ["--drafter", "none"], ["--drafter", "lookup"]):
        assert main(["caption", str(file), "--json", *extra]) == 0
        texts.append(json.loads(capsys.readouterr().out)["text"])
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["missing.mp4"], ["missing.mp4"]),
        (["{file}", "--draft-length", "0"], ["draft_length = 0", "1 to 64"]),
        (["{file}", "--target", "/nowhere/model"], ["/nowhere/model", "no such folder"]),
        (["{file}", "--prompt", "<|im_end|>"], ["control tokens"]),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_2(file, capsys, arguments, words):
    assert main(["caption", *(a.format(file=file) for a in arguments)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and all(word in line for word in words)
