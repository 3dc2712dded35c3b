"""Canaries in every place that can hold a secret: none of them is printed or written."""

import io
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq
import pytest
import yaml

from jobs import caption_corpus as command
from pipeline.config import parse_config, to_yaml
from pipeline.corpus import caption_corpus
from pipeline.errors import ConfigError
from pipeline.secrets import scrub, secrets_of, shown, signed, unsigned
from tests.pipeline.fakes import FAKE
from tests.pipeline.fault_proxy import Fault, faulty
from tests.pipeline.servers import serving
from tests.pipeline.videos import write_video

CANARY = "h7u3s5h"  # in no path, name or message of ours


def test_addresses_lose_what_signs_them_and_nothing_else() -> None:
    for query, left in {
        "X-Amz-Algorithm=A&X-Amz-Credential=c&X-Amz-Date=d&X-Amz-Expires=9&X-Amz-Signature=s": "",
        "versionId=3&x-amz-signature=s": "?versionId=3",
        "AWSAccessKeyId=a&Expires=5&Signature=s": "",
        "sv=2024&se=x&sr=b&sp=r&sig=s%2B": "",
        "Policy=p&Signature=s&Key-Pair-Id=k": "",
        "token=t&id=7": "?id=7",
    }.items():
        for address in ("https://h/v.mp4", "tar://m.mp4::http://h/s.tar"):
            own, kept = unsigned(f"{address}?{query}")
            assert (own, kept) == (f"{address}{left}", query)
            assert signed(own, kept) == f"{address}?{query}"
    for whole in ("https://h/v.mp4?id=7&sr=3", "https://h/v.mp4", "s3://b/v?token=5.mp4", "/a?b"):
        assert unsigned(whole) == (whole, None)


@pytest.mark.parametrize(
    "text",
    [
        f"GET https://h/v?X-Amz-Credential={CANARY}&X-Amz-Signature={CANARY} failed",
        f"403, url='https://h/v?sv=1&sig={CANARY}%3D'",
        f"cannot open https://ann:{CANARY}@host/v.mp4",
        f"Authorization: Bearer {CANARY}.{CANARY}",
        f"the value of {CANARY} in the options",
    ],
)
def test_texts_are_scrubbed(text: str) -> None:
    said = scrub(text, frozenset({CANARY}) if "value" in text else frozenset())
    assert CANARY not in said
    assert "***" in said
    assert scrub(said) == said


def test_of_options_only_what_is_harmless_is_shown() -> None:
    options = {
        "s3": {
            "key": f"{CANARY}1", "secret": f"{CANARY}2", "token": f"{CANARY}3", "anon": False,
            "endpoint_url": f"http://ann:{CANARY}4@minio:9000", "connect_timeout": 5,
            "client_kwargs": {"region_name": "eu", "aws_session_token": f"{CANARY}5"},
        },
        "az": {"account_name": "a", "connection_string": f"AccountKey={CANARY}6", "pin_token": 77},
        "https": {"client_kwargs": {"headers": {"X-Odd": f"{CANARY}7"}, "auth": [f"{CANARY}8"]}},
        "retry_s": 5,
    }  # fmt: skip
    said = shown(options)
    assert CANARY not in json.dumps(said)
    assert said["s3"]["client_kwargs"]["region_name"] == "eu"
    assert (said["s3"]["anon"], said["s3"]["connect_timeout"], said["retry_s"]) == (False, 5, 5)
    assert said["az"] == {"account_name": "a", "connection_string": "***", "pin_token": "***"}
    assert secrets_of(options) >= {f"{CANARY}{n}" for n in (1, 2, 3, 5, 7, 8)}


