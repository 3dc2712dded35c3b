"""The corpus of odd videos that lies beside the project (../shared/cases), where it is there, and
what "right" means on it. Used by test_cases.py and by measure_decoders.py."""

from __future__ import annotations

import json
import sys
import time
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lvspec.video import Clip, FrameSpec, VideoError, read_clip

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "cases"
VIDEOS = FOLDER / "videos"
SPEC = FrameSpec(count=16, factor=28, min_pixels=56 * 56, max_pixels=320 * 320)

COLOURS = np.array(  # of the 8 patches in the lower half, by make_videos.py
    [
        *((200, 40, 40), (40, 180, 60), (50, 60, 200), (210, 200, 50)),
        *((40, 190, 200), (190, 60, 190), (230, 230, 230), (110, 110, 110)),
    ],
    np.float64,
)
CLOCK_JUMPS = {  # their listed times go back; what is shown is checked by order instead
    "g05_size_change.ts",
    "g06_size_change.mp4",
    "t05b_neg_start.mkv",
    "t17_ts_pts_reset.ts",
}
NO_COLOUR_CHECK = {  # HDR (not tone-mapped), grey, and 17 pixels wide with halved chroma
    "p02_h265_hdr10.mp4",
    "p03_h265_hlg.mp4",
    "p12_gray.mp4",
    "g01b_17x33_vp9.webm",
}


@cache
def expected() -> dict[str, dict[str, Any]]:
    """Per file what its generator says of it; empty where the corpus is not there."""
    listing = FOLDER / "expected.json"
    return json.loads(listing.read_text()) if listing.exists() else {}


def names(kind: str) -> list[str]:
    return sorted(name for name, case in expected().items() if case["kind"] == kind)


def read_index(picture: np.ndarray) -> tuple[int, int]:
    """(index or -1, quarter turns that make it upright), by the corpus's own reader."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    import read_index as corpus

    return corpus.read(picture)


def shown_indices(name: str, clip: Clip) -> list[set[int]]:
    """Per picture the indices that are right: two where a frame changes at the asked time."""
    case = expected()[name]
    times, index = np.array(case["time_s"]), case["index"]
    at = clip.times_s + times[0]
    if name in CLOCK_JUMPS:
        times = np.arange(len(times)) * clip.info.duration_s / len(times)
        at = clip.times_s
    half_ms = 1e-3  # times are listed to 4 digits, and milliseconds are Matroska's grid
    pairs = [(bisect_right(times, t - half_ms), bisect_right(times, t + half_ms)) for t in at]
    return [{index[max(0, a - 1)], index[max(0, b - 1)]} for a, b in pairs]


def colour_error(picture: np.ndarray) -> float:
    """Largest channel error of the 8 patches of an upright picture."""
    h, w = picture.shape[:2]
    ys = (h // 2, h // 2 + (h - h // 2) // 2, h)
    xs = [round(w * c / 4) for c in range(5)]
    means: list[np.ndarray] = []
    for k in range(8):
        r, c = divmod(k, 4)
        dy, dx = (ys[r + 1] - ys[r]) // 4, (xs[c + 1] - xs[c]) // 4
        patch = picture[ys[r] + dy : ys[r + 1] - dy, xs[c] + dx : xs[c + 1] - dx]
        means.append(patch.reshape(-1, 3).mean(axis=0))
    return float(np.abs(np.array(means) - COLOURS).max())


@dataclass(frozen=True)
class Verdict:
    """outcome: "right", "wrong" (with the worst distance in frames), or a VideoError's code."""

    outcome: str
    worst: int
    cpu_s: float


def judge(name: str, decoder: str) -> Verdict:
    """Read a healthy file and compare with what its generator says."""
    began = time.process_time()
    try:
        clip = read_clip(str(VIDEOS / name), SPEC, decoder=decoder)
    except VideoError as error:
        return Verdict(error.code, 0, time.process_time() - began)
    cpu_s = time.process_time() - began
    worst = 0
    for picture, right in zip(clip.frames, shown_indices(name, clip), strict=True):
        index, turns = read_index(picture)
        off = min(abs(index - r) for r in right)
        if index < 0 or turns != expected()[name]["turns"]:
            off = 10_000
        worst = max(worst, off)
    return Verdict("right" if worst == 0 else "wrong", worst, cpu_s)
