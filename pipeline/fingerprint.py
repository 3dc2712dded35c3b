"""The fingerprint of a dataset: a hash of every setting that changes captions.

New settings are part of it unless they are named in `NEUTRAL`: forgetting one then costs a refused
run, not a dataset of two kinds of captions.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pipeline.config import JobSettings, as_tree

# Sections whose settings say how captions are made ...
SECTIONS = ("models", "frames", "decoding", "clips", "video")
# ... and the settings in them that only say where and how fast.
NEUTRAL = frozenset(
    {
        "models.device",
        "models.device_map",
        "models.attn_implementation",
        "decoding.slots",
        "decoding.deadline_s",  # captions that are done in time are the same
        "clips.timeout_s",
        "video.num_cpus",
        "video.timeout_s",
        "video.memory_mb",
    }
)


def caption_settings(settings: JobSettings) -> dict[str, Any]:
    """The settings that the fingerprint covers, by dotted key."""
    tree = as_tree(settings)
    flat = _flatten({section: tree[section] for section in SECTIONS})
    return {key: value for key, value in flat.items() if key not in NEUTRAL}


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def fingerprint(covered: Mapping[str, Any]) -> str:
    """16 hex digits of what `caption_settings` returned."""
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line per setting that differs: `decoding.keep: 0.1 in the dataset, 0.2 now`."""
    lines: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        before, now = old.get(key, "(not set)"), new.get(key, "(not set)")
        if before != now:
            lines.append(f"{key}: {before!r} in the dataset, {now!r} now")
    return lines
