"""The whole job with source and output on S3, through a proxy that makes requests fail."""

import io
from typing import Any

import boto3
import pyarrow.dataset as pds
import pytest

from pipeline.config import JobSettings, parse_config
from pipeline.corpus import caption_corpus
from pipeline.dataset import Dataset
from pipeline.errors import StoppedError
from pipeline.verify import verify
from tests.pipeline.fakes import FAKE
from tests.pipeline.fault_proxy import Fault, FaultProxy, Kind, faulty
from tests.pipeline.videos import write_corpus

GOOD = 6
Captions = dict[str, str | None]


@pytest.fixture(scope="module")
def bucket(s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Six good and two bad videos."""
    folder = write_corpus(tmp_path_factory.mktemp("storms") / "videos", good=GOOD)
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="storms")
    for path in folder.iterdir():
        client.upload_file(str(path), "storms", f"videos/{path.name}")
    return client


def settings(url: str, output: str, retry_s: float = 120, timeout_s: float = 240) -> JobSettings:
    s3 = {"key": "test", "secret": "test", "endpoint_url": url}
    tree = {
        "source": {"prefix": "s3://storms/videos"},
        "output": f"s3://storms/{output}",
        "models": {"target": "scripted"},
        "run": {"rows_per_commit": 2},
        "video": {"timeout_s": timeout_s},
        "storage": {"s3": {**s3, "config_kwargs": {"read_timeout": 2}}, "retry_s": retry_s},
    }
    return parse_config(tree)


def captions_of(endpoint: str, output: str) -> Captions:
    """Captions and error codes by video, read without the proxy; each clip once."""
    config = settings(endpoint, output)
    dataset = Dataset.open(config.output, config.storage)
    found: Captions = {}
    for run_id in dataset.published_runs():
        captions, errors = dataset.captions(run_id), dataset.errors(run_id)
        for folder, column in ((captions, "caption"), (errors, "error_code")):
            table = pds.dataset(dataset.parquet_files(folder), filesystem=dataset.fs).to_table()
            for row in table.to_pylist():
                assert row["video_id"] not in found
                found[row["video_id"]] = row[column]
    assert verify(dataset).findings == []
    return found


@pytest.fixture(scope="module")
def calm(s3_endpoint: str, bucket: Any, local_ray: None) -> Captions:
    caption_corpus(settings(s3_endpoint, "calm"), backend=FAKE, out=io.StringIO())
    found = captions_of(s3_endpoint, "calm")
    assert len(found) == GOOD + 2
    return found


def storm(endpoint: str, output: str, *faults: Fault, **more: Any) -> FaultProxy:
    with faulty(endpoint, *faults, seed=7) as proxy:
        caption_corpus(settings(proxy.url, output, **more), backend=FAKE, out=io.StringIO())
    return proxy


def test_a_storm_of_all_kinds_changes_nothing(s3_endpoint: str, calm: Captions) -> None:
    kinds: tuple[Kind, ...] = ("slow_down", "internal", "reset", "truncate", "expired")
    proxy = storm(s3_endpoint, "mixed", *(Fault(kind, share=0.03) for kind in kinds))
    assert sum(proxy.seen[kind] for kind in kinds) > 10
    assert captions_of(s3_endpoint, "mixed") == calm


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["slow_down", "internal", "expired", "reset", "stall", "truncate", "slow", "garbage"]
)
def test_a_storm_of_one_kind_changes_nothing(s3_endpoint: str, calm: Captions, kind: Kind) -> None:
    proxy = storm(s3_endpoint, kind, Fault(kind, share=0.1))
    print(f"\n{kind}: {proxy.seen}")
    assert proxy.seen[kind] > 5
    assert captions_of(s3_endpoint, kind) == calm


@pytest.mark.slow
def test_a_video_that_never_comes_is_one_row(s3_endpoint: str, calm: Captions) -> None:
    storm(s3_endpoint, "one", Fault("internal", path="clip_03.mp4", method="GET"), timeout_s=8)
    assert captions_of(s3_endpoint, "one") == {**calm, "clip_03.mp4": "storage_unavailable"}


def test_a_storage_that_stays_down_stops_the_job_and_the_next_one_ends_it(
    s3_endpoint: str, calm: Captions
) -> None:
    with faulty(s3_endpoint) as proxy:
        config = settings(proxy.url, "down", retry_s=2)
        with pytest.raises(StoppedError, match=r"does not answer: .*tried again for"):
            proxy.faults = [Fault("internal", path="list-type=2")]
            caption_corpus(config, backend=FAKE, out=io.StringIO())
        proxy.faults = [Fault("slow_down", path="/rows/", method="PUT")]  # once it captions
        with pytest.raises(StoppedError, match=r"StorageUnavailableError.*tried again for"):
            caption_corpus(config, backend=FAKE, out=io.StringIO())
        assert Dataset.open(config.output, config.storage).published_runs() == []
        proxy.faults = []
        out = io.StringIO()
        caption_corpus(config, backend=FAKE, out=out)
    assert "resume: run" in out.getvalue()
    assert captions_of(s3_endpoint, "down") == calm
