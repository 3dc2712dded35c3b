"""A file with one clip per row: JSONL, CSV or Parquet with `uri` and optional `video_id, start_s,
end_s, prompt`, or a plain text file with one URI per line. Each may be gzipped (`clips.csv.gz`).

Other columns are ignored, so that `errors/run=<id>/*.parquet` of an earlier run is a manifest too;
names that look like misspelt ones are refused.
"""

import csv
import difflib
import gzip
import io
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from typing import Any

import pyarrow.parquet as pq

from pipeline.config import StorageOptions
from pipeline.errors import SourceError
from pipeline.schema import ERRORS
from pipeline.secrets import has_password, scrub, unsigned
from pipeline.sources.video_ref import VideoRef
from pipeline.storage import absolute, open_file, protocol_of, shard_of
from pipeline.transient import StorageUnavailableError

COLUMNS = ("uri", "video_id", "start_s", "end_s", "prompt")
Row = tuple[int, Mapping[str, Any]]
"""Its number, as an editor counts lines, and its columns."""


def list_manifest(uri: str, storage: StorageOptions) -> Iterator[VideoRef]:
    """Stream the clips of a manifest, each with its place in it.

    A relative `uri` is meant from the manifest's folder. A row that is malformed raises
    `SourceError` with its place.
    """
    folder = absolute(_without_query(uri)).rsplit("/", 1)[0]
    for place, row in _rows(uri, storage):
        yield _parse(row, place, folder)


def _rows(uri: str, storage: StorageOptions) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows of the file with their place (`clips.jsonl:3`) for messages."""
    name = _without_query(uri).rsplit("/", 1)[-1]
    plain = name.lower().removesuffix(".gz")
    reader = READERS.get(plain.rsplit(".", 1)[-1])
    if reader is None:
        raise SourceError(
            f"source.manifest: {uri}: expected a name ending in .jsonl, .csv, .parquet or .txt (a "
            "URI per line), each also with .gz"
        )
    number = 0
    try:
        with ExitStack() as stack:
            file: Any = stack.enter_context(open_file(uri, storage))
            if plain != name.lower():
                file = stack.enter_context(gzip.GzipFile(fileobj=file))
            for number, row in reader(file):
                yield f"{name}:{number}", row
    except FileNotFoundError as error:
        raise SourceError(f"source.manifest: there is no file {uri}") from error
    except SourceError:
        raise
    except StorageUnavailableError as error:
        said = f"source.manifest: cannot read {scrub(uri)}: {error}"
        raise StorageUnavailableError(said) from None
    except Exception as error:  # whatever the storage's client or a parser raises
        where = f" after row {number}" if number else ""
        raise SourceError(f"source.manifest: cannot read {uri}{where}: {error}") from error


def _jsonl(file: Iterable[bytes]) -> Iterator[Row]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is not a JSON object")
            yield number, row


def _csv(file: Any) -> Iterator[Row]:
    reader = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))
    for row in reader:
        if None in row:
            raise ValueError(f"line {reader.line_num} has more values than there are columns")
        yield reader.line_num, {key: value or None for key, value in row.items()}


def _parquet(file: Any) -> Iterator[Row]:
    with tempfile.TemporaryFile(prefix="manifest-") as unpacked:
        if isinstance(file, gzip.GzipFile):  # Parquet is read from its end: not through gzip
            shutil.copyfileobj(file, unpacked, 1 << 20)
            file = unpacked
        parquet = pq.ParquetFile(file)
        names = parquet.schema_arrow.names
        others = dict.fromkeys(name for name in names if name not in COLUMNS)
        number = 0
        for batch in parquet.iter_batches(columns=[name for name in names if name in COLUMNS]):
            for row in batch.to_pylist():
                number += 1
                yield number, others | row


def _text(file: Iterable[bytes]) -> Iterator[Row]:
    for number, line in enumerate(file, start=1):
        uri = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        if uri:
            yield number, {"uri": uri}


READERS: Mapping[str, Callable[[Any], Iterator[Row]]] = {
    "jsonl": _jsonl,
    "ndjson": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
    "txt": _text,
}


@cache
def _misspelt(columns: tuple[str, ...]) -> str | None:
    """What to say of the first column whose name is nearly that of a known one."""
    for column in columns:
        if column in COLUMNS or column in ERRORS.names:
            continue
        plain = column.strip().lower()
        near = difflib.get_close_matches(plain, COLUMNS, n=1, cutoff=0.82)
        near = [name for name in COLUMNS if name == f"{plain}_s"] or near  # `end`
        if near:
            return (
                f"there is no column `{column}`; did you mean `{near[0]}`? (Other columns are "
                "ignored: rename it if it is something else.)"
            )
    return None


def _parse(row: Mapping[str, Any], place: str, folder: str) -> VideoRef:
    said = _misspelt(tuple(row))
    if said is not None:
        raise SourceError(f"source.manifest: {place}: {said}")
    uri = _text_of(row, "uri", place)
    if uri is None:
        columns = ", ".join(row) or "none"
        raise SourceError(f"source.manifest: {place}: `uri` is missing (columns here: {columns})")
    if has_password(uri):
        raise SourceError(
            f"source.manifest: {place}: `uri` holds a password; put it into `storage` instead"
        )
    own, query = unsigned(absolute(uri, base=folder))
    return VideoRef(
        uri=own,
        video_id=_text_of(row, "video_id", place) or unsigned(uri)[0],
        query=query,
        start_s=_seconds(row, "start_s", place),
        end_s=_seconds(row, "end_s", place),
        prompt=_text_of(row, "prompt", place),
        place=place,
    )


def queries_of(uri: str, storage: StorageOptions) -> dict[str, str]:
    """The query of each file whose address in a manifest is signed, by the address without it."""
    refs = list_manifest(uri, storage)
    return {shard_of(ref.uri) or ref.uri: ref.query for ref in refs if ref.query is not None}


def _without_query(uri: str) -> str:
    return uri.partition("?")[0] if protocol_of(uri) in ("http", "https") else uri


def _text_of(row: Mapping[str, Any], key: str, place: str) -> str | None:
    """None for what is not there or empty; a number may stand for a name, as in 1234.mp4's id."""
    value = row.get(key)
    if value is None or value == "":
        return None
    number = isinstance(value, int) and not isinstance(value, bool) and key == "video_id"
    if not isinstance(value, str) and not number:
        raise SourceError(f"source.manifest: {place}: {key} = {value!r} is not a text")
    return str(value)


def _seconds(row: Mapping[str, Any], key: str, place: str) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or isinstance(value, bool):
        raise SourceError(f"source.manifest: {place}: {key} = {value!r} is not a number of seconds")
    return number
