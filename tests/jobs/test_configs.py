"""Every file in configs/ loads, and says in its comments nothing that its values contradict."""

from pathlib import Path

import pytest

from lvspec import DecodeSettings, Lvspec
from lvspec.benchmark import methods
from pipeline.config import load_config

ALL = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.yaml"))
# The others: test_evaluate.py, tests/pipeline/benchmark/test_sweep.py.
CONFIGS = [path for path in ALL if not path.stem.startswith(("eval_", "benchmark_"))]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_it_loads_with_the_rule_that_was_measured(path: Path) -> None:
    settings = load_config(path)
    decoding = settings.decoding
    if path.stem == "demo":  # whose rule was measured on its own pair
        measured = methods(DecodeSettings())["tiered-long"].settings
        assert (decoding.policy, decoding.draft_length) == (measured.policy, measured.draft_length)
    else:
        assert (decoding.policy, decoding.draft_length) == (Lvspec(), 10)
    assert settings.models.draft is not None


def test_all_promised_pairs_are_there() -> None:
    names = {path.stem for path in CONFIGS}
    assert names == {"demo", "qwen2_5_vl_7b", "qwen2_5_vl_32b", "llava_onevision_72b"}


def test_the_demo_needs_no_gpu() -> None:
    settings = load_config(next(path for path in CONFIGS if path.stem == "demo"))
    assert (settings.models.target, settings.models.draft) == ("demo", "demo")
    assert settings.caption.num_gpus == 0
