"""LVSpec: loosely speculative decoding for video LLMs.

    import lvspec
    pair = lvspec.load()  # the embedded demo pair; or ModelSettings(target=...)
    result = lvspec.caption(pair, "video.mp4")
    print(result.text, result.stats)

Importing this package does not import torch: settings and values come at once, the rest on first
use, so that processes which only decode video or plan work stay small.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lvspec.config import (
    DecodeSettings,
    Entropy,
    Exact,
    Fly,
    FrameSettings,
    Gate,
    Lvspec,
    ModelSettings,
    Sampling,
    SettingError,
)
from lvspec.types import Generation, GenerationStats, LoadError, Refusal, Request

if TYPE_CHECKING:
    from lvspec.captioning import caption, generate
    from lvspec.engine import Engine
    from lvspec.pair import Pair, check, frame_spec, load
    from lvspec.video import VideoError

_LAZY = {
    "Engine": "engine",
    "Pair": "pair",
    "VideoError": "video",
    "caption": "captioning",
    "check": "pair",
    "frame_spec": "pair",
    "generate": "captioning",
    "load": "pair",
}

__all__ = [
    "DecodeSettings",
    "Engine",
    "Entropy",
    "Exact",
    "Fly",
    "FrameSettings",
    "Gate",
    "Generation",
    "GenerationStats",
    "LoadError",
    "Lvspec",
    "ModelSettings",
    "Pair",
    "Refusal",
    "Request",
    "Sampling",
    "SettingError",
    "VideoError",
    "caption",
    "check",
    "frame_spec",
    "generate",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"lvspec.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'lvspec' has no attribute {name!r}")
