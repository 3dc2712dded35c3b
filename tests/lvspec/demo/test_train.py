"""The training command hangs together; quality is the table's matter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lvspec.demo.distill import Imitation
from lvspec.demo.evaluate import load
from lvspec.demo.train import Plan, train


@pytest.mark.slow
def test_a_tiny_plan_makes_a_pair(tmp_path: Path) -> None:
    plan = Plan(
        see_steps=2,
        speak_steps=2,
        deepen_steps=2,
        batch=4,
        draft_see_steps=2,
        lessons=1,
        imitation=Imitation(steps=2),
    )
    train(plan, 0, tmp_path, scenes=4)
    table = json.loads((tmp_path / "heldout.json").read_text())
    assert table["scenes"] == 4
    layers = [
        len(load(tmp_path / n).model.model.language_model.layers) for n in ("target", "draft")
    ]
    assert layers == [16, 2]
