"""Blocks and calls for runs of known size; the right values are worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvspec.video import FrameSpec
from pipeline.config import parse_config
from pipeline.schedule import BLOCK_BYTES, Schedule, plan_schedule

SMALL = FrameSpec(count=8, factor=28, min_pixels=784, max_pixels=112 * 112)


def schedule(
    rows: int, actors: object = 1, slots: int = 4, commit: int = 32, spec: FrameSpec = SMALL
) -> Schedule:
    tree = {
        "source": {"prefix": "videos"},
        "output": "out",
        "decoding": {"slots": slots},
        "caption": {"actors": actors},
        "run": {"rows_per_commit": commit},
    }
    return plan_schedule(parse_config(tree), spec, rows)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (schedule(26, commit=8), Schedule(8, 3)),  # one actor: nobody to share with
        (schedule(1_000_000, actors=64), Schedule(32, 2)),  # long: blocks of a commit
        (schedule(320, actors=16, slots=1), Schedule(1, 2)),  # short: 20 clips an actor
        (schedule(5_120, actors=16), Schedule(10, 3)),  # 320 an actor in 32 blocks
        (schedule(5_120, actors=[1, 16]), Schedule(10, 3)),  # as many as there may be
        (schedule(320, actors=16, slots=16), Schedule(1, 17)),  # 16 blocks fill the slots
        (schedule(10, actors=16), Schedule(1, 5)),
    ],
)
def test_blocks_and_calls(given: Schedule, expected: Schedule) -> None:
    assert given == expected


def test_blocks_of_large_frames_stay_below_what_ray_would_cut() -> None:
    spec = FrameSpec(count=64, factor=28, min_pixels=784, max_pixels=448 * 448)  # 37 MiB a clip
    assert schedule(10_000, spec=spec) == Schedule(3, 5)
    huge = FrameSpec(count=512, factor=28, min_pixels=784, max_pixels=448 * 448)
    assert schedule(10_000, spec=huge) == Schedule(1, 5)


@given(
    rows=st.integers(1, 10**8),
    actors=st.integers(1, 512),
    slots=st.integers(1, 256),
    commit=st.integers(1, 1024),
)
def test_slots_can_always_be_filled(rows: int, actors: int, slots: int, commit: int) -> None:
    found = schedule(rows, actors, slots, commit)
    assert 1 <= found.rows_per_block <= commit
    assert found.rows_per_block * (found.calls_per_actor - 1) >= slots
    assert found.rows_per_block * SMALL.count * SMALL.max_pixels * 3 <= BLOCK_BYTES
