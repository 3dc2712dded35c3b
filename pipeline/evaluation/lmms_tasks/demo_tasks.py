"""What the task files beside this one call. Paths are meant from the working directory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.evaluation.items import CLOSING, INSTRUCTION, find, letter
from pipeline.evaluation.scoring import content_kept

VIDEOS = Path("eval_demo/videos")


def visual(doc: Mapping[str, Any]) -> list[str]:
    """The item's one video file."""
    return [find(VIDEOS, str(doc.get("video_name") or doc["videoID"]))]


def choice_prompt(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Any = None) -> str:
    """The question as Video-MME asks it."""
    return "\n".join([INSTRUCTION, doc["question"], *doc["options"], CLOSING])


def caption_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Share of the reference's content words that the caption says."""
    return {"content_kept": content_kept(results[0], doc["answer"])}


def choice_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """1 for the right letter."""
    return {"accuracy": float(letter(results[0]) == doc["answer"])}
