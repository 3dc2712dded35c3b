"""Pruning keeps the asked share, in order: evenly spread, whole patches, or what is looked at."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lvspec.pruning import FOCUS, PRUNERS, Pruner, attention, frames, uniform

KEEP = st.floats(0.001, 1)


def budget(count: int, keep: float) -> int:
    return max(1, round(count * keep))


def assert_even(places: list[int]) -> None:
    gaps = {b - a for a, b in pairwise(places)}
    assert not gaps or max(gaps) - min(gaps) <= 1


@given(st.integers(1, 20_000), KEEP)
def test_uniform_is_ascending_even_and_of_the_asked_size(count, keep):
    kept = uniform(count, keep).tolist()
    assert len(kept) == budget(count, keep)
    assert kept == sorted(set(kept))
    assert kept[0] >= 0
    assert kept[-1] < count
    assert_even(kept)


@given(st.integers(1, 200), st.integers(1, 50), KEEP)
def test_frames_keeps_whole_patches_evenly_spread(patches, per_patch, keep):
    kept = frames(patches * per_patch, patches, keep).tolist()
    shown = sorted({token // per_patch for token in kept})
    assert len(shown) == budget(patches, keep)
    assert kept == [patch * per_patch + i for patch in shown for i in range(per_patch)]
    assert shown[0] >= 0 and shown[-1] < patches
    assert_even(shown)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=300), KEEP)
def test_attention_holds_the_smallest_set_of_the_asked_share(counts, keep):
    """Weights are whole numbers, so that sums are exact here; the rest must be spread evenly."""
    kept = attention(torch.tensor(counts, dtype=torch.float32) / 1000, keep).tolist()
    assert len(kept) == budget(len(counts), keep)
    assert kept == sorted(set(kept)) and kept[0] >= 0 and kept[-1] < len(counts)
    ranked = sorted(range(len(counts)), key=lambda i: (-counts[i], i))
    wanted = FOCUS * sum(counts)
    edge = 1e-6 * sum(counts)  # where a sum meets the share exactly, rounding may decide
    sizes = [
        n
        for n in range(1, len(counts) + 1)
        if sum(counts[i] for i in ranked[:n]) >= wanted - edge
        and sum(counts[i] for i in ranked[: n - 1]) <= wanted + edge
    ]
    fits = []
    for size in sizes:
        focus = set(ranked[: min(size, len(kept))])
        rest = [i for i in range(len(counts)) if i not in focus]
        spread = [place for place, i in enumerate(rest) if i in set(kept)]
        gaps = {b - a for a, b in pairwise(spread)}
        even = not gaps or max(gaps) - min(gaps) <= 1
        fits.append(focus <= set(kept) and len(focus) + len(spread) == len(kept) and even)
    assert any(fits)


@pytest.mark.parametrize(
    "weights,keep,expected",
    [
        ([9, 1, 1, 1, 1, 1, 1, 1, 1, 1], 0.3, [0, 3, 7]),  # one holds half; two of nine spread
        ([1, 1, 1, 9, 9, 9, 1, 1, 1, 1], 0.2, [3, 4]),  # two hold over .4 of 34
        ([9, 9, 9, 9, 9, 9, 9, 9, 9, 9], 0.2, [0, 1]),  # four would: cut at the budget
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 0.1, [9]),
        ([0, 0, 0, 0], 0.5, [0, 2]),  # nothing is looked at: still a share of the tokens
    ],
)
def test_attention_by_hand(weights, keep, expected):
    assert attention(torch.tensor(weights, dtype=torch.float32), keep).tolist() == expected


@given(st.integers(1, 20), st.integers(1, 20), KEEP, st.sampled_from(sorted(PRUNERS)))
def test_every_way_keeps_all_when_all_is_asked(patches, per_patch, keep, name):
    count = patches * per_patch
    weights = torch.from_numpy(np.random.default_rng(0).random(count))
    assert Pruner(name, 1.0).select(weights)(count, patches).tolist() == list(range(count))
    some = Pruner(name, keep).select(weights)(count, patches).tolist()
    assert some == sorted(set(some)) and len(some) >= 1


def test_only_attention_asks_for_attention():
    assert [name for name in PRUNERS if Pruner(name, 0.1).needs_attention] == ["attention"]
