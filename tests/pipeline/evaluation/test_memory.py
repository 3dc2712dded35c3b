"""Expected GPU memory against stock models' own counts, and what the configs say of it."""

import re
from pathlib import Path

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from lvspec import Lvspec
from pipeline.evaluation.memory import PAIRS, Dimensions, need
from pipeline.evaluation.settings import load_eval_config

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


@pytest.mark.parametrize("shape", [*PAIRS["qwen2_5_vl_32b"], *PAIRS["llava_onevision_72b"]])
def test_parameters_are_those_of_the_stock_model(shape: Dimensions) -> None:
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        tie_word_embeddings=False,
    )
    with torch.device("meta"):
        model = Qwen2ForCausalLM(config)
    assert sum(p.numel() for p in model.parameters()) == shape.text_parameters


def test_caches_by_hand() -> None:
    small = Dimensions(2, 8, 16, 4, 2, 10, 0, 5)
    # 4 frames: 20 video tokens, 103 of text; 2 x 2 layers x 2 heads x 2 x 2 bytes = 32 a token
    found = need(small, small, 4, 3, 0.1, slots=2)
    assert found.cache == 2 * ((20 + 103) * 32 + 20 * 8 * 2 + (2 + 103) * 32)
    assert need(small, small, 4, 3, 0.1, prefill_chunk=8).activations < found.activations


@pytest.mark.parametrize("name", PAIRS)
def test_the_papers_settings_and_the_memory_that_is_said(name: str) -> None:
    path = CONFIGS / f"eval_{name}.yaml"
    settings = load_eval_config(path)
    assert [b.frames.count for b in settings.benchmarks] == [64, 128, 128, 64]
    decoding = settings.decoding
    assert (decoding.policy, decoding.draft_length, decoding.keep) == (Lvspec(), 10, 0.1)
    assert decoding.sampling.temperature == 0
    worst = max(
        need(
            *PAIRS[name],
            b.frames.count,
            b.max_new_tokens,
            decoding.keep,
            decoding.slots,
            decoding.prefill_chunk,
        ).gib
        for b in settings.benchmarks
    )
    said = re.search(r"about (\d+) GiB at 128 frames", path.read_text())
    assert said
    assert int(said.group(1)) == round(worst)
