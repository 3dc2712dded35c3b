"""Manifests of each kind, plain and gzipped, and what is said of malformed ones."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.config import SourceSettings
from pipeline.errors import SourceError
from pipeline.schema import ERRORS
from pipeline.sources import VideoRef, read_source
from pipeline.transient import StorageUnavailableError

ROWS = [
    {"uri": "a.mp4", "video_id": "first", "start_s": 1.5, "end_s": 3.0, "prompt": "Why?"},
    {"uri": "sub/b.mp4"},
    {"uri": "gone.mp4"},
]
COLUMNS = ["uri", "video_id", "start_s", "end_s", "prompt", "other"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    for name in ("a.mp4", "sub/b.mp4"):
        (tmp_path / name).write_bytes(b"x" * 7)
    return tmp_path


def refs(manifest: Path, **source: Any) -> list[VideoRef]:
    settings = SourceSettings(manifest=str(manifest), **source)
    return list(read_source(settings, {"retry_s": 0.2}))


def write_manifest(folder: Path, kind: str) -> Path:
    path = folder / f"clips.{kind}"
    if kind == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n")
    elif kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(ROWS)
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


def zipped(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


@pytest.mark.parametrize("gz", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize(
    ("kind", "places"), [("jsonl", (1, 2, 3)), ("csv", (2, 3, 4)), ("parquet", (1, 2, 3))]
)
def test_manifests_of_each_kind_say_the_same(
    folder: Path, kind: str, places: tuple[int, ...], gz: bool
) -> None:
    path = write_manifest(folder, kind)
    path = zipped(path) if gz else path
    first, second, gone = refs(path)
    assert (first.uri, first.video_id) == (str(folder / "a.mp4"), "first")
    assert (first.start_s, first.end_s, first.prompt) == (1.5, 3.0, "Why?")
    assert (second.video_id, second.start_s, second.prompt) == ("sub/b.mp4", None, None)
    assert second.source_version.startswith("size=7;mtime=")
    assert (gone.source_version, gone.size_bytes) == ("missing", None)
    assert [r.place for r in (first, second, gone)] == [f"{path.name}:{n}" for n in places]


@pytest.mark.parametrize("gz", [False, True], ids=["plain", "gz"])
def test_a_file_of_uris(folder: Path, gz: bool) -> None:
    path = folder / "uris.txt"
    path.write_bytes("\ufeffa.mp4\r\n\n  sub/b.mp4\nhttp://127.0.0.1:9/ä b.mp4\n".encode())
    found = refs(zipped(path) if gz else path)
    assert [ref.uri for ref in found] == [
        str(folder / "a.mp4"), str(folder / "sub/b.mp4"), "http://127.0.0.1:9/ä b.mp4",
    ]  # fmt: skip
    assert [ref.place for ref in found] == [f"uris.txt{'.gz' * gz}:{n}" for n in (1, 3, 4)]
    assert found[2].source_version == "unknown"  # nobody answered: not the same as "missing"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("m.jsonl", '{"url": "a.mp4"}\n', r"m.jsonl:1: `uri` is missing \(columns here: url\)"),
        (
            "m.jsonl",
            '{"uri": "a", "start_s": "soon"}\n',
            "m.jsonl:1: start_s = 'soon' is not a number",
        ),
        ("m.jsonl", '{"uri": "a", "end_s": true}\n', "m.jsonl:1: end_s = True is not a number"),
        (
            "m.jsonl",
            '{"uri": "a"}\n{"uri": "a", "prompt": ["One?", "Two?"]}\n',
            r"m.jsonl:2: prompt = \['One\?', 'Two\?'\] is not a text",
        ),
        ("m.jsonl", '{"uri": {"a": 1}}\n', "m.jsonl:1: uri = {'a': 1} is not a text"),
        ("m.jsonl", '{"uri": "a", "video_id": 1.5}\n', "m.jsonl:1: video_id = 1.5 is not a text"),
        ("m.jsonl", '{"uri": "a"}\nnot json\n', "cannot read .*m.jsonl after row 1: "),
        ("m.jsonl", "[1]\n", "cannot read .*m.jsonl: line 1 is not a JSON object"),
        ("m.csv", "uri,end_s\na.mp4,nan\n", "m.csv:2: end_s = 'nan' is not a number"),
        ("m.csv", "uri\na.mp4,3\n", "line 2 has more values than there are columns"),
        ("m.csv", "uri,promt\na,b\n", "m.csv:2: there is no column `promt`; .* `prompt`"),
        ("m.csv", "uri,star_s\na,\n", "m.csv:2: there is no column `star_s`; .* `start_s`"),
        ("m.jsonl", '{"uri": "a", "end": 3}\n', "there is no column `end`; .* `end_s`"),
        ("m.jsonl", '{"uri": "a", "Prompt": "x"}\n', "there is no column `Prompt`; .* `prompt`"),
        ("m.jsonl", '{"uri": "ftp://h/a.mp4"}\n', "m.jsonl:1: ftp://h/a.mp4: ftp:// is not in"),
        ("m.jsonl", '{"uri": "zip://a::s3://b/c"}\n', "m.jsonl:1: .* zip:// is not in"),
        ("m.jsonl", '{"uri": "tar://a::ssh://b/c"}\n', "m.jsonl:1: .* ssh:// is not in"),
        ("m.xlsx", "", "expected a name ending in .jsonl, .csv, .parquet or .txt"),
        ("m.jsonl.gz", "not packed", "cannot read .*m.jsonl.gz: Not a gzipped file"),
        ("m.txt", b"\xff\xfe\n", "cannot read .*m.txt: 'utf-8' codec"),
    ],
)
def test_a_malformed_manifest_says_where(
    tmp_path: Path, name: str, text: str | bytes, expected: str
) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SourceError, match=expected):
        refs(tmp_path / name)


def test_other_columns_are_ignored_those_of_an_errors_file_too(folder: Path) -> None:
    rows = [{"uri": "a.mp4", "width": 3, "prompt_id": 7, "video": "x", "source": "y"}]
    rows[0] |= dict.fromkeys(name for name in ERRORS.names if name not in ("uri", "prompt"))
    path = folder / "m.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert [ref.uri for ref in refs(path)] == [str(folder / "a.mp4")]


def test_a_number_may_be_a_name(folder: Path) -> None:
    (folder / "m.jsonl").write_text('{"uri": "a.mp4", "video_id": 17, "prompt": ""}\n')
    assert [(ref.video_id, ref.prompt) for ref in refs(folder / "m.jsonl")] == [("17", None)]


def test_a_missing_manifest_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no file"):
        refs(tmp_path / "none.jsonl")


def test_a_refused_connection_is_not_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(
        StorageUnavailableError, match=r"cannot read http://127.0.0.1:9/m.csv: .*connect"
    ):
        list(read_source(SourceSettings(manifest="http://127.0.0.1:9/m.csv"), {"retry_s": 0}))
    (tmp_path / "m.txt").write_text("http://127.0.0.1:9/a.mp4\n")
    source = SourceSettings(manifest=str(tmp_path / "m.txt"))
    found = read_source(source, {"retry_s": 0})
    assert [ref.source_version for ref in found] == ["unknown"]
