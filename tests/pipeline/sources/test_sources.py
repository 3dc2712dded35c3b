"""Prefixes on local disk and the web (S3 is in test_s3.py, manifests in test_manifest.py)."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import SourceSettings
from pipeline.errors import SourceError
from pipeline.sources import VideoRef, covered_by, read_source
from pipeline.sources.video_ref import source_version
from pipeline.transient import StorageUnavailableError
from tests.pipeline.servers import serving


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
    with pytest.raises(SourceError, match="no folder, prefix or file /nowhere"):
        refs(prefix="/nowhere")


def test_a_version_prefers_the_etag() -> None:
    assert source_version({"size": 3, "ETag": '"abc"', "LastModified": 1}) == "size=3;etag=abc"
    assert source_version({"size": 3, "mtime": 12.5}) == "size=3;mtime=12.5"
    assert source_version(None) == "missing"


def test_a_glob_matches_whatever_the_case(tmp_path: Path) -> None:
    (tmp_path / "CAMERA.MP4").write_bytes(b"x")
    found = refs(prefix=str(tmp_path), glob=("**/*.mp4",))
    assert [ref.video_id for ref in found] == ["CAMERA.MP4"]


def test_a_prefix_without_a_match_is_an_error_that_counts_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"x")
    with pytest.raises(SourceError, match=r"none of the 1 file below .* matches source.glob"):
        refs(prefix=str(tmp_path))


def test_a_prefix_may_name_a_single_file(folder: Path) -> None:
    one = refs(prefix=str(folder / "sub" / "b.mp4"))
    assert [(ref.uri, ref.video_id) for ref in one] == [(str(folder / "sub/b.mp4"), "b.mp4")]
    assert one[0].size_bytes == 7
    assert len(refs(prefix=str(folder / "notes.txt"))) == 1  # asked for by name
    covers = covered_by(SourceSettings(prefix=str(folder / "a.mp4")), {})
    assert (covers(str(folder / "a.mp4")), covers(str(folder / "b.mp4"))) == (True, False)


def test_links_are_followed_and_loops_are_not(folder: Path) -> None:
    (folder / "link.mp4").symlink_to(folder / "a.mp4")
    (folder / "nowhere.mp4").symlink_to(folder / "gone.mp4")
    (folder / "sub" / "up").symlink_to(folder)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "there").symlink_to(folder / "sub")
    (folder / "elsewhere" / "back").symlink_to(folder / "elsewhere" / "there")
    found = {ref.video_id: ref for ref in refs(prefix=str(folder), glob=("**/*.mp4",))}
    assert sorted(found) == [
        "a.mp4", "elsewhere/back/b.mp4", "elsewhere/there/b.mp4", "link.mp4", "nowhere.mp4",
        "sub/b.mp4",
    ]  # fmt: skip
    assert found["link.mp4"].source_version == found["a.mp4"].source_version
    assert found["nowhere.mp4"].source_version == "missing"


def test_what_is_covered_is_what_would_be_listed(folder: Path) -> None:
    covers = covered_by(SourceSettings(prefix=str(folder), glob=("sub/*.mp4",)), {})
    assert covers(str(folder / "sub" / "x.mp4"))
    assert not covers(str(folder / "x.mp4"))
    assert not covers(str(folder) + "2/sub/x.mp4")
    assert covered_by(SourceSettings(prefix=str(folder), glob=("*.tar",)), {})(
        f"tar://x.mp4::{folder / 's.tar'}"
    )
    assert not covered_by(SourceSettings(manifest="m.csv"), {})(str(folder / "sub" / "x.mp4"))


def test_a_storage_that_cannot_be_reached_is_one_message() -> None:
    s3 = {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s"}
    for prefix in ("s3://bucket/x", "http://127.0.0.1:9/x"):
        with pytest.raises(StorageUnavailableError, match=rf"cannot list {prefix}: .*[Cc]onnect"):
            list(read_source(SourceSettings(prefix=prefix), {"s3": s3, "retry_s": 0}))
    with pytest.raises(SourceError, match="foo://bucket/x: Protocol not known"):
        refs(prefix="foo://bucket/x", protocols=("foo",))


@pytest.mark.parametrize("prefix", ["ssh://host/videos", "simplecache::s3://bucket/videos", "x://"])
def test_a_protocol_that_is_not_allowed_is_refused(prefix: str) -> None:
    with pytest.raises(
        SourceError, match=r"^source.prefix: .* is not in source.protocols \(file, "
    ):
        refs(prefix=prefix)


@pytest.fixture
def web(folder: Path) -> Iterator[str]:
    """The folder over HTTP, with a page of links for each folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...

    with serving(partial(Quiet, directory=str(folder))) as address:
        yield address


def test_a_web_server_lists_and_is_asked_for_each_file(web: str) -> None:
    found = refs(prefix=f"{web}/")
    assert [ref.video_id for ref in found] == ["a.mp4", "sub/b.mp4", "sub/c.MKV"]
    assert found[1].uri == f"{web}/sub/b.mp4"
    assert found[1].size_bytes == 7
    assert "Last-Modified" not in found[1].source_version
    assert found[1].source_version.startswith("size=7;mtime=")
    assert [ref.uri for ref in refs(prefix=f"{web}/a.mp4")] == [f"{web}/a.mp4"]
    with pytest.raises(SourceError, match="there is no folder, prefix or file"):
        refs(prefix=f"{web}/gone.mp4")
