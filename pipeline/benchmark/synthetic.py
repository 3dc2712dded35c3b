"""A planned run without videos: a manifest of made-up clips, and a decode stage that reads none."""

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.config import JobSettings, apply_assignments, parse_config
from pipeline.dataset import Dataset
from pipeline.planning import Parts
from pipeline.schema import DECODED, MANIFEST
from pipeline.stages.plan import ROWS_PER_FILE

RUN = "benchmark"
_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "lvspec-benchmark")


def clip_ids(start: int, stop: int) -> list[str]:
    """Ids of made-up clips, the same in every run."""
    return [str(uuid.uuid5(_SPACE, str(number))) for number in range(start, stop)]


def write_manifest(folder: Path, rows: int, videos: Sequence[Path] = ()) -> Dataset:
    """A dataset with one planned run of `rows` clips, in files as `write_plan` writes them; they
    are of `videos` in turn, or of none that exists.
    """
    dataset = Dataset.open(str(folder), {})
    write = Parts(dataset, dataset.run(RUN, "manifest"))
    for start in range(0, rows, ROWS_PER_FILE):
        ids = clip_ids(start, min(rows, start + ROWS_PER_FILE))
        columns: dict[str, Any] = {name: [None] * len(ids) for name in MANIFEST.names}
        uris = [
            str(videos[(start + number) % len(videos)]) if videos else f"/nowhere/{clip}.mp4"
            for number, clip in enumerate(ids)
        ]
        columns |= {"clip_id": ids, "uri": uris, "source_version": ["0"] * len(ids)}
        write(pa.table(columns, schema=MANIFEST))
    return dataset


def settings_for(folder: Path, *assignments: str) -> JobSettings:
    """Settings of a job that writes to `folder`, without audits and samples, which are no part of
    what is measured; the rest is the product's default.
    """
    tree = {
        "source": {"prefix": str(folder / "none")},
        "output": str(folder),
        "run": {"audit_share": 0, "samples": 0},
    }
    return parse_config(apply_assignments(tree, assignments))


def no_frames(table: pa.Table, *, run_id: str, **ignored: object) -> Iterator[pa.Table]:
    """In place of decoding: MANIFEST rows in, as many DECODED rows of one grey pixel out."""
    rows = table.num_rows
    given: dict[str, Any] = {name: table[name] for name in MANIFEST.names}
    given |= {
        "run_id": [run_id] * rows,
        "status": ["ok"] * rows,
        "frames": [b"\x80\x80\x80"] * rows,
        "frames_shape": [[1, 1, 1, 3]] * rows,
        "times_s": [[0.0]] * rows,
    }
    columns = [given.get(name, [None] * rows) for name in DECODED.names]
    yield pa.table(
        [
            column.cast(kind) if isinstance(column, pa.ChunkedArray) else pa.array(column, kind)
            for column, kind in zip(columns, DECODED.types, strict=True)
        ],
        schema=DECODED,
    )
