"""Cutting real videos: windows by what the file says, scenes by its pictures and their times."""

from pathlib import Path

import pytest

from pipeline.clips import ClipSettings
from pipeline.decoding.cut import CutJob, Cuts, cut
from pipeline.decoding.process import DecoderProcess
from pipeline.decoding.types import Failed
from tests.pipeline.videos import write_greys, write_video

WINDOWS = ClipSettings("windows", length_s=1.0, minimum_s=0.25)
SCENES = ClipSettings("scenes", minimum_s=0.5)


def job(path: Path, clips: ClipSettings) -> CutJob:
    return CutJob(str(path), None, clips, {})


def test_windows_of_a_file(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", brightness=50, frames=60)  # 2.5 s
    assert cut(job(path, WINDOWS)) == Cuts(((0, 1000), (1000, 2000), (2000, 2500)))


def test_scenes_are_cut_at_the_times_of_pictures_whatever_the_frame_rate(tmp_path: Path) -> None:
    """10 frames of dark at 10 per second, 10 of bright at 5, 30 of dark at 30: the cuts lie where
    the picture changes, not where a constant rate would put them.
    """
    pts = [100 * i for i in range(10)]
    pts += [1000 + 200 * i for i in range(10)]
    pts += [3000 + round(1000 / 30 * i) for i in range(30)]
    greys = [40] * 10 + [200] * 10 + [90] * 30
    found = cut(job(write_greys(tmp_path / "vfr.mkv", greys, pts), SCENES))
    assert isinstance(found, Cuts)
    assert [start for start, _ in found.spans] == [0, 1000, 3000]
    assert found.spans[-1][1] == pytest.approx(4000, abs=40)


def test_a_flash_is_no_scene_and_a_still_is_one(tmp_path: Path) -> None:
    pts = [40 * i for i in range(50)]
    still = write_greys(tmp_path / "still.mp4", [90] * 50, pts)
    flash = write_greys(tmp_path / "flash.mp4", [90] * 20 + [250] * 3 + [90] * 27, pts)
    assert cut(job(still, SCENES)) == Cuts(((0, 2000),))
    found = cut(job(flash, SCENES))
    assert isinstance(found, Cuts)
    assert all(end - start >= 500 for start, end in found.spans)


@pytest.mark.parametrize("clips", [WINDOWS, SCENES], ids=["windows", "scenes"])
def test_what_cannot_be_cut_has_the_codes_of_decoding(tmp_path: Path, clips: ClipSettings) -> None:
    (tmp_path / "text.mp4").write_bytes(b"hello, this is text\n" * 20)
    for name, code in (("text.mp4", "not_a_video"), ("gone.mp4", "missing_file")):
        found = cut(job(tmp_path / name, clips))
        assert isinstance(found, Failed)
        assert found.code == code


def test_in_the_decoder_process(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", brightness=50, frames=36)
    process = DecoderProcess()
    try:
        found = process.run(job(path, WINDOWS), timeout_s=60, memory_mb=1024)
        assert found == Cuts(((0, 1000), (1000, 1500)))
    finally:
        process.close()
