"""S3 as a source: pages of a whole prefix, and who asks for them."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import boto3
import pytest

from pipeline.config import SourceSettings
from pipeline.errors import SourceError
from pipeline.sources import VideoRef, listing, read_source

KEYS = ["v/a.mp4", "v/deep/b.mp4", "v/deep/er/c.mp4", "v/deep/", "vv/not.mp4", "v/notes.txt"]


@pytest.fixture
def s3(s3_endpoint: str) -> dict[str, Any]:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="listing")
    for key in KEYS:
        client.put_object(Bucket="listing", Key=key, Body=b"x" * 7)
    return {"key": "test", "secret": "test", "endpoint_url": s3_endpoint}


def refs(prefix: str, options: dict[str, Any], **source: Any) -> list[VideoRef]:
    return list(read_source(SourceSettings(prefix=prefix, **source), {"s3": options}))


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_all_pages_of_a_prefix_are_listed(
    s3: dict[str, Any], page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", page)
    found = refs("s3://listing/v", s3)
    assert [ref.video_id for ref in found] == ["a.mp4", "deep/b.mp4", "deep/er/c.mp4"]
    assert {ref.uri for ref in found} == {f"s3://listing/v/{ref.video_id}" for ref in found}
    assert all(ref.source_version.startswith("size=7;etag=") for ref in found)


def test_buckets_single_objects_and_aliases(s3: dict[str, Any]) -> None:
    assert [ref.video_id for ref in refs("s3://listing", s3)] == [
        "v/a.mp4", "v/deep/b.mp4", "v/deep/er/c.mp4", "vv/not.mp4",
    ]  # fmt: skip
    assert [ref.uri for ref in refs("s3://listing/v/a.mp4", s3)] == ["s3://listing/v/a.mp4"]
    s3a = refs("s3a://listing/vv/", s3, protocols=("s3a",))  # with the options of `storage.s3`
    assert [ref.uri for ref in s3a] == ["s3a://listing/vv/not.mp4"]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("s3://listing/none", "there is no folder, prefix or file s3://listing/none"),
        ("s3://no-such-bucket/v", "no-such-bucket"),
    ],
)
def test_what_is_not_there_is_an_error(s3: dict[str, Any], prefix: str, expected: str) -> None:
    with pytest.raises(SourceError, match=expected):
        refs(prefix, s3)


PAGE_OF_ONE = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>v/</Prefix>
<KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>
<Contents><Key>v/a.mp4</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>
<ETag>"e"</ETag><Size>7</Size><StorageClass>STANDARD</StorageClass></Contents>
</ListBucketResult>"""


@pytest.fixture
def recorder() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that answers every request with one listing and keeps their headers."""
    asked: list[dict[str, str]] = []

    class Record(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Length", str(len(PAGE_OF_ONE)))
            self.end_headers()
            self.wfile.write(PAGE_OF_ONE)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Record)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("options", "header", "expected"),
    [
        ({"anon": True}, "authorization", None),
        ({"key": "MINE", "secret": "s"}, "authorization", "Credential=MINE/"),
        ({"profile": "team"}, "authorization", "Credential=TEAMS/"),
        (
            {"key": "MINE", "secret": "s", "requester_pays": True},
            "x-amz-request-payer",
            "requester",
        ),
        ({"key": "MINE", "secret": "s"}, "x-amz-request-payer", None),
    ],
)
def test_storage_options_say_who_asks_and_who_pays(
    recorder: tuple[str, list[dict[str, str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    header: str,
    expected: str | None,
) -> None:
    credentials = "[team]\naws_access_key_id = TEAMS\naws_secret_access_key = s\n"
    (tmp_path / "credentials").write_text(credentials)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    url, asked = recorder
    found = refs("s3://b/v/", {"endpoint_url": url, **options})
    assert [ref.uri for ref in found] == ["s3://b/v/a.mp4"]
    assert asked
    for headers in asked:
        said = headers.get(header)
        assert said is None if expected is None else expected in (said or "")
