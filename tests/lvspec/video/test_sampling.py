from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvspec.video import VideoError
from lvspec.video.sampling import (
    centres,
    check_distinct,
    nearest_clean,
    plan_span,
    shown_at,
    shown_times,
    span_of,
)

times = st.lists(st.floats(-10, 1000), min_size=1, max_size=50).map(sorted)


def test_centres_are_the_middles_of_equal_parts():
    assert centres(0.0, 8.0, 4).tolist() == [1.0, 3.0, 5.0, 7.0]
    assert centres(2.0, 4.0, 1).tolist() == [3.0]


@given(st.floats(-1e4, 1e4), st.floats(0.01, 1e4), st.integers(1, 64))
def test_centres_lie_inside_ascend_and_mirror(start, length, count):
    got = centres(start, start + length, count)
    assert got.shape == (count,)
    assert start < got[0] and got[-1] < start + length
    assert np.all(np.diff(got) > 0)
    assert np.allclose(got + got[::-1], 2 * start + length)


@given(times, st.floats(-20, 1100))
def test_shown_is_the_last_that_has_started(frame_times, t):
    i = shown_at(frame_times, t)
    started = [k for k, s in enumerate(frame_times) if s <= t + 1e-6]
    assert i == (started[-1] if started else 0)


def test_shown_at_a_frames_own_time_despite_rounding():
    frame_times = [k / 30 for k in range(90)]
    assert all(shown_at(frame_times, k * (1 / 30) - 1e-9) == k for k in range(90))


@given(times, st.floats(-20, 1100), st.floats(0, 50))
def test_nearest_clean_is_nearest_and_near(frame_times, t, limit):
    i = nearest_clean(frame_times, t, limit)
    best = min(abs(s - t) for s in frame_times)
    assert (i is None) == (best > limit)
    if i is not None:
        assert abs(frame_times[i] - t) == best


@given(st.lists(st.one_of(st.none(), st.floats(-100, 100)), min_size=1, max_size=40), st.booleans())
def test_shown_times_always_ascend(raw, in_decoding_order):
    got = shown_times(raw, 0.04, in_decoding_order)
    assert len(got) == len(raw)
    assert all(a <= b + 1e-9 for a, b in pairwise(got))


def test_a_clock_that_jumps_back_goes_on():
    assert shown_times([1.0, 1.5, 0.2, 0.7], 0.5) == pytest.approx([1.0, 1.5, 2.0, 2.5])


def test_missing_times_are_filled_towards_the_known_ones():
    assert shown_times([None, None, 1.0, None], 0.5) == [0.0, 0.5, 1.0, 1.5]
    assert shown_times([None, None], 0.5) == [0.0, 0.5]


def test_made_up_times_are_dealt_out_anew():
    assert shown_times([0.1, 0.4, 0.3, 0.2], 0.1, in_decoding_order=True) == [0.1, 0.2, 0.3, 0.4]


def test_an_end_behind_the_video_is_cut_a_little_and_refused_beyond():
    assert span_of(0.0, 10.0, 2.0, 10.9) == (2.0, 10.0)
    assert span_of(0.0, 10.0, None, None) == (0.0, 10.0)
    assert span_of(2.0, 10.0, 0.0, 5.0) == (0.0, 5.0)  # sound before pictures


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (5.0, 5.0),
        (6.0, 5.0),
        (10.0, 10.5),
        (8.0, 20.0),
        (-1.0, 5.0),
        (float("nan"), 5.0),
        (0, float("inf")),
    ],
)
def test_spans_that_are_no_part_of_the_video(start, end):
    with pytest.raises(VideoError) as error:
        span_of(0.0, 10.0, start, end)
    assert error.value.code == "bad_span"


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        (-1.0, 5.0, "begins before 0"),
        (6.0, 5.0, "ends before it begins"),
        (10.5, 20.0, "video ends at 10"),
    ],
)
def test_a_span_is_refused_with_what_is_wrong_with_it(start, end, why):
    with pytest.raises(VideoError, match=why):
        span_of(0.0, 10.0, start, end)


def test_the_plan_is_on_the_players_clock():
    plan = plan_span(2, (1.5, 5.5), 1.0, 1.0, 3.0)  # the container's clock starts at 1.0
    assert (plan.start_s, plan.end_s, plan.zero_s) == (2.0, 4.0, 1.0)
    assert plan.asked_s.tolist() == [2.5, 3.5]


def test_too_few_distinct_frames_are_an_error():
    check_distinct(8, 4, "")
    with pytest.raises(VideoError, match="decode_failed"):
        check_distinct(8, 3, "")
