"""Is a published dataset what its runs wrote? Every file, count and id is looked at again.

What is trusted is what publish wrote down (`runs/<id>/files.json`), and it is compared with what
the files, the plan and the summary say, so that a change to any one of them shows.
"""

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.dataset import Dataset
from pipeline.planning import read_counts
from pipeline.record import FileRecord, RunRecord, read_record
from pipeline.schema import CAPTIONS, ERRORS, LATER_COLUMNS, SAMPLES
from pipeline.stages.plan import Ids, as_ids, raw_id
from pipeline.summary import figures
from pipeline.transient import StorageUnavailableError

READ_BYTES = 8 << 20
NAMED_IDS = 10
KINDS = {"captions": CAPTIONS, "errors": ERRORS, "samples": SAMPLES}
STATUS = {"captions": "ok", "errors": "error", "samples": "ok"}

CODES = {
    "missing_file": "a published file is gone",
    "unknown_file": "a file that no run wrote",
    "truncated_file": "a file is shorter than what was written",
    "changed_file": "a file's bytes are not those that were written",
    "unreadable_file": "a file is no Parquet file",
    "wrong_schema": "a file's columns are not the dataset's (docs/schema.md)",
    "wrong_count": "two places that count the same rows disagree",
    "wrong_rows": "rows of another run, of another status, or not sorted by clip id",
    "doubled_id": "a clip id is in the dataset more than once",
    "unknown_run": "a folder that belongs to no run of this dataset",
    "no_record": "a run without runs/<id>/files.json, or with one that cannot be read",
    "unfinished_run": "a run that was not published to its end: run the job again",
}


@dataclass(frozen=True)
class Finding:
    """Something wrong. `code` is one of CODES, `where` a path below the dataset or a run id."""

    code: str
    where: str
    message: str

    def __post_init__(self) -> None:
        assert self.code in CODES


@dataclass
class Verified:
    """What was looked at, and what is wrong with it."""

    runs: int = 0
    files: int = 0
    rows: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def verify(dataset: Dataset) -> Verified:
    """Read all published files of a dataset. Memory: 16 bytes per row, and one file's ids."""
    result, ids = Verified(), list[tuple[str, Ids]]()
    planned, published = set(dataset.planned_runs()), set(dataset.published_runs())
    for run_id in sorted(planned | published | set(dataset.runs_with_rows())):
        files = _Files(dataset, run_id, result, ids)
        if run_id not in planned:
            files.find("unknown_run", run_id, "there is no such run; was a folder copied here?")
            files.read_unrecorded(None)
        elif run_id not in published:
            files.find("unfinished_run", run_id, "run the job again, it will finish it")
            files.read_unrecorded(None)
        else:
            result.runs += 1
            _verify_run(dataset, run_id, files)
    result.findings += _doubled(ids)
    return result


def _verify_run(dataset: Dataset, run_id: str, files: "_Files") -> None:
    try:
        record = read_record(dataset, run_id)
        why = "there is none"
    except (KeyError, TypeError, ValueError) as error:
        record, why = None, f"{type(error).__name__}: {error}"
    if record is None:
        files.find("no_record", f"runs/{run_id}/files.json", why)
    before = files.num_findings()
    files.read_unrecorded(record)
    if record is not None:
        for file in record.files:
            files.read(file)
        are_sound = files.num_findings() == before
        for message in _miscounts(dataset, run_id, record, are_sound):
            files.find("wrong_count", run_id, message)


def _miscounts(dataset: Dataset, run_id: str, record: RunRecord, are_sound: bool) -> Iterator[str]:
    """What disagrees with the record: the plan, and the summary. `are_sound`: the files can be
    read.
    """
    counts, rows = read_counts(dataset, run_id), record.captions + record.errors
    if counts is None or counts.planned != rows:
        yield f"{rows} rows were published, counts.json says {counts and counts.planned}"
    planned = sum(
        pq.read_metadata(path, filesystem=dataset.fs).num_rows
        for folder in ("manifest", "uncut")
        for path in dataset.parquet_files(dataset.run(run_id, folder))
    )
    if planned != rows:
        yield f"{rows} rows were published, its manifest has {planned}"
    summary = dataset.read_json(dataset.run(run_id, "summary.json")) or {}
    told = {"manifest_rows": rows, "succeeded": record.captions, "failed": record.errors}
    left = {
        kind: sum(f.rows for f in record.files if f.path.startswith(kind))
        for kind in ("captions", "errors")
    }
    none_replaced = left == {"captions": record.captions, "errors": record.errors}
    if are_sound and none_replaced:
        told |= figures(dataset, run_id)
    for name, value in told.items():
        if summary.get(name) != value:
            yield f"summary.json says {name} = {summary.get(name)}, the files say {value}"
    if any(left[kind] > getattr(record, kind) for kind in left):
        yield f"files.json lists more rows than were published: {left}"


