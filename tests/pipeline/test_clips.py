"""Spans of clips: windows and scenes, on whole milliseconds."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvspec.config import SettingError
from pipeline.clips import ClipSettings, extent_ms, scenes, windows

EXTENTS = st.tuples(st.integers(0, 5000), st.integers(1, 60_000)).map(lambda t: (t[0], sum(t)))
SECONDS = st.integers(1, 20_000).map(lambda ms: ms / 1000)


def windowed(
    extent: tuple[int, int], length: float, stride: float | None = None, least: float = 1.0
) -> list[tuple[int, int]]:
    settings = ClipSettings("windows", length_s=length, stride_s=stride, minimum_s=least)
    return windows(extent, settings)


@pytest.mark.parametrize(
    ("extent", "length", "stride", "expected"),
    [
        ((0, 20_000), 10, None, [(0, 10_000), (10_000, 20_000)]),
        ((0, 20_500), 10, None, [(0, 10_000), (10_000, 20_000)]),  # a rest below the minimum
        ((0, 23_000), 10, None, [(0, 10_000), (10_000, 20_000), (20_000, 23_000)]),
        ((0, 400), 10, None, [(0, 400)]),  # a video below the minimum is still a clip
        ((0, 20_000), 10, 5, [(0, 10_000), (5_000, 15_000), (10_000, 20_000)]),
        ((0, 12_000), 2, 5, [(0, 2_000), (5_000, 7_000), (10_000, 12_000)]),
        ((500, 4_000), 2, None, [(500, 2_500), (2_500, 4_000)]),
    ],
)
def test_windows(
    extent: tuple[int, int], length: float, stride: float | None, expected: list[tuple[int, int]]
) -> None:
    assert windowed(extent, length, stride) == expected


@given(EXTENTS, SECONDS, st.one_of(st.none(), SECONDS), SECONDS)
def test_windows_cover_a_video_as_promised(
    extent: tuple[int, int], length: float, stride: float | None, least: float
) -> None:
    least = min(least, length)
    spans = windowed(extent, length, stride, least)
    length_ms, stride_ms = round(length * 1000), round((stride or length) * 1000)
    assert spans[0][0] == extent[0]
    assert [start for start, _ in spans] == [extent[0] + i * stride_ms for i in range(len(spans))]
    assert all(0 < end - start <= length_ms and end <= extent[1] for start, end in spans)
    assert all(end - start >= round(least * 1000) for start, end in spans[1:])
    assert all(a[1] < b[1] for a, b in pairwise(spans))  # none lies in the one before
    left_over = extent[1] - max(spans[-1][1], spans[-1][0] + stride_ms)
    assert left_over < round(least * 1000)


@given(EXTENTS, st.lists(st.integers(0, 70_000)), SECONDS)
def test_scenes_have_no_gaps_and_none_is_short(
    extent: tuple[int, int], cuts: list[int], least: float
) -> None:
    settings = ClipSettings("windows", length_s=100, minimum_s=least)
    spans = scenes(extent, cuts, settings)
    assert (spans[0][0], spans[-1][1]) == extent
    assert all(a[1] == b[0] for a, b in pairwise(spans))
    assert {start for start, _ in spans[1:]} <= set(cuts)
    if len(spans) > 1:
        assert all(end - start >= round(least * 1000) for start, end in spans)


def test_scenes_are_cut_where_it_cuts() -> None:
    settings = ClipSettings(minimum_s=1.0)
    cuts = [200, 3_000, 3_500, 9_500]
    assert scenes((0, 10_000), cuts, settings) == [(0, 3_000), (3_000, 10_000)]


@given(st.floats(0, 1e5), st.floats(1e-4, 1e5))
def test_an_extent_in_milliseconds_lies_inside(start_s: float, length_s: float) -> None:
    start, end = extent_ms(start_s, start_s + length_s)
    assert start < end
    assert start / 1000 >= start_s - 1e-6
    assert end / 1000 <= max(start_s + length_s, (start + 1) / 1000) + 1e-6


def test_a_frame_rate_does_not_cost_a_millisecond() -> None:
    assert extent_ms(0.0, 2.9999999999999996) == (0, 3000)


@pytest.mark.parametrize(
    "wrong",
    [
        {"length_s": 0},
        {"stride_s": -1},
        {"minimum_s": float("inf")},
        {"length_s": 1e-5},
        {"mode": "windows", "length_s": 1, "minimum_s": 2},
    ],
)
def test_settings_that_make_no_clips_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        ClipSettings(**wrong)
