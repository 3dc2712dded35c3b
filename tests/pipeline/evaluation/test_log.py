"""The log outlives kills and refuses other settings."""

from pathlib import Path

import pytest

from pipeline.errors import FingerprintError
from pipeline.evaluation.log import Answer, AnswerLog


def test_a_torn_line_is_cut_off_and_the_rest_kept(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path, {"decoding": 1})
    first, second = (Answer("b", str(i), "plain", f"ä {i}", (i, 2)) for i in range(2))
    log.add(first)
    log.add(second)
    content = log.path.read_bytes()
    for end in range(len(content)):
        log.path.write_bytes(content[:end])
        kept = AnswerLog(tmp_path, {"decoding": 1})
        whole = content[:end].count(b"\n")
        assert list(kept.answers.values()) == [first, second][:whole]
    kept.add(second)
    assert log.path.read_bytes() == content


def test_another_setting_is_refused_with_the_difference(tmp_path: Path) -> None:
    AnswerLog(tmp_path, {"keep": 0.1, "same": (1, 2)})
    AnswerLog(tmp_path, {"keep": 0.1, "same": (1, 2)})
    with pytest.raises(FingerprintError, match=r"keep: 0\.1 there, 0\.2 here.*another output"):
        AnswerLog(tmp_path, {"keep": 0.2, "same": (1, 2)})
