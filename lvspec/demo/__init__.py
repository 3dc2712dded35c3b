"""The embedded pair: two small, really trained video LLMs, and the toy world they describe.

Everything about acceptance, speed and fidelity can be measured on it without a download or an
accelerator. `scenes` draws clips, `captions` words them, `facts` scores what a caption says,
`video` writes real files; `train` makes both models from a seed. The folders that `path` gives load
with `AutoProcessor` and `AutoModelForImageTextToText`. Importing this package loads neither torch
nor transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lvspec.demo.scenes import Scene, scene_stream

NAMES = ("target", "draft")
HELD_OUT_SPACE = 2


def path(name: str) -> Path:
    """The folder of the shipped "target" or "draft"."""
    if name not in NAMES:
        raise ValueError(f"no model named {name!r} in the pair; there are 'target' and 'draft'")
    return Path(__file__).parent / "pair" / name


def heldout(seed: int) -> Iterator[Scene]:
    """An endless stream of scenes that no training saw, whatever the seed: it has its own space of
    random states.
    """
    return scene_stream(seed, HELD_OUT_SPACE)
