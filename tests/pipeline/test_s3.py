"""The job against an S3 server over real HTTP (moto's): videos in, dataset out."""

import io
from pathlib import Path
from typing import Any

import boto3
import pyarrow.dataset as pds
import pytest

from pipeline.commits import settle
from pipeline.config import JobSettings, apply_assignments, parse_config
from pipeline.corpus import caption_corpus
from pipeline.dataset import Dataset
from pipeline.sources import read_source
from pipeline.verify import verify
from tests.pipeline.fakes import FAKE
from tests.pipeline.videos import write_corpus, write_video

CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}


@pytest.fixture(scope="module")
def bucket(s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A bucket with two good and two bad videos below `videos/`."""
    folder = write_corpus(tmp_path_factory.mktemp("s3") / "videos", good=2)
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1", **CREDENTIALS)
    client.create_bucket(Bucket="corpus")
    for path in folder.iterdir():
        client.upload_file(str(path), "corpus", f"videos/{path.name}")
    return client


def settings(endpoint: str, *assignments: str) -> JobSettings:
    tree = {
        "source": {"prefix": "s3://corpus/videos"},
        "output": "s3://corpus/dataset",
        "models": {"target": "scripted"},
        "storage": {
            "s3": {"key": "test", "secret": "test", "client_kwargs": {"endpoint_url": endpoint}}
        },
    }
    return parse_config(apply_assignments(tree, assignments))


def test_objects_are_listed_with_their_etag(s3_endpoint: str, bucket: Any) -> None:
    config = settings(s3_endpoint)
    found = {ref.video_id: ref for ref in read_source(config.source, config.storage)}
    assert sorted(found) == ["clip_00.mp4", "clip_01.mp4", "empty.mp4", "junk.mp4"]
    etag = bucket.head_object(Bucket="corpus", Key="videos/clip_00.mp4")["ETag"].strip('"')
    first = found["clip_00.mp4"]
    assert first.uri == "s3://corpus/videos/clip_00.mp4"
    assert first.source_version == f"size={first.size_bytes};etag={etag}"


@pytest.mark.usefixtures("local_ray")
def test_videos_in_and_dataset_out(s3_endpoint: str, bucket: Any, tmp_path: Path) -> None:
    config = settings(s3_endpoint)
    summary = caption_corpus(config, backend=FAKE, out=io.StringIO())
    assert summary.failed_by_code == {"empty_file": 1, "not_a_video": 1}
    dataset = Dataset.open(config.output, config.storage)
    assert summary.run_id is not None
    files = dataset.parquet_files(dataset.captions(summary.run_id))
    captions = pds.dataset(files, filesystem=dataset.fs).to_table()
    assert sorted(captions["video_id"].to_pylist()) == ["clip_00.mp4", "clip_01.mp4"]
    keys = [o["Key"] for o in bucket.list_objects_v2(Bucket="corpus")["Contents"]]
    assert f"dataset/captions/run={summary.run_id}/_SUCCESS" in keys
    assert not [key for key in keys if key.endswith(".tmp")]
    stored = bucket.get_object(Bucket="corpus", Key=f"dataset/runs/{summary.run_id}/run.json")
    assert b'"secret": "***"' in stored["Body"].read()

    assert caption_corpus(config, backend=FAKE, out=io.StringIO()).manifest_rows == 0
    path = write_video(tmp_path / "new.mp4", brightness=80)
    bucket.upload_file(str(path), "corpus", "videos/clip_01.mp4")
    again = caption_corpus(config, backend=FAKE, out=io.StringIO())
    assert (again.manifest_rows, again.replaced, again.already_held) == (1, 1, 3)
    verified = verify(dataset)
    assert (verified.runs, verified.rows, verified.findings) == (2, 4, [])


def test_a_rename_cut_in_two_is_settled_there_too(s3_endpoint: str, bucket: Any) -> None:
    config = settings(s3_endpoint)
    dataset = Dataset.open(config.output, config.storage)
    for name in ("one.parquet", "one.pending.parquet"):
        dataset.write_bytes(dataset.run("r", "checkpoint", name), b"x")
    settle(dataset, "r")
    left = dataset.parquet_files(dataset.run("r", "checkpoint"))
    assert [path.rsplit("/", 1)[1] for path in left] == ["one.parquet"]
