"""Verifying a published dataset: whole ones pass, and each kind of damage is found and named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs import verify_dataset
from pipeline.dataset import Dataset
from pipeline.increments import Deleted
from pipeline.publish import mark_success, publish
from pipeline.record import write_record
from pipeline.summary import summarize
from pipeline.verify import CODES, verify
from tests.pipeline.test_publish import IDS, row, stage

ERROR = {"status": "error", "error_stage": "decode", "error_code": "empty_file"}
NIGHTS = {"r1": IDS[:60], "r2": [*IDS[50:55], *IDS[60:70]]}  # the second replaces five clips


def run(dataset: Dataset, run_id: str, clips: list[str]) -> None:
    """A run as the job leaves it, but for what decodes and captions."""
    rows = [row(c, run_id, **(ERROR if i % 10 == 0 else {})) for i, c in enumerate(clips)]
    for one in rows:
        one["num_generated_tokens"] = 7 if one["status"] == "ok" else None
    stage(dataset, run_id, clips, rows)
    dataset.write_json(dataset.run(run_id, "counts.json"), {"planned": len(clips), "uncut": 0})
    dataset.write_json(dataset.run(run_id, "run.json"), {"run_id": run_id})
    published = publish(dataset, run_id, part_bytes=6000)
    summary = summarize(
        dataset, run_id, output="o", fingerprint="f", seconds={"caption": 1.0}, captioned=60,
        replaced=published.replaced, already_held=0, deleted=Deleted(),
    )  # fmt: skip
    dataset.write_json(dataset.run(run_id, "summary.json"), summary.to_json())
    mark_success(dataset, run_id)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    dataset = Dataset.open(str(folder), {})
    dataset.write_json(dataset.path("dataset.json"), {})
    for run_id, clips in NIGHTS.items():
        run(dataset, run_id, clips)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(whole, tmp_path / "d"))


def test_what_the_job_wrote_is_whole(whole: Path) -> None:
    result = verify(Dataset.open(str(whole), {}))
    assert result.findings == []
    kinds = ("captions", "errors", "samples")
    files = [path for kind in kinds for path in whole.glob(f"{kind}/*/*.parquet")]
    assert (result.runs, result.files, result.rows) == (2, len(files), 70)


def parts(folder: Path, run_id: str = "r1", kind: str = "captions") -> list[Path]:
    return sorted((folder / kind / f"run={run_id}").glob("*.parquet"))


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    pq.write_table(change(pq.read_table(path, partitioning=None)), path)


def delete_a_file(folder: Path) -> None:
    parts(folder)[1].unlink()


def truncate_a_file(folder: Path) -> None:
    data = parts(folder)[0].read_bytes()
    parts(folder)[0].write_bytes(data[: len(data) // 2])


def flip_a_byte(folder: Path) -> None:
    data = bytearray(parts(folder)[0].read_bytes())
    data[len(data) // 6] ^= 1  # among the pages; further on it may hit the schema
    parts(folder)[0].write_bytes(data)


def double_a_run(folder: Path) -> None:
    shutil.copytree(folder / "captions" / "run=r2", folder / "captions" / "run=r3")


def double_a_file(folder: Path) -> None:
    shutil.copy(parts(folder)[0], parts(folder)[0].with_name("part-00099.parquet"))


def edit_the_summary(folder: Path) -> None:
    edit(folder / "runs" / "r2" / "summary.json", lambda v: v.update(succeeded=99))


def edit_the_tokens(folder: Path) -> None:
    edit(folder / "runs" / "r2" / "summary.json", lambda v: v.update(tokens=99))


def edit_the_plan(folder: Path) -> None:
    edit(folder / "runs" / "r1" / "counts.json", lambda v: v.update(planned=61))


def edit_the_record(folder: Path) -> None:
    edit(folder / "runs" / "r1" / "files.json", lambda v: v["files"][0].update(rows=1))


def break_the_record(folder: Path) -> None:
    (folder / "runs" / "r1" / "files.json").write_text("{}")


def drop_a_row(folder: Path) -> None:
    rewrite(parts(folder)[0], lambda table: table.slice(1))


def drop_a_column(folder: Path) -> None:
    rewrite(parts(folder)[0], lambda table: table.drop_columns(["speedup"]))


def turn_the_rows(folder: Path) -> None:
    rewrite(parts(folder)[0], lambda table: table.take(list(range(table.num_rows))[::-1]))


def swap_files_of_two_runs(folder: Path) -> None:
    first, second = parts(folder)[0], parts(folder, "r2")[0]
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def stop_before_success(folder: Path) -> None:
    (folder / "captions" / "run=r2" / "_SUCCESS").unlink()


@pytest.mark.parametrize(
    ("damage", "codes"),
    [
        (delete_a_file, {"missing_file"}),
        (truncate_a_file, {"truncated_file"}),
        (flip_a_byte, {"changed_file"}),
        (double_a_run, {"unknown_run", "doubled_id", "wrong_rows"}),
        (double_a_file, {"unknown_file", "doubled_id"}),
        (edit_the_summary, {"wrong_count"}),
        (edit_the_tokens, {"wrong_count"}),
        (edit_the_plan, {"wrong_count"}),
        (edit_the_record, {"wrong_count"}),
        (break_the_record, {"no_record"}),
        (drop_a_row, {"changed_file", "wrong_count"}),
        (drop_a_column, {"changed_file", "wrong_schema"}),
        (turn_the_rows, {"changed_file", "wrong_rows"}),
        (swap_files_of_two_runs, {"changed_file", "wrong_count", "wrong_rows"}),
        (stop_before_success, {"unfinished_run"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_damage_is_found(
    folder: Path,
    damage: Callable[[Path], None],
    codes: set[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(folder)
    found = {finding.code for finding in verify(Dataset.open(str(folder), {})).findings}
    if damage is not truncate_a_file:  # a rewritten file may happen to be shorter, too
        found = {code.replace("truncated", "changed") for code in found}
    assert found == codes
    assert verify_dataset.main([str(folder)]) == 1
    assert len(capsys.readouterr().out.splitlines()) >= 1 + len(codes)


def test_a_doubled_run_is_named_with_its_files(folder: Path) -> None:
    double_a_run(folder)
    findings = verify(Dataset.open(str(folder), {})).findings
    doubled = [finding for finding in findings if finding.code == "doubled_id"]
    assert {finding.where for finding in doubled[:-1]} <= set(NIGHTS["r2"])
    assert "captions/run=r2/part-00000.parquet" in doubled[0].message
    assert "captions/run=r3/part-00000.parquet" in doubled[0].message


def test_the_command(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_dataset.main([str(whole)]) == 0
    assert capsys.readouterr().out.endswith("files, 70 rows: all as written\n")
    config = tmp_path / "job.yaml"
    config.write_text(f"source: {{prefix: v}}\noutput: {whole}\n")
    assert verify_dataset.main(["--config", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []
    assert verify_dataset.main([]) == 2
    assert verify_dataset.main([str(tmp_path / "none")]) == 2
    assert "there is no dataset at" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        verify_dataset.main(["--help"])
    said = capsys.readouterr().out
    assert all(code in said for code in CODES)


def test_a_replaced_clip_killed_in_the_middle_is_put_right_by_publishing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the record of the older run was corrected, before its file was."""
    dataset = Dataset.open(str(tmp_path), {})
    run(dataset, "r1", NIGHTS["r1"])

    def record_and_die(*arguments: Any) -> None:
        write_record(*arguments)
        if arguments[1] == "r1":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pipeline.publish.write_record", record_and_die)
        with pytest.raises(KeyboardInterrupt):
            run(dataset, "r2", NIGHTS["r2"])
    found = {finding.code for finding in verify(dataset).findings}
    assert {"unfinished_run", "changed_file", "doubled_id"} <= found
    run(dataset, "r2", NIGHTS["r2"])
    assert verify(dataset).findings == []