@pytest.mark.parametrize("key", ["source.prefix", "source.manifest", "output"])
def test_an_address_with_a_password_is_refused(key: str) -> None:
    tree: dict[str, Any] = {"source": {"prefix": "v"}, "output": "o"}
    if key == "output":
        tree["output"] = f"https://ann:{CANARY}@h/o"
    else:
        tree["source"] = {key.split(".")[1]: f"https://ann:{CANARY}@h/o.csv"}
    expected = rf"^{key} = .*\*\*\*@h/o.* belongs into `storage`"
    with pytest.raises(ConfigError, match=expected) as error:
        parse_config(tree)
    assert CANARY not in str(error.value)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """Hands a video over to whoever has the signature of the day."""
    video = write_video(tmp_path / "v.mp4", brightness=90).read_bytes()

    class Signed(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = video if f"X-Amz-Signature={CANARY}" in self.path else b""
            asked = self.headers.get("Range", "bytes=0-").removeprefix("bytes=")
            first, _, last = asked.partition("-")
            part = data[int(first) : int(last or len(data)) + 1]
            self.send_response(403 if not data else 206 if "Range" in self.headers else 200)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", '"one"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(part)

        do_HEAD = do_GET  # noqa: N815  # the name that http.server calls

        def log_message(self, format: str, *args: object) -> None: ...

    with serving(Signed) as address:
        yield address


def all_text(folder: Path) -> str:
    """Every byte of a folder, and every row of its Parquet files (which are compressed)."""
    texts = [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]
    tables = [pq.read_table(file, partitioning=None) for file in folder.rglob("*.parquet")]
    return "\n".join(texts + [str(table.to_pylist()) for table in tables])


@pytest.mark.usefixtures("local_ray")
def test_signed_addresses_are_read_and_their_signatures_kept_nowhere(
    web: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    manifest, out = tmp_path / "m.txt", tmp_path / "out"
    tree = {"source": {"manifest": str(manifest)}, "output": str(out), "models": {"target": "s"}}
    said = io.StringIO()
    for day, (planned, held) in enumerate([(2, 0), (0, 2)]):
        query = f"X-Amz-Signature={CANARY}{day}&X-Amz-Expires={day}"
        manifest.write_text(f"{web}/a.mp4?{query}\n{web}/b.mp4?sig=wrong{CANARY}\n")
        summary = caption_corpus(parse_config(tree), backend=FAKE, out=said)
        assert (summary.manifest_rows, summary.already_held) == (planned, held)
    captions = [pq.read_table(p, partitioning=None) for p in (out / "captions").rglob("*.parquet")]
    assert [(r["uri"], r["video_id"]) for t in captions for r in t.to_pylist()] == [
        (f"{web}/a.mp4", f"{web}/a.mp4")
    ]
    errors = [pq.read_table(p, partitioning=None) for p in (out / "errors").rglob("*.parquet")]
    assert [r["error_code"] for t in errors for r in t.to_pylist()] == ["no_permission"]
    everything = said.getvalue() + "".join(capfd.readouterr()) + all_text(out)
    assert f"{web}/a.mp4" in everything
    assert CANARY not in everything


FAILURES: dict[str, tuple[dict[str, Any], Fault | None]] = {
    "good": ({}, None),
    "bad bucket": ({"source": {"prefix": "s3://none/videos"}}, None),
    "denied": ({}, Fault("denied")),
    "down": ({}, Fault("internal")),
    "broken engine": ({"models": {"target": "broken"}}, None),
    "models that do not load": ({"models": {"target": "unloadable"}}, None),
    "video that never comes": ({}, Fault("internal", path="v.mp4", method="GET")),
}


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("failure", FAILURES)
def test_no_canary_gets_out(
    failure: str,
    s3_endpoint: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    keys = {"aws_access_key_id": "t", "aws_secret_access_key": "t"}
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1", **keys)
    client.create_bucket(Bucket="canaries")
    client.upload_file(str(write_video(tmp_path / "v.mp4", 50)), "canaries", "videos/v.mp4")
    changes, fault = FAILURES[failure]
    with faulty(s3_endpoint, *([fault] if fault else [])) as proxy:
        client_kwargs = {"aws_session_token": f"{CANARY}-token", "endpoint_url": proxy.url}
        s3 = {"key": f"{CANARY}-key", "secret": f"{CANARY}-secret", "client_kwargs": client_kwargs}
        tree = {
            "source": {"prefix": "s3://canaries/videos"},
            "output": str(tmp_path / "out"),
            "models": {"target": "scripted"},
            "video": {"timeout_s": 60},
            "storage": {"s3": s3, "retry_s": 1},
            **changes,
        }
        config = tmp_path / "job.yaml"
        config.write_text(yaml.safe_dump(tree))
        code = command.main(["--config", str(config), "--json"], FAKE)
        command.main(["--config", str(config), "--print-config"])
    said = "".join(capfd.readouterr())
    expected = {"good": 0, "video that never comes": 3, "bad bucket": 2, "denied": 2}
    assert code == expected.get(failure, 1), said
    assert "prefix: s3://" in said
    everything = said + (all_text(tmp_path / "out") if (tmp_path / "out").exists() else "")
    assert CANARY not in everything
    assert CANARY not in to_yaml(parse_config(tree))
