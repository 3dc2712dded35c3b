"""Publishing staged rows: proof first, bounded sorted parts, and the same result when repeated."""

import uuid
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
import pytest

from pipeline.dataset import Dataset
from pipeline.errors import ReconciliationError
from pipeline.publish import mark_success, publish
from pipeline.schema import CAPTIONS, MANIFEST, ROWS

IDS = [str(uuid.uuid5(uuid.NAMESPACE_URL, str(i))) for i in range(200)]
WHOLE = 1 << 30


def row(clip: str, run: str, **more: Any) -> dict[str, Any]:
    base = {"clip_id": clip, "uri": f"/v/{clip}", "source_version": "v1", "run_id": run}
    return {**base, "status": "ok", "caption": f"caption of {clip} by {run}", **more}


def stage(dataset: Dataset, run: str, planned: list[str], rows: list[dict[str, Any]]) -> None:
    """What plan and caption leave behind, in files of 20 rows."""
    manifest = [{"clip_id": c, "uri": f"/v/{c}", "source_version": "v1"} for c in planned]
    table = pa.Table.from_pylist(manifest, schema=MANIFEST)
    dataset.write_parquet(dataset.run(run, "manifest", "part-0.parquet"), table)
    for start in range(0, len(rows), 20):
        table = pa.Table.from_pylist(rows[start : start + 20], schema=ROWS)
        dataset.write_parquet(dataset.run(run, "rows", f"f{start}.parquet"), table)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return Dataset.open(str(tmp_path), {})


def captions(dataset: Dataset) -> list[dict[str, Any]]:
    return pds.dataset(dataset.path("captions"), partitioning="hive").to_table().to_pylist()


def test_parts_are_bounded_and_sorted_across_files(dataset: Dataset) -> None:
    error = {"status": "error", "error_stage": "decode", "error_code": "empty_file"}
    rows = [row(clip, "r1", **(error if i % 50 == 0 else {})) for i, clip in enumerate(IDS)]
    stage(dataset, "r1", IDS, rows)
    staged = dataset.parquet_files(dataset.run("r1", "rows"))
    size = sum(Path(path).stat().st_size for path in staged)
    done = publish(dataset, "r1", part_bytes=size // 4)
    assert (done.captions, done.errors) == (196, 4)
    parts = dataset.parquet_files(dataset.captions("r1"))
    assert 4 <= len(parts) <= 5
    ids = [clip for path in parts for clip in pq.read_table(path)["clip_id"].to_pylist()]
    assert ids == sorted(ids)
    assert len(ids) == 196
    assert pq.read_metadata(parts[0]).row_group(0).column(0).compression == "ZSTD"
    assert all(Path(path).stat().st_size <= size // 4 for path in parts)
    assert len(dataset.parquet_files(dataset.errors("r1"))) == 1  # 2 % of the rows: a part of them
    errors = pds.dataset(dataset.errors("r1")).to_table().to_pylist()
    assert {row["error_code"] for row in errors} == {"empty_file"}


def test_repeating_it_changes_nothing(dataset: Dataset) -> None:
    stage(dataset, "r1", IDS, [row(clip, "r1") for clip in IDS])
    publish(dataset, "r1", part_bytes=WHOLE)
    first = captions(dataset)
    publish(dataset, "r1", part_bytes=WHOLE)
    assert captions(dataset) == first


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows[1:], f"1 missing: {IDS[0]}"),
        (lambda rows: [*rows, rows[0]], f"1 doubled: {IDS[0]}"),
        (lambda rows: [*rows, row(str(uuid.uuid4()), "r1")], "1 not planned: "),
        (lambda rows: [], "30 missing: "),
    ],
)
def test_rows_that_are_not_the_plan_are_named(dataset: Dataset, change: Any, expected: str) -> None:
    rows = [row(clip, "r1") for clip in IDS[:30]]
    stage(dataset, "r1", IDS[:30], change(rows))
    with pytest.raises(ReconciliationError, match=expected):
        publish(dataset, "r1", part_bytes=WHOLE)
    assert not dataset.exists(dataset.captions("r1"))


def test_a_new_version_of_a_clip_takes_the_place_of_the_old_one(dataset: Dataset) -> None:
    stage(dataset, "r1", IDS[:4], [row(clip, "r1") for clip in IDS[:4]])
    publish(dataset, "r1", part_bytes=WHOLE)
    mark_success(dataset, "r1")
    again = [IDS[1], IDS[9]]
    stage(dataset, "r2", again, [row(clip, "r2") for clip in again])
    assert publish(dataset, "r2", part_bytes=WHOLE).replaced == 1
    by_run = {r["clip_id"]: r["run_id"] for r in captions(dataset)}
    assert len(captions(dataset)) == 5
    assert by_run == {IDS[0]: "r1", IDS[1]: "r2", IDS[2]: "r1", IDS[3]: "r1", IDS[9]: "r2"}


def test_every_reader_reads_it_although_columns_are_all_null(dataset: Dataset) -> None:
    for run, clips in (("r1", IDS[:3]), ("r2", IDS[3:5])):
        prompt = {"prompt": "Why?"} if run == "r2" else {}
        stage(dataset, run, clips, [row(clip, run, **prompt) for clip in clips])
        publish(dataset, run, part_bytes=WHOLE)
        mark_success(dataset, run)
    table = pds.dataset(dataset.path("captions"), partitioning="hive").to_table()
    assert [table.schema.field(f.name).type for f in CAPTIONS] == [f.type for f in CAPTIONS]
    glob = dataset.path("captions", "**", "*.parquet")
    query = f"select run, count(*), count(start_s), count(prompt) from '{glob}' group by run"
    assert sorted(duckdb.sql(query).fetchall()) == [("r1", 3, 0, 0), ("r2", 2, 0, 2)]
    frame = pl.read_parquet(glob, hive_partitioning=True)
    assert frame.height == 5
    assert frame.schema["start_s"] == pl.Float64
    assert frame["prompt"].null_count() == 3


def test_two_drivers_on_one_output_leave_each_clip_once(dataset: Dataset) -> None:
    """Both planned the same clips before either published."""
    for run in ("r1", "r2"):
        stage(dataset, run, IDS[:3], [row(clip, run) for clip in IDS[:3]])
    for run in ("r1", "r2"):
        publish(dataset, run, part_bytes=WHOLE)
        mark_success(dataset, run)
    assert sorted(r["clip_id"] for r in captions(dataset)) == sorted(IDS[:3])
