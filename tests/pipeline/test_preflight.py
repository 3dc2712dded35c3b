"""What is refused before anything is written."""

from pathlib import Path

import pytest
import torch

from pipeline.config import JobSettings, parse_config
from pipeline.corpus import caption_corpus, dry_run
from pipeline.errors import ConfigError, SourceError
from pipeline.preflight import check_devices, check_output

LACKS = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


def settings(tmp_path: Path, **kwargs) -> JobSettings:
    tree = {"source": {"prefix": str(tmp_path)}, "output": str(tmp_path / "out")}
    return parse_config({**tree, **kwargs})


# fsspec complains of its own half-made client when it goes
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_output_that_no_client_opens(tmp_path):
    for output in ("ftp://x/y", "nosuch://x/y"):
        with pytest.raises(ConfigError, match=f"output = '{output}'"):
            check_output(settings(tmp_path, output=output))


@LACKS
@pytest.mark.parametrize(
    "section,words",
    [
        ({"caption": {"num_gpus": 1}}, "caption.num_gpus = 1: this machine has 0"),
        ({"models": {"device": "cuda"}, "caption": {"num_gpus": 0}}, "models.device = 'cuda'"),
    ],
)
def test_devices_that_a_local_run_lacks(tmp_path, section, words):
    wrong = settings(tmp_path, **section)
    with pytest.raises(ConfigError, match=words):
        check_devices(wrong, environ={})
    check_devices(wrong, environ={"RAY_ADDRESS": "auto"})  # a cluster may have them


@pytest.mark.parametrize("text", ["", "uri\n", "video,x\n"])
def test_a_manifest_without_a_row_is_told(tmp_path, text):
    (tmp_path / "m.csv").write_text(text)
    source = {"manifest": str(tmp_path / "m.csv")}
    for run in (caption_corpus, dry_run):
        with pytest.raises(SourceError, match="lists nothing"):
            run(settings(tmp_path, source=source))
    assert not (tmp_path / "out" / "dataset.json").exists()
