"""The shipped pair: loads with stock classes, is fed as it was trained, and sees."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.video_utils import VideoMetadata

from lvspec.demo import facts, heldout, path
from lvspec.demo.captions import PROMPT, caption
from lvspec.demo.data import Maker, patchify
from lvspec.demo.distill import MAX_TOKENS, greedy
from lvspec.demo.drawing import render
from lvspec.demo.evaluate import auc, rounds
from lvspec.demo.tokenizer import fact_ids


@pytest.fixture(scope="module", params=["target", "draft"])
def loaded(request: pytest.FixtureRequest) -> tuple[str, Any, Any]:
    folder = path(request.param)
    processor = AutoProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    return request.param, processor, model


def test_the_processor_feeds_what_training_fed(loaded: tuple[str, Any, Any]) -> None:
    _, processor, model = loaded
    scene = next(heldout(2))
    frames = render(scene)
    messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": PROMPT}]}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    metadata = VideoMetadata(
        total_num_frames=8,
        fps=8 / scene.duration_s,
        duration=scene.duration_s,
        frames_indices=list(range(8)),
    )
    fed = processor(
        text=[text],
        videos=[frames],
        video_metadata=[metadata],
        do_sample_frames=False,
        return_tensors="pt",
    )
    maker = Maker(processor.tokenizer, model)
    assert fed["input_ids"][0].tolist() == maker.prompt
    assert fed["video_grid_thw"].tolist() == [[4, 8, 8]]
    assert float(fed["second_per_grid_ts"][0]) == pytest.approx(scene.duration_s / 4)
    values = fed["pixel_values_videos"].numpy()
    assert np.allclose(values, patchify(frames[None])[0], atol=1e-5)
    positions, _ = model.model.get_rope_index(
        fed["input_ids"],
        mm_token_type_ids=fed["mm_token_type_ids"],
        video_grid_thw=fed["video_grid_thw"],
        second_per_grid_ts=fed["second_per_grid_ts"],
    )
    assert torch.equal(positions[:, 0], maker.positions(scene.duration_s, 0))


def test_the_model_says_what_it_sees_and_stops(loaded: tuple[str, Any, Any]) -> None:
    name, processor, model = loaded
    maker = Maker(processor.tokenizer, model)
    scenes = list(islice(heldout(2), 16))
    said = greedy(model, maker, maker.batch(np.random.default_rng(0), scenes))
    assert all(len(ids) < MAX_TOKENS for ids in said)
    scores = [
        facts.score(text, scene)
        for text, scene in zip(processor.batch_decode(said), scenes, strict=True)
    ]
    share = sum(right for right, _ in scores) / sum(total for _, total in scores)
    assert share > {"target": 0.9, "draft": 0.65}[name]


def test_generation_defaults(loaded: tuple[str, Any, Any]) -> None:
    _, processor, model = loaded
    assert model.generation_config.eos_token_id == processor.tokenizer.eos_token_id
    assert not model.generation_config.do_sample
    assert model.config.text_config.vocab_size >= len(processor.tokenizer)


def test_both_share_a_tokenizer_made_for_the_grammar() -> None:
    target, draft = (AutoProcessor.from_pretrained(path(n)).tokenizer for n in ("target", "draft"))
    assert target.get_vocab() == draft.get_vocab()
    assert len(set(fact_ids(target).values())) == len(facts.KIND)
    rng = np.random.default_rng(0)
    texts = [caption(rng, scene) for scene in islice(heldout(4), 200)]
    lengths = [len(ids) + 1 for ids in target(texts)["input_ids"]]
    assert min(lengths) >= 40
    assert max(lengths) <= 95
    assert target.batch_decode(target(texts)["input_ids"]) == texts


def test_the_files_are_few_and_small() -> None:
    files = [f for f in path("target").parent.rglob("*") if f.is_file()]
    assert sum(f.stat().st_size for f in files) < 30e6
    assert max(f.stat().st_size for f in files) < 20e6


def test_the_stored_table_meets_its_bounds() -> None:
    table = json.loads((path("target").parent / "heldout.json").read_text())
    assert table["scenes"] >= 256
    assert table["facts_target"]["all"] >= 0.95
    assert table["facts_draft"]["all"] < table["facts_target"]["all"] - 0.05
    assert table["cost_ratio"] >= 6
    assert 3 <= table["strict_tau_keep_10_percent"] <= 5
    assert table["mismatches_at_fillers"] > 0.5
    assert table["ended_share_target"] == 1


def test_rounds_follow_strict_speculation() -> None:
    # The first token is the target's; then runs of agreement, each closed by a target token.
    assert rounds([True] * 12, 10) == [10]
    assert rounds([True, False, True, True, False, True], 10) == [0, 2, 1]
    assert rounds([False] + [True] * 7, 3) == [3, 3]


def test_auc_of_known_orders() -> None:
    yes = torch.tensor([False, False, True, True])
    assert auc(torch.tensor([0.1, 0.2, 0.3, 0.4]), yes) == 1
    assert auc(torch.tensor([0.4, 0.3, 0.2, 0.1]), yes) == 0
    assert auc(torch.tensor([0.1, 0.3, 0.2, 0.4]), yes) == 0.75


def test_the_toy_world_imports_without_torch() -> None:
    code = (
        "import sys, lvspec.demo, lvspec.demo.captions, lvspec.demo.facts, lvspec.demo.video;"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
