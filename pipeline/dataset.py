"""Where everything of a dataset lies, and which runs it has.

    <output>/dataset.json                  the settings whose captions this dataset holds
    <output>/captions/run=<id>/            published captions; `_SUCCESS` is written last
    <output>/errors/run=<id>/              clips that failed, with the reason
    <output>/samples/run=<id>/             frames, tokens and audits of a few captioned clips
    <output>/deleted.parquet               rows whose videos the source no longer has
    <output>/shards/                       what is in tar shards, so that they are read once
    <output>/lock.json                     the driver that works on it now
    <output>/runs/<id>/run.json            written last by plan: from then on the run exists
    <output>/runs/<id>/videos/, cuts/      its videos and where to cut them, where clips are cut
    <output>/runs/<id>/manifest/           its clips; counts.json is written last
    <output>/runs/<id>/uncut/              error rows of videos that could not be cut
    <output>/runs/<id>/rows/, checkpoint/  staged rows and the ids that are committed (Ray Data)
    <output>/runs/<id>/files.json          rows, bytes and checksum of each published file
    <output>/runs/<id>/summary.json        counts and rates of the run

A run is unfinished while it has a run.json and no _SUCCESS.
"""

import json
import posixpath
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.fs
import pyarrow.parquet as pq

from pipeline.config import StorageOptions
from pipeline.storage import arrow_filesystem

COMPRESSION = "zstd"
KINDS = ("captions", "errors", "samples")  # folders of published files


def new_run_id() -> str:
    """Sorts by time; the tail keeps two drivers apart."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


@dataclass(frozen=True)
class Dataset:
    """A dataset's folder on any storage; paths are inside `fs`."""

    fs: pyarrow.fs.FileSystem
    root: str

    @classmethod
    def open(cls, output: str, storage: StorageOptions) -> "Dataset":
        fs, root = arrow_filesystem(output, storage)
        return cls(fs, root.rstrip("/"))

    def path(self, *parts: str) -> str:
        return posixpath.join(self.root, *parts)

    def captions(self, run_id: str) -> str:
        return self.path("captions", f"run={run_id}")

    def errors(self, run_id: str) -> str:
        return self.path("errors", f"run={run_id}")

    def samples(self, run_id: str) -> str:
        return self.path("samples", f"run={run_id}")

    def run(self, run_id: str, *parts: str) -> str:
        return self.path("runs", run_id, *parts)

    def success(self, run_id: str) -> str:
        return posixpath.join(self.captions(run_id), "_SUCCESS")

    def exists(self, path: str) -> bool:
        return self.fs.get_file_info(path).type != pyarrow.fs.FileType.NotFound

    def is_published(self, run_id: str) -> bool:
        return self.exists(self.success(run_id))

    def unfinished_runs(self) -> list[str]:
        """Ids of runs that were planned and not published, oldest first."""
        return [run_id for run_id in self.planned_runs() if not self.is_published(run_id)]

    def planned_runs(self) -> list[str]:
        """Ids of all runs, oldest first."""
        return [r for r in self._children("runs") if self.exists(self.run(r, "run.json"))]

    def runs_with_rows(self) -> list[str]:
        """Ids of runs that have a folder among the captions or errors, published or not."""
        names = (n for folder in KINDS for n in self._children(folder))
        return sorted({name.removeprefix("run=") for name in names})

    def published_runs(self) -> list[str]:
        """Ids of published runs, oldest first."""
        ids = [name.removeprefix("run=") for name in self._children("captions")]
        return [run_id for run_id in ids if self.is_published(run_id)]

    def _children(self, folder: str) -> list[str]:
        selector = pyarrow.fs.FileSelector(self.path(folder), allow_not_found=True)
        return sorted(info.base_name for info in self.fs.get_file_info(selector))

    def parquet_files(self, folder: str) -> list[str]:
        """Parquet files directly in a folder, sorted by name; none when there is no such folder."""
        selector = pyarrow.fs.FileSelector(folder, allow_not_found=True)
        infos = self.fs.get_file_info(selector)
        return sorted(info.path for info in infos if info.base_name.endswith(".parquet"))

    def scan(self, files: list[str], schema: pa.Schema) -> pds.Dataset:
        """Files of one schema as one pyarrow dataset (none is an empty one)."""
        return pds.dataset(files, schema=schema, filesystem=self.fs, format="parquet")

    def read_json(self, path: str) -> dict[str, Any] | None:
        """A JSON object, or None when there is no such file."""
        if not self.exists(path):
            return None
        with self.fs.open_input_stream(path) as stream:
            return json.loads(stream.read())

    def write_json(self, path: str, value: dict[str, Any]) -> None:
        self.write_bytes(path, (json.dumps(value, indent=2) + "\n").encode())

    def write_bytes(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write a file so that a reader sees the whole of it or nothing."""
        self.fs.create_dir(posixpath.dirname(path), recursive=True)
        with self.fs.open_output_stream(f"{path}.tmp") as stream:
            stream.write(data)
        self.fs.move(f"{path}.tmp", path)

    def write_parquet(self, path: str, table: pa.Table) -> None:
        """Write one file so that a reader sees the whole of it or nothing."""
        self.fs.create_dir(posixpath.dirname(path), recursive=True)
        pq.write_table(table, f"{path}.tmp", filesystem=self.fs, compression=COMPRESSION)
        self.fs.move(f"{path}.tmp", path)

    def remove_folder(self, folder: str) -> None:
        if self.exists(folder):
            self.fs.delete_dir(folder)
