"""The log of an evaluation: one JSON line per item and method, appended as answers come.

A kill may tear the last line; it is cut off when the log is opened again, and its item is decoded
again. A log holds answers of one setting.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import FingerprintError


@dataclass(frozen=True)
class Answer:
    """What one method said to one item, or why it could not (`error`, "code: message")."""

    benchmark: str
    item: str
    method: str
    text: str = ""
    token_ids: tuple[int, ...] = ()
    prefill_s: float = 0.0
    decode_s: float = 0.0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    peak_bytes: int = 0
    error: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Which answer this is; each is logged once."""
        return self.benchmark, self.item, self.method


class AnswerLog:
    """The answers so far, in `folder`/answers.jsonl; settings that answers depend on beside it.

    Raises `FingerprintError` where the folder holds answers of other settings.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "answers.jsonl"
        _same_settings(folder / "settings.json", settings)
        self.answers: dict[tuple[str, str, str], Answer] = {}
        whole = 0
        if self.path.exists():
            with self.path.open("rb") as file:
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    row: dict[str, Any] = json.loads(line)
                    row["token_ids"] = tuple(row["token_ids"])
                    answer = Answer(**row)
                    self.answers[answer.key] = answer
                    whole += len(line)
            os.truncate(self.path, whole)

    def add(self, answer: Answer) -> None:
        """Append one answer; it is on disk when this returns."""
        with self.path.open("ab") as file:
            file.write(json.dumps(asdict(answer)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.answers[answer.key] = answer


def _same_settings(path: Path, settings: Mapping[str, Any]) -> None:
    ours: dict[str, Any] = json.loads(json.dumps(settings))  # as JSON gives them back
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(ours, indent=2) + "\n")
        temporary.rename(path)
        return
    theirs: dict[str, Any] = json.loads(path.read_text())
    keys = sorted({*ours, *theirs})
    other = [key for key in keys if ours.get(key) != theirs.get(key)]
    if other:
        shown = "; ".join(f"{k}: {theirs.get(k)!r} there, {ours.get(k)!r} here" for k in other)
        raise FingerprintError(
            f"{path.parent} holds answers of other settings ({shown}): choose another output"
        )
