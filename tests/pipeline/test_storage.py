"""What a storage that refuses, fails or does not answer looks like from one row."""

import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from pipeline.clips import ClipSettings
from pipeline.config import SourceSettings
from pipeline.decoding.cut import CutJob, cut
from pipeline.decoding.types import Failed
from pipeline.errors import SourceError
from pipeline.sources import read_source
from pipeline.storage import arrow_filesystem, client_problem, open_video, part_of
from tests.pipeline.servers import serving

S3 = {"s3": {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s"}, "retry_s": 0}


@pytest.fixture
def web() -> Iterator[str]:
    """A server whose answer is the status that the path names: /403/v.mp4."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(self.path.split("/")[1]))
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815  # the name that http.server calls

        def log_message(self, format: str, *args: object) -> None: ...

    with serving(Answer) as address:
        yield address


def failure(uri: str) -> Failed:
    found = cut(CutJob(uri, None, ClipSettings("windows"), S3))
    assert isinstance(found, Failed)
    return found


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (404, "missing_file"),
        (410, "missing_file"),
        (401, "no_permission"),
        (403, "no_permission"),
        (500, "storage_unavailable"),
        (503, "storage_unavailable"),
        (501, "read_failed"),
    ],
)
def test_a_web_servers_answer_is_told_apart(web: str, status: int, code: str) -> None:
    assert failure(f"{web}/{status}/v.mp4").code == code


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9/v.mp4", "s3://bucket/v.mp4"])
def test_a_refused_connection_is_not_a_missing_file(uri: str) -> None:
    found = failure(uri)
    assert found.code == "storage_unavailable"
    assert "connect" in found.message.lower()


def test_a_client_that_is_not_installed_ends_the_plan_and_not_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    client_problem.cache_clear()
    (tmp_path / "m.txt").write_text("gs://bucket/v.mp4\n")
    with pytest.raises(SourceError, match=r"^source.manifest: m.txt:1: gs://.*gcsfs"):
        list(read_source(SourceSettings(manifest=str(tmp_path / "m.txt")), {}))
    with pytest.raises(SourceError, match=r"^source.prefix: gs://.*gcsfs"):
        list(read_source(SourceSettings(prefix="gs://bucket/videos"), {}))


def test_a_local_file_is_its_path_and_a_part_is_told_by_the_row(tmp_path: Path) -> None:
    with open_video(f"file://{tmp_path}/v.mp4", {}) as source:
        assert source == f"{tmp_path}/v.mp4"
    assert part_of({"offset_bytes": None, "size_bytes": 7}) is None
    assert part_of({"offset_bytes": 512, "size_bytes": 7}) == (512, 7)
    assert arrow_filesystem(str(tmp_path), {})[1] == str(tmp_path)
