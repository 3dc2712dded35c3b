"""The demo corpus: real files, two broken ones, the same when written again."""

from pathlib import Path

import pytest

from jobs.make_demo_corpus import main, make_corpus
from lvspec.video import FrameSpec, VideoError, read_clip

SPEC = FrameSpec(count=8, factor=28, min_pixels=112 * 112, max_pixels=112 * 112)


def test_it_writes_what_the_reader_reads(tmp_path: Path) -> None:
    assert make_corpus(tmp_path, clips=4) == 6
    scenes = sorted(tmp_path.glob("scene_*"))
    assert [path.suffix for path in scenes] == [".mp4", ".mp4", ".mkv", ".webm"]
    for path in scenes:
        clip = read_clip(str(path), SPEC)
        assert clip.frames.shape == (8, 112, 112, 3)
        assert 2 <= clip.info.duration_s <= 4.1
    for path in tmp_path.glob("broken_*"):
        with pytest.raises(VideoError):
            read_clip(str(path), SPEC)


def test_a_second_time_it_changes_nothing(tmp_path: Path) -> None:
    arguments = ["--output", str(tmp_path / "videos"), "--clips", "2"]
    assert main(arguments) == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "videos").iterdir()}
    assert main(arguments) == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "videos").iterdir()} == before
