"""Prefixes and manifests on local disk (S3 is in test_s3.py)."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.config import SourceSettings
from pipeline.errors import SourceError
from pipeline.sources import VideoRef, read_source
from pipeline.sources.prefix import list_prefix
from pipeline.sources.video_ref import source_version

ROWS = [
    {"uri": "a.mp4", "video_id": "first", "start_s": 1.5, "end_s": 3.0, "prompt": "Why?"},
    {"uri": "sub/b.mp4"},
    {"uri": "gone.mp4"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    for name in ("a.mp4", "sub/b.mp4", "sub/c.MKV", "notes.txt"):
        (tmp_path / name).write_bytes(b"x" * 7)
    return tmp_path


def refs(**source: Any) -> list[VideoRef]:
    return list(read_source(SourceSettings(**source), {}))


def test_a_prefix_lists_videos_below_it(folder: Path) -> None:
    found = refs(prefix=str(folder))
    assert [ref.video_id for ref in found] == ["a.mp4", "sub/b.mp4", "sub/c.MKV"]
    assert found[1].uri == str(folder / "sub" / "b.mp4")
    assert found[0].size_bytes == 7
    assert found[0].source_version.startswith("size=7;mtime=")


def test_globs_choose(folder: Path) -> None:
    assert [r.video_id for r in refs(prefix=str(folder), glob=("*.mp4",))] == ["a.mp4"]
    assert len(refs(prefix=str(folder), glob=("**/*.mp4", "**/*.MKV"))) == 3


def test_file_uris_and_relative_paths_are_one_spelling(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    here = [ref.uri for ref in refs(prefix=str(folder))]
    assert [ref.uri for ref in refs(prefix=".")] == here
    assert [ref.uri for ref in refs(prefix=f"file://{folder}")] == here


def test_a_missing_prefix_is_an_error() -> None:
    with pytest.raises(SourceError, match="no folder or prefix /nowhere"):
        refs(prefix="/nowhere")


def write_manifest(folder: Path, kind: str) -> Path:
    path = folder / f"clips.{kind}"
    if kind == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n")
    elif kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(
                file, ["uri", "video_id", "start_s", "end_s", "prompt", "other"]
            )
            writer.writeheader()
            writer.writerows(ROWS)
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_manifests_of_each_kind_say_the_same(folder: Path, kind: str) -> None:
    first, second, gone = refs(manifest=str(write_manifest(folder, kind)))
    assert (first.uri, first.video_id) == (str(folder / "a.mp4"), "first")
    assert (first.start_s, first.end_s, first.prompt) == (1.5, 3.0, "Why?")
    assert (second.video_id, second.start_s, second.prompt) == ("sub/b.mp4", None, None)
    assert second.source_version.startswith("size=7;mtime=")
    assert (gone.source_version, gone.size_bytes) == ("missing", None)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("m.jsonl", '{"url": "a.mp4"}\n', r"m.jsonl:1: `uri` is missing \(columns here: url\)"),
        (
            "m.jsonl",
            '{"uri": "a", "start_s": "soon"}\n',
            "m.jsonl:1: start_s = 'soon' is not a number",
        ),
        ("m.jsonl", "not json\n", "cannot read"),
        ("m.csv", "uri,end_s\na.mp4,nan\n", "m.csv:2: end_s = 'nan' is not a number"),
        ("m.txt", "a.mp4\n", "expected a name ending in .jsonl, .csv or .parquet"),
    ],
)
def test_a_malformed_manifest_says_where(
    tmp_path: Path, name: str, text: str, expected: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SourceError, match=expected):
        refs(manifest=str(tmp_path / name))


def test_a_missing_manifest_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no file"):
        refs(manifest=str(tmp_path / "none.jsonl"))


def test_a_version_prefers_the_etag() -> None:
    assert source_version({"size": 3, "ETag": '"abc"', "LastModified": 1}) == "size=3;etag=abc"
    assert source_version({"size": 3, "mtime": 12.5}) == "size=3;mtime=12.5"
    assert source_version(None) == "missing"


def test_a_glob_matches_whatever_the_case(tmp_path: Path) -> None:
    (tmp_path / "CAMERA.MP4").write_bytes(b"x")
    refs = list(list_prefix(str(tmp_path), ("**/*.mp4",), {}))
    assert [ref.video_id for ref in refs] == ["CAMERA.MP4"]


def test_a_prefix_without_a_match_is_an_error_that_counts_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"x")
    with pytest.raises(SourceError, match=r"none of the 1 files .* matches source.glob"):
        list(list_prefix(str(tmp_path), ("**/*.mp4",), {}))


def test_a_storage_that_cannot_be_reached_is_one_message() -> None:
    storage = {"s3": {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s"}}
    with pytest.raises(SourceError, match="cannot list s3://bucket/x"):
        list(list_prefix("s3://bucket/x", ("**/*.mp4",), storage))
    with pytest.raises(SourceError, match="foo://bucket"):
        list(list_prefix("foo://bucket/x", ("**/*.mp4",), {}))
