"""The questions of a benchmark, read from its own data set's fields.

Open captions (VideoDetailCaption, VideoDetailDescription, MovieChat): `video_name`, `question`,
`answer`. Multiple choice (Video-MME): `videoID`, `question_id`, `question`, `options` ("A. ..."),
`answer` (a letter).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline.errors import SourceError
from pipeline.evaluation.settings import BenchmarkSettings

SUFFIXES = ("", ".mp4", ".MP4", ".mkv", ".webm", ".mov", ".avi")
INSTRUCTION = (
    "Select the best answer to the following multiple-choice question based on the video. "
    "Respond with only the letter (A, B, C, or D) of the correct option."
)
CLOSING = "The best answer is:"
_OPTION = re.compile(r"^[A-Z]\. ")


@dataclass(frozen=True)
class Item:
    """One question about one video. reference: the data set's answer, a letter or a text."""

    id: str
    video: str
    prompt: str
    question: str
    reference: str


def read_items(benchmark: BenchmarkSettings) -> list[Item]:
    """The benchmark's items, in the file's order. Raises `SourceError` that names file and row."""
    path = Path(benchmark.items)
    try:
        rows = _rows(path)
    except (OSError, ValueError) as error:
        raise SourceError(f"benchmark {benchmark.name}: {path} cannot be read: {error}") from error
    rows = rows[: benchmark.limit]
    make = _choice if benchmark.kind == "multiple_choice" else _caption
    items: list[Item] = []
    for number, row in enumerate(rows):
        try:
            items.append(make(number, row, Path(benchmark.videos)))
        except (KeyError, ValueError) as error:
            raise SourceError(
                f"benchmark {benchmark.name}: {path}, row {number}: {error}; a {benchmark.kind} "
                "item needs " + ", ".join(_FIELDS[benchmark.kind])
            ) from error
    if len({item.id for item in items}) < len(items) or not items:
        raise SourceError(f"benchmark {benchmark.name}: {path}: no items, or two with one id")
    return items


_FIELDS = {
    "caption": ("video_name", "question", "answer"),
    "multiple_choice": ("videoID", "question_id", "question", "options", "answer"),
}


def _rows(path: Path) -> list[Mapping[str, Any]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def _caption(number: int, row: Mapping[str, Any], videos: Path) -> Item:
    question = str(row["question"])
    video = str(row["video_name"])
    return Item(f"{number}:{video}", find(videos, video), question, question, str(row["answer"]))


def _choice(number: int, row: Mapping[str, Any], videos: Path) -> Item:
    options = [str(option) for option in row["options"]]
    if not options or not all(_OPTION.match(option) for option in options):
        raise ValueError(f"options {options} do not begin with their letters")
    answer = str(row["answer"])
    if answer not in [option[0] for option in options]:
        raise ValueError(f"answer {answer!r} is no option's letter")
    question = str(row["question"])
    prompt = "\n".join([INSTRUCTION, question, *options, CLOSING])
    return Item(
        str(row["question_id"]), find(videos, str(row["videoID"])), prompt, question, answer
    )


def find(videos: Path, name: str) -> str:
    """The file of a video that a data set names with or without its suffix; where there is none,
    the name itself, which then fails as that item's error.
    """
    found = (videos / f"{name}{suffix}" for suffix in SUFFIXES)
    return str(next((path for path in found if path.is_file()), videos / name))


def letter(text: str) -> str:
    """The option that an answer names, "" where it names none.

    >>> letter("B"), letter("(C) red."), letter("The best answer is: D."), letter("A red ring.")
    ('B', 'C', 'D', '')
    """
    stripped = text.strip()
    match = re.match(r"^\W*([A-Z])(?:\W*$|[.):,])", stripped)
    match = match or re.match(
        r"^(?:the )?(?:best |correct )?(?:answer|option)(?: is)?\W*([A-Z])\b", stripped, re.I
    )
    return match.group(1).upper() if match else ""
