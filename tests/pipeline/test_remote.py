"""Every kind of fault between us and a real S3 server, one call at a time."""

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow.fs
import pytest

from pipeline import remote
from pipeline.config import SourceSettings
from pipeline.dataset import Dataset
from pipeline.errors import SourceError
from pipeline.sources import read_source
from pipeline.storage import arrow_filesystem, open_filesystem, open_video
from pipeline.transient import StorageUnavailableError
from tests.pipeline.fault_proxy import Fault, FaultProxy, Kind, faulty

BODY = bytes(range(256)) * 64
KEYS = {"key": "test", "secret": "test"}


@pytest.fixture(scope="module")
def bucket(s3_endpoint: str) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="faults")
    for name in ("v/a.mp4", "v/b.mp4", "v/c.mp4"):
        client.put_object(Bucket="faults", Key=name, Body=BODY)
    return client


@pytest.fixture
def proxy(s3_endpoint: str, bucket: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    with faulty(s3_endpoint) as proxy:
        yield proxy


def storage(proxy: FaultProxy, retry_s: float = 60) -> dict[str, Any]:
    options = {"endpoint_url": proxy.url, "config_kwargs": {"read_timeout": 1}, **KEYS}
    return {"s3": options, "retry_s": retry_s}


KINDS: tuple[Kind, ...] = (
    *("slow_down", "internal", "expired", "reset", "stall", "truncate", "garbage"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_passes_unnoticed(
    proxy: FaultProxy, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ("GET",) if kind == "truncate" else ("GET", "PUT", "HEAD")
    fs, root = arrow_filesystem("s3://faults/out", storage(proxy))
    fs.get_file_info("faults/v/a.mp4")  # makes the connection
    monkeypatch.setattr(remote, "ANSWER_S", 5.0)
    proxy.faults = [Fault(kind, method=method, times=1) for method in methods]
    with fs.open_output_stream(f"{root}/{kind}") as stream:
        stream.write(BODY)
    with fs.open_input_file(f"{root}/{kind}") as file:
        assert file.read() == BODY
    names = [info.base_name for info in fs.get_file_info(pyarrow.fs.FileSelector("faults/v"))]
    assert names == ["a.mp4", "b.mp4", "c.mp4"]
    fs.move(f"{root}/{kind}", f"{root}/{kind}.moved")
    assert fs.get_file_info(f"{root}/{kind}").type == pyarrow.fs.FileType.NotFound
    fs.delete_dir(root)
    assert fs.get_file_info(pyarrow.fs.FileSelector(root, allow_not_found=True)) == []
    assert proxy.seen[kind] == len(methods)


@pytest.mark.parametrize("kind", ["slow_down", "internal", "reset", "stall", "expired"])
def test_nothing_multiplies_and_the_time_is_kept(proxy: FaultProxy, kind: Kind) -> None:
    fs, path = open_filesystem("s3://faults/v/a.mp4", storage(proxy, retry_s=0))
    fs.info(path)
    proxy.faults = [Fault(kind, path="a.mp4")]
    with pytest.raises(StorageUnavailableError):
        fs.info(path)
    # botocore would send 5, and s3fs each of them 5 times. What is left: aiohttp tries a kept
    # connection that was closed once more, botocore asks for the region after a HEAD with 400.
    assert proxy.seen[kind] <= 2
    fs, path = open_filesystem("s3://faults/v/a.mp4", storage(proxy, retry_s=2))
    started = time.monotonic()
    with pytest.raises(StorageUnavailableError, match="tried again for"):
        fs.info(path)
    assert time.monotonic() - started < 2 + 8  # an answer may take a second, and the machine


@pytest.mark.parametrize(
    ("path", "kind"),
    [("faults/none", FileNotFoundError), ("no-such-bucket/a", FileNotFoundError)],
)
def test_what_is_not_there_is_asked_for_once(
    proxy: FaultProxy, path: str, kind: type[OSError]
) -> None:
    fs, path = open_filesystem(f"s3://{path}", storage(proxy))
    with pytest.raises(kind):
        fs.info(path)
    assert len(proxy.requests) <= 2  # an object, or a folder


def test_denied_is_asked_for_once(proxy: FaultProxy) -> None:
    proxy.faults = [Fault("denied")]
    fs, path = open_filesystem("s3://faults/v/a.mp4", storage(proxy))
    with pytest.raises(PermissionError):
        fs.info(path)
    assert len(proxy.requests) == 1


def test_a_storage_that_fails_is_never_taken_for_an_empty_one(proxy: FaultProxy) -> None:
    proxy.faults = [Fault("internal")]
    dataset = Dataset.open("s3://faults/dataset", storage(proxy, retry_s=0))
    for look in (
        dataset.unfinished_runs,
        dataset.published_runs,
        lambda: dataset.parquet_files(dataset.path("x")),
        lambda: dataset.exists(dataset.path("dataset.json")),
        lambda: dataset.fs.open_input_stream(dataset.path("dataset.json")),
    ):
        with pytest.raises(StorageUnavailableError):
            look()


def test_a_page_of_a_listing_is_asked_for_again(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.sources.listing.PAGE", 1)
    proxy.faults = [Fault("truncate", path="continuation-token", times=2)]
    source = SourceSettings(prefix="s3://faults/v")
    found = [ref.video_id for ref in read_source(source, storage(proxy))]
    assert found == ["a.mp4", "b.mp4", "c.mp4"]
    assert proxy.seen["truncate"] == 2


def test_a_read_that_broke_in_the_middle_goes_on_where_it_was(proxy: FaultProxy) -> None:
    with open_video("s3://faults/v/a.mp4", storage(proxy)) as file:
        assert not isinstance(file, str)
        file.seek(1000)
        proxy.faults = [Fault(kind, method="GET", times=2) for kind in ("truncate", "reset")]
        assert file.read(500) == BODY[1000:1500]
        assert file.read() == BODY[1500:]
        assert file.tell() == len(BODY)


def test_a_file_that_is_replaced_while_it_is_read_is_an_error(
    proxy: FaultProxy, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "BLOCK_BYTES", 1024)
    bucket.put_object(Bucket="faults", Key="changing", Body=BODY)
    fs, path = open_filesystem("s3://faults/changing", storage(proxy))
    with fs.open(path, block_bytes=1024) as file:
        file.read(10)
        bucket.put_object(Bucket="faults", Key="changing", Body=BODY[::-1])
        proxy.faults = [Fault("reset", method="GET", times=1)]
        with pytest.raises(OSError, match=r"was replaced while it was read|no longer exists"):
            file.read()


def test_a_decoder_that_passes_over_a_failure_does_not_hide_it(proxy: FaultProxy) -> None:
    with (
        pytest.raises(StorageUnavailableError),
        open_video("s3://faults/v/a.mp4", storage(proxy, retry_s=0)) as file,
    ):
        proxy.faults = [Fault("internal")]
        try:
            assert not isinstance(file, str)
            file.read(10)
        except OSError:
            pass


def test_expired_credentials_are_read_anew(
    s3_endpoint: str, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = tmp_path / "credentials"
    text = "[team]\naws_access_key_id = {}\naws_secret_access_key = s\n"
    credentials.write_text(text.format("OLD"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    options = {"endpoint_url": proxy.url, "profile": "team"}
    fs, path = open_filesystem("s3://faults/v/a.mp4", {"s3": options, "retry_s": 60})
    assert fs.info(path)["size"] == len(BODY)
    proxy.faults = [Fault("expired", header="Credential=OLD/")]
    credentials.write_text(text.format("NEW"))
    assert fs.info(path)["size"] == len(BODY)
    assert 1 <= proxy.seen["expired"] <= 2


def test_one_file_that_does_not_answer_is_a_row_and_a_storage_that_does_not_is_the_end(
    proxy: FaultProxy, tmp_path: Path
) -> None:
    manifest = tmp_path / "m.txt"
    manifest.write_text("".join(f"s3://faults/v/{name}.mp4\n" for name in "abc"))
    source = SourceSettings(manifest=str(manifest))
    proxy.faults = [Fault("internal", path="b.mp4")]
    found = [ref.source_version for ref in read_source(source, storage(proxy, retry_s=1))]
    assert [version == "unknown" for version in found] == [False, True, False]
    proxy.faults = [Fault("internal")]
    with pytest.raises(StorageUnavailableError):
        list(read_source(source, storage(proxy, retry_s=1)))
    with pytest.raises(StorageUnavailableError):
        list(read_source(SourceSettings(prefix="s3://faults/v"), storage(proxy, retry_s=1)))
    proxy.faults = [Fault("denied")]
    with pytest.raises(SourceError, match="cannot list"):
        list(read_source(SourceSettings(prefix="s3://faults/v"), storage(proxy)))


def test_a_file_is_written_whole_or_not_at_all(proxy: FaultProxy, bucket: Any) -> None:
    fs, _ = arrow_filesystem("s3://faults", storage(proxy, retry_s=0))
    proxy.faults = [Fault("internal", method="PUT", times=1)]
    stream = fs.open_output_stream("faults/whole")
    stream.write(b"half of it")
    with pytest.raises(StorageUnavailableError):
        stream.close()
    abandoned = fs.open_output_stream("faults/whole")
    abandoned.write(b"never closed")
    del abandoned, stream
    assert bucket.list_objects_v2(Bucket="faults", Prefix="whole")["KeyCount"] == 0


def test_it_travels_to_workers_and_its_errors_back(proxy: FaultProxy) -> None:
    fs, root = arrow_filesystem("s3://faults/v", storage(proxy, retry_s=0))
    there = pickle.loads(pickle.dumps(fs))
    assert there == fs
    with there.open_input_stream(f"{root}/a.mp4") as stream:
        assert stream.read() == BODY
    proxy.faults = [Fault("slow_down")]
    with pytest.raises(StorageUnavailableError) as caught:
        there.get_file_info(root)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert caught.value.__cause__ is None