class _Files:
    """Reads the published files of one run, and notes what is wrong and which ids are there."""

    def __init__(
        self, dataset: Dataset, run_id: str, result: Verified, ids: list[tuple[str, Ids]]
    ) -> None:
        self._dataset, self._run_id, self._result, self._ids = dataset, run_id, result, ids

    def num_findings(self) -> int:
        return len(self._result.findings)

    def find(self, code: str, where: str, message: str) -> None:
        self._result.findings.append(Finding(code, where, message))

    def read_unrecorded(self, record: RunRecord | None) -> None:
        """Files that no record names; without any record they are read all the same."""
        known = set() if record is None else {file.path for file in record.files}
        for kind in KINDS:
            folder = self._dataset.path(kind, f"run={self._run_id}")
            for path in self._dataset.parquet_files(folder):
                below = path[len(self._dataset.root) :].lstrip("/")
                if below not in known:
                    if record is not None:
                        self.find("unknown_file", below, "no run wrote it")
                    self._read_rows(below)

    def read(self, file: FileRecord) -> None:
        self._result.files += 1
        path = self._dataset.path(file.path)
        if not self._dataset.exists(path):
            self.find("missing_file", file.path, f"it had {file.rows} rows")
            return
        size, digest = self._digest(path)
        if size < file.bytes:
            message = f"{size} bytes, {file.bytes} were written"
            self.find("truncated_file", file.path, message)
        elif digest != file.sha256:
            self.find("changed_file", file.path, "its checksum is another than when written")
        rows = self._read_rows(file.path, say_unreadable=digest == file.sha256)
        if rows is not None and rows != file.rows:
            self.find("wrong_count", file.path, f"{rows} rows, files.json says {file.rows}")

    def _digest(self, path: str) -> tuple[int, str]:
        size, digest = 0, hashlib.sha256()
        with self._dataset.fs.open_input_stream(path) as stream:
            while data := stream.read(READ_BYTES):
                size += len(data)
                digest.update(data)
        return size, digest.hexdigest()

    def _read_rows(self, below: str, say_unreadable: bool = True) -> int | None:
        """How many rows; None where the file cannot be read."""
        kind = below.split("/", 1)[0]
        try:
            with self._dataset.fs.open_input_file(self._dataset.path(below)) as file:
                parquet = pq.ParquetFile(file)
                schema = parquet.schema_arrow
                odd = set[pa.Field]()
                if not schema.equals(KINDS[kind]):
                    odd = set(schema).symmetric_difference(KINDS[kind])
                    odd = {column for column in odd if column.name not in LATER_COLUMNS}
                if odd:
                    self.find("wrong_schema", below, ", ".join(sorted(str(f) for f in odd)))
                wanted = {"clip_id", "run_id", "status"} & set(schema.names)
                table = parquet.read(columns=sorted(wanted))
        except StorageUnavailableError:
            raise
        except (OSError, pa.ArrowException) as error:
            if say_unreadable:
                self.find("unreadable_file", below, str(error).splitlines()[0])
            return None
        self._result.rows += table.num_rows if kind != "samples" else 0
        if "clip_id" in wanted:
            clips = table["clip_id"].to_pylist()
            if kind != "samples":  # those are there among the captions, too
                self._ids.append((below, as_ids(b"".join(map(raw_id, clips)))))
            if clips != sorted(clips):
                self.find("wrong_rows", below, "not sorted by clip id")
        for column, right in (("run_id", self._run_id), ("status", STATUS[kind])):
            if column in wanted and set(table[column].to_pylist()) - {right}:
                self.find("wrong_rows", below, f"{column} is not {right} in every row")
        return table.num_rows


def _doubled(ids: list[tuple[str, Ids]]) -> Iterator[Finding]:
    """Ids that are there twice, with the files that hold the first of them."""
    if not ids:
        return
    everything = np.sort(np.concatenate([found for _, found in ids]))
    twice = np.unique(everything[1:][everything[1:] == everything[:-1]])
    if not len(twice):
        return
    for one in twice[:NAMED_IDS]:
        places = [path for path, found in ids for _ in range(int((found == one).sum()))]
        yield Finding("doubled_id", str(uuid.UUID(bytes=one.ljust(16, b"\0"))), ", ".join(places))
    if len(twice) > NAMED_IDS:
        more = f"and {len(twice) - NAMED_IDS} more of {len(twice)} doubled ids"
        yield Finding("doubled_id", "...", more)
