"""Runs of the whole job with a scripted captioner, and what they left."""

import io
from pathlib import Path
from typing import Any

import pyarrow.dataset as pds

from pipeline.config import JobSettings, apply_assignments, parse_config
from pipeline.corpus import caption_corpus
from pipeline.increments import Retry
from pipeline.summary import RunSummary
from tests.pipeline.fakes import FAKE


def settings(folder: Path, *assignments: str) -> JobSettings:
    """From <folder>/videos into <folder>/out, four clips per commit."""
    tree = {
        "source": {"prefix": str(folder / "videos")},
        "output": str(folder / "out"),
        "run": {"rows_per_commit": 4},
        "models": {"target": "scripted"},
    }
    return parse_config(apply_assignments(tree, assignments))


def caption(config: JobSettings, retry: Retry | None = None) -> tuple[RunSummary, str]:
    """The run's summary and what it said."""
    out = io.StringIO()
    return caption_corpus(config, retry=retry, backend=FAKE, out=out), out.getvalue()


def rows(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Published rows: kind is captions or errors."""
    files = sorted(str(path) for path in (folder / "out" / kind).rglob("*.parquet"))
    return pds.dataset(files).to_table().to_pylist() if files else []
