"""Scenes: everything stays visible and apart, and a scene looks the same at any frame rate."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from lvspec.demo import heldout, path
from lvspec.demo.drawing import coverage, frame_moments, render, render_at
from lvspec.demo.scenes import SIDE, Scene, Thing, sample_scene, scene_stream


def plain_scene(**changes: object) -> Scene:
    """A red circle of radius 10 that moves right from (30, 56) by 40 pixels on black."""
    thing = Thing(
        color="red",
        shape="circle",
        size="small",
        direction="right",
        speed="quick",
        rgb=(220.0, 40.0, 40.0),
        radius=10.0,
        start=(30.0, 56.0),
        velocity=(40.0, 0.0),
        **changes,
    )
    return Scene("black", (15.0, 15.0, 15.0), (thing,), 3.0, 0)


def test_things_stay_inside_and_apart() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        scene = sample_scene(rng)
        for u in np.linspace(0, 1, 33):
            for thing in scene.things:
                low, high = (
                    thing.centre(u) - thing.radius_at(u),
                    thing.centre(u) + thing.radius_at(u),
                )
                assert low.min() > -1
                assert high.max() < SIDE + 1
        if len(scene.things) == 2:
            assert scene.things[0].start[0] < scene.things[1].start[0]
            assert scene.things[0].shape != scene.things[1].shape


def test_a_thing_is_where_its_motion_says() -> None:
    frame = render_at(plain_scene(), np.array([0.5]))[0].astype(int)
    reddish = frame[..., 0] - frame[..., 1] > 90
    rows, columns = np.nonzero(reddish)
    assert abs(columns.mean() - 50) < 1.5
    assert abs(rows.mean() - 56) < 1.5
    assert abs(reddish.sum() - np.pi * 100) < 25


@pytest.mark.parametrize(
    ("event", "extra", "before", "after"),
    [
        ("grow", {}, 314, 707),
        ("shrink", {}, 314, 106),
        ("vanish", {}, 314, 0),
        ("recolor", {"new_color": "blue", "new_rgb": (50.0, 90.0, 236.0)}, 314, 0),
    ],
)
def test_events_show(event: str, extra: dict[str, object], before: int, after: int) -> None:
    scene = plain_scene(event=event, event_at=0.45, **extra)
    first, last = render_at(scene, np.array([0.2, 0.8])).astype(int)
    for frame, area in ((first, before), (last, after)):
        assert abs(int((frame[..., 0] - frame[..., 1] > 90).sum()) - area) < 40


def test_redirect_turns_the_path() -> None:
    thing = plain_scene(
        event="redirect", event_at=0.5, new_direction="upward", new_velocity=(0.0, -40.0)
    ).things[0]
    assert tuple(thing.centre(0.5)) == (50.0, 56.0)
    assert tuple(thing.centre(1.0)) == (50.0, 36.0)


def test_rendering_is_repeatable_and_independent_of_rate() -> None:
    scene = next(heldout(0))
    assert np.array_equal(render(scene), render(scene))
    assert render(scene).shape == (8, 112, 112, 3)
    eight = render_at(scene, frame_moments(8)).astype(float)
    many = render_at(scene, frame_moments(8 * 9)).astype(float)[4::9]  # the same moments
    # Only the noise differs: its mean over a frame is nothing.
    assert np.abs((eight - many).mean((1, 2, 3))).max() < 0.5


def test_coverage_is_area() -> None:
    share = coverage(plain_scene(), frame_moments(8))
    assert share.shape == (1, 4, 4, 4)
    assert share.sum((2, 3)).ravel() * 28 * 28 == pytest.approx(np.full(4, 314), abs=5)


def test_streams_repeat_and_do_not_meet() -> None:
    held = list(islice(heldout(0), 20))
    assert held == list(islice(heldout(0), 20))
    assert not set(held) & set(islice(heldout(1), 20))
    for space in (0, 1, 3):
        assert not set(held) & set(islice(scene_stream(0, space), 20))


def test_path_names_the_known() -> None:
    assert path("target").name == "target"
    with pytest.raises(ValueError, match="there are 'target' and 'draft'"):
        path("judge")
