"""The fingerprint covers what changes captions, and only that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import apply_assignments, parse_config
from pipeline.fingerprint import caption_settings, difference, fingerprint

BASE = {"source": {"prefix": "videos"}, "output": "out"}


def of(*assignments: str) -> str:
    return fingerprint(caption_settings(parse_config(apply_assignments(BASE, assignments))))


@pytest.mark.parametrize(
    "assignment",
    [
        "models.target=other", "models.draft_revision=abc", "models.dtype=bfloat16",
        "frames.count=9",
        "decoding.policy=exact", "decoding.policy.loose_share=0.6", "decoding.draft_length=5",
        "decoding.prompt=What happens?", "decoding.max_new_tokens=9", "video.decoder=decord",
    ],
)  # fmt: skip
def test_settings_that_change_captions_change_it(assignment: str) -> None:
    assert of(assignment) != of()


@pytest.mark.parametrize(
    "assignment",
    [
        "models.device=cpu", "models.device_map=auto", "decoding.slots=9", "video.num_cpus=2",
        "video.timeout_s=5", "video.memory_mb=99",
        "caption.actors=[1, 8]", "caption.num_gpus=1", "run.rows_per_commit=2", "output=elsewhere",
        "source.prefix=elsewhere", "storage.s3={anon: true}",
    ],
)  # fmt: skip
def test_settings_that_say_where_and_how_fast_do_not(assignment: str) -> None:
    assert of(assignment) == of()


@given(st.permutations(["a", "b", "c"]))
def test_it_does_not_depend_on_order(keys: list[str]) -> None:
    assert fingerprint(dict.fromkeys(keys, 1)) == fingerprint({"a": 1, "b": 1, "c": 1})


def test_the_difference_names_key_and_both_values() -> None:
    old, new = {"a": 1, "b": 2, "gone": 3}, {"a": 1, "b": 5, "new": None}
    assert difference(old, new) == [
        "b: 2 in the dataset, 5 now",
        "gone: 3 in the dataset, '(not set)' now",
        "new: '(not set)' in the dataset, None now",
    ]
