"""How a scene looks at any moment, and how much of each video token's area its things cover there.

numpy only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lvspec.demo.scenes import CELL, FRAMES, SIDE, Scene, Thing

_Y, _X = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
_CELL_OF = np.eye(SIDE // CELL, dtype=np.float32).repeat(CELL, 0)  # [112, 4]: pixel -> cell
_NOISE_FIELDS = 64
_NOISE_STD = 7.0


def frame_moments(num_frames: int) -> NDArray[np.float64]:
    """The moments `u` of `num_frames` frames: centres of equal parts of the clip, [num_frames]."""
    return (np.arange(num_frames) + 0.5) / num_frames


def render(scene: Scene, num_frames: int = FRAMES) -> NDArray[np.uint8]:
    """Frames at the centres of `num_frames` equal parts of the clip, uint8 [num_frames, 112, 112,
    3] RGB.
    """
    return render_at(scene, frame_moments(num_frames))


def render_at(scene: Scene, moments: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Frames at the given moments (0..1), uint8 [T, 112, 112, 3] RGB. The noise differs from frame
    to frame.
    """
    frames = np.empty((len(moments), SIDE, SIDE, 3), np.float32)
    frames[:] = np.array(scene.background_rgb, np.float32)
    for thing in scene.things:
        for frame, u in zip(frames, moments, strict=True):
            covered = _cover(thing, float(u))
            if covered is not None:
                (rows, columns), alpha = covered
                patch = frame[rows, columns]
                patch += alpha[..., None] * (np.array(thing.rgb_at(float(u)), np.float32) - patch)
    rng = np.random.default_rng(scene.noise_seed)
    offset = rng.integers(SIDE, size=2)
    for i, k in enumerate(rng.integers(_NOISE_FIELDS, size=len(moments))):
        frames[i] += np.roll(_noise()[k], (int(offset[0]), int(offset[1])), (0, 1))
    return np.clip(frames, 0, 255).astype(np.uint8)


_noise_cache: list[NDArray[np.float32]] = []


def _noise() -> NDArray[np.float32]:
    """Noise of two-pixel grain, [64, 112, 112, 1], made once (drawing it anew costs more than all
    the rest of a frame).
    """
    if not _noise_cache:
        grain = np.random.default_rng(1).standard_normal(
            (_NOISE_FIELDS, SIDE // 2, SIDE // 2, 1), dtype=np.float32
        )
        _noise_cache.append((grain * _NOISE_STD).repeat(2, 1).repeat(2, 2))
    return _noise_cache[0]


def _cover(thing: Thing, u: float) -> tuple[tuple[slice, slice], NDArray[np.float32]] | None:
    """The box a thing covers at moment `u` and its opacity there, [h, w] in 0..1; None where
    nothing shows.
    """
    r = thing.radius_at(u)
    cx, cy = thing.centre(u)
    x0, x1 = max(0, int(cx - r - 2)), min(SIDE, int(cx + r + 3))
    y0, y1 = max(0, int(cy - r - 2)), min(SIDE, int(cy + r + 3))
    if r <= 0 or x1 <= x0 or y1 <= y0:
        return None
    dx, dy = _X[y0:y1, x0:x1] - np.float32(cx), _Y[y0:y1, x0:x1] - np.float32(cy)
    ax, ay = np.abs(dx), np.abs(dy)
    if thing.shape == "circle":
        depth = r - np.hypot(dx, dy)
    elif thing.shape == "ring":
        far = np.hypot(dx, dy)
        depth = np.minimum(r - far, far - 0.55 * r)
    elif thing.shape == "square":
        depth = 0.86 * r - np.maximum(ax, ay)
    elif thing.shape == "diamond":
        depth = (1.1 * r - ax - ay) * 0.75
    elif thing.shape == "cross":
        arm = 0.3 * r
        depth = np.maximum(np.minimum(arm - ax, r - ay), np.minimum(arm - ay, r - ax))
    else:  # triangle
        depth = np.minimum(0.75 * r - dy, (dy + r) * 0.45 - ax * 0.9)
    alpha = np.clip(depth + 0.5, 0, 1).astype(np.float32)
    return (slice(y0, y1), slice(x0, x1)), alpha


def coverage(scene: Scene, moments: NDArray[np.float64]) -> NDArray[np.float32]:
    """Share of each video token's area that each thing covers, [things, T / 2, 4, 4]."""
    n = SIDE // CELL
    area = np.zeros((len(scene.things), len(moments) // 2, n, n), np.float32)
    for k, thing in enumerate(scene.things):
        for t, u in enumerate(moments):
            covered = _cover(thing, float(u))
            if covered is not None:
                (rows, columns), alpha = covered
                area[k, t // 2] += _CELL_OF[rows].T @ alpha @ _CELL_OF[columns]
    return area / np.float32(2 * CELL * CELL)
