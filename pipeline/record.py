"""What a run published, file by file: runs/<id>/files.json, by which a dataset can be verified.

A later run may take rows out of earlier files (a new version of a clip); it then corrects their
entries, before the file itself: a kill in between leaves a run that is not finished, and finishing
it does both again.
"""

import hashlib
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.dataset import COMPRESSION, Dataset

FILES = "files.json"


@dataclass(frozen=True)
class FileRecord:
    """`path` is below the dataset's root."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class RunRecord:
    """`captions` and `errors` are the rows as published; `files` what of them is there now."""

    captions: int
    errors: int
    files: tuple[FileRecord, ...]

    def with_file(self, path: str, file: FileRecord | None) -> "RunRecord":
        """With another entry for `path`, or none."""
        entries = (file if old.path == path else old for old in self.files)
        return replace(self, files=tuple(entry for entry in entries if entry is not None))


def read_record(dataset: Dataset, run_id: str) -> RunRecord | None:
    """Raises KeyError, TypeError or ValueError for one that is no record."""
    values = dataset.read_json(dataset.run(run_id, FILES))
    if values is None:
        return None
    files = tuple(FileRecord(**file) for file in values["files"])
    return RunRecord(values["captions"], values["errors"], files)


def write_record(dataset: Dataset, run_id: str, record: RunRecord) -> None:
    dataset.write_json(dataset.run(run_id, FILES), asdict(record))


def write_part(dataset: Dataset, path: str, table: pa.Table) -> FileRecord:
    """Write one published file; the record is of the bytes that were meant, not read back."""
    record, data = encode_part(dataset, path, table)
    dataset.write_bytes(path, data)
    return record


def encode_part(dataset: Dataset, path: str, table: pa.Table) -> tuple[FileRecord, pa.Buffer]:
    """The bytes of a published file and what the record says of them."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=COMPRESSION)
    data = sink.getvalue()
    below = path[len(dataset.root) :].lstrip("/")
    digest = hashlib.sha256(data).hexdigest()
    return FileRecord(below, table.num_rows, data.size, digest), data
