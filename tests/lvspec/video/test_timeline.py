"""Extents and all pictures in order, on videos made here and on the corpus of odd videos."""

from pathlib import Path

import numpy as np
import pytest

from lvspec.video import FrameSpec, VideoError, read_clip
from lvspec.video.timeline import read_extent, see_all
from tests.lvspec.video import odd_cases, small

PTS_MS = [0, 40, 80, 480, 500, 1500, 1540]  # a rate that varies, with a gap


def test_pictures_come_in_order_with_their_times_whatever_the_rate(tmp_path: Path) -> None:
    path = small.write(tmp_path / "vfr.mkv", count=len(PTS_MS), pts_ms=PTS_MS)
    seen: list[int] = []

    def see(number: int, picture: np.ndarray) -> None:
        assert number == len(seen)
        seen.append(small.read(picture))

    times, end_s = see_all(str(path), see, side=96)
    assert seen == list(range(len(PTS_MS)))
    assert np.allclose(times, np.array(PTS_MS) / 1000)
    assert 1.54 < end_s < 1.7
    assert read_extent(str(path)) == (0.0, pytest.approx(end_s))


def test_pictures_are_scaled_down_and_never_up(tmp_path: Path) -> None:
    path = small.write(tmp_path / "a.mkv", count=2, pts_ms=[0, 40])
    shapes: list[tuple[int, ...]] = []
    see_all(str(path), lambda _, picture: shapes.append(picture.shape), side=48)
    see_all(str(path), lambda _, picture: shapes.append(picture.shape), side=500)
    assert shapes == [(32, 48, 3)] * 2 + [(64, 96, 3)] * 2


def test_what_is_no_video_has_no_extent(tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_bytes(b"hello, this is text\n" * 20)
    for call in (read_extent, lambda path: see_all(path, lambda *_: None, side=64)):
        with pytest.raises(VideoError) as caught:
            call(str(tmp_path / "text.mp4"))
        assert caught.value.code == "not_a_video"


@pytest.mark.parametrize("name", odd_cases.names("healthy"))
def test_an_extent_is_the_span_that_the_reader_takes(name: str) -> None:
    path = str(odd_cases.VIDEOS / name)
    info = read_clip(path, FrameSpec(1, 28, 28 * 28, 28 * 28)).info
    assert read_extent(path) == (pytest.approx(info.start_s), pytest.approx(info.end_s))


@pytest.mark.parametrize("name", odd_cases.names("healthy"))
def test_times_of_all_pictures_are_the_generators(name: str) -> None:
    if odd_cases.expected()[name]["size"][0] > 2000 or name == "t15_one_hour.mp4":
        pytest.skip("an hour or 4K of pictures: decoding all of them takes too long here")
    case = odd_cases.expected()[name]
    times, end_s = see_all(str(odd_cases.VIDEOS / name), lambda *_: None, side=64)
    assert len(times) == len(case["index"])
    assert times == sorted(times)
    assert end_s > times[-1]
    if name not in odd_cases.CLOCK_JUMPS:
        expected = np.array(case["time_s"]) - case["time_s"][0]
        assert np.allclose(np.array(times) - times[0], expected, atol=2e-3)
