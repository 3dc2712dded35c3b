"""Written files are real videos, and read back as what the models were trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from lvspec.demo import heldout, video
from lvspec.demo.drawing import frame_moments, render


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".webm"])
def test_a_file_shows_its_scene(tmp_path: Path, suffix: str) -> None:
    scene = replace(next(heldout(3)), duration_s=2.0)
    file = tmp_path / f"clip{suffix}"
    video.write(scene, file, fps=24)
    with av.open(str(file)) as container:
        assert float(container.streams.video[0].average_rate or 0) == pytest.approx(24)
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == 48
    picked = [frames[int(u * 48)] for u in frame_moments(8)]
    shown, drawn = np.stack(picked).astype(float), render(scene).astype(float)
    # Each frame has its own noise, so compare means over 8 x 8 pixels.
    blocks = np.abs((shown - drawn).reshape(8, 14, 8, 14, 8, 3).mean((2, 4)))
    assert blocks.mean() < 4
    assert np.percentile(blocks, 99) < 25


def test_unknown_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"choose one of \.mp4"):
        video.write(next(heldout(3)), tmp_path / "clip.gif")
