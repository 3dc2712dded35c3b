"""A JSONL, CSV or Parquet file with one clip per row: `uri`, optional `video_id, start_s, end_s,
prompt`.

Other columns are ignored, so that `errors/run=<id>/*.parquet` of an earlier run is a manifest too.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow.parquet as pq

from pipeline.config import StorageOptions
from pipeline.errors import SourceError
from pipeline.sources.video_ref import (
    MISSING_VERSION,
    UNKNOWN_VERSION,
    VideoRef,
    size_of,
    source_version,
)
from pipeline.storage import absolute, open_filesystem

CHUNK = 1024  # rows whose files are looked up together
LOOKUP_THREADS = 16  # a look-up waits on the network, not on the CPU


def list_manifest(uri: str, storage: StorageOptions) -> Iterator[VideoRef]:
    """Stream the clips of a manifest, each with the present state of its file.

    A relative `uri` is meant from the manifest's folder. A file that is missing is still a clip: it
    becomes an error row. A row that is malformed raises `SourceError` with its place.
    """
    folder = absolute(uri).rsplit("/", 1)[0]
    rows = (_parse(row, place, folder) for place, row in _rows(uri, storage))
    with ThreadPoolExecutor(LOOKUP_THREADS) as pool:
        while chunk := list(islice(rows, CHUNK)):
            uris = sorted({ref.uri for ref in chunk})
            states = dict(zip(uris, pool.map(lambda u: _state(u, storage), uris), strict=True))
            for ref in chunk:
                size, version = states[ref.uri]
                yield replace(ref, size_bytes=size, source_version=version)


def _state(uri: str, storage: StorageOptions) -> tuple[int | None, str]:
    """Size and version of one file, as far as its storage says."""
    try:
        fs, path = open_filesystem(uri, storage)
        info: Mapping[str, Any] = fs.info(path)
    except FileNotFoundError:
        return None, MISSING_VERSION
    except Exception:  # any client's error, of this one row: decoding meets it again and names it
        return None, UNKNOWN_VERSION
    return size_of(info), source_version(info)


def _rows(uri: str, storage: StorageOptions) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of the file with their place (`clips.jsonl:3`) for messages."""
    fs, path = open_filesystem(uri, storage)
    name = path.rsplit("/", 1)[-1]
    readers = {"jsonl": _jsonl, "ndjson": _jsonl, "csv": _csv, "parquet": _parquet}
    reader = readers.get(name.rsplit(".", 1)[-1].lower())
    if reader is None:
        raise SourceError(
            f"source.manifest: {uri}: expected a name ending in .jsonl, .csv or .parquet"
        )
    try:
        with fs.open(path, "rb") as file:
            for number, row in reader(file):
                yield f"{name}:{number}", row
    except FileNotFoundError as error:
        raise SourceError(f"source.manifest: there is no file {uri}") from error
    except (OSError, ValueError, csv.Error) as error:
        raise SourceError(f"source.manifest: cannot read {uri}: {error}") from error


def _jsonl(file: Iterable[bytes]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is not a JSON object")
            yield number, row


def _csv(file: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))
    for row in reader:
        yield reader.line_num, {key: value for key, value in row.items() if value != ""}


def _parquet(file: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    parquet = pq.ParquetFile(file)
    known = [
        name
        for name in ("uri", "video_id", "start_s", "end_s", "prompt")
        if name in parquet.schema_arrow.names
    ]
    number = 0
    for batch in parquet.iter_batches(columns=known):
        for row in batch.to_pylist():
            number += 1
            yield number, row


def _parse(row: Mapping[str, Any], place: str, folder: str) -> VideoRef:
    uri = row.get("uri")
    if not isinstance(uri, str) or not uri:
        raise SourceError(
            f"source.manifest: {place}: `uri` is missing (columns here: {', '.join(row) or 'none'})"
        )
    full = absolute(uri, base=folder)
    return VideoRef(
        uri=full,
        video_id=str(row.get("video_id") or uri),
        start_s=_seconds(row, "start_s", place),
        end_s=_seconds(row, "end_s", place),
        prompt=str(row["prompt"]) if row.get("prompt") else None,
        place=place,
    )


def _seconds(row: Mapping[str, Any], key: str, place: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SourceError(f"source.manifest: {place}: {key} = {value!r} is not a number of seconds")
    return number
