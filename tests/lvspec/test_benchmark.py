"""The benchmark's own claims: plain is 1.0 by definition, exact says what plain says."""

import pytest

from lvspec import DecodeSettings
from lvspec.benchmark import PEERS, SWEEP, Item, measure, methods
from lvspec.benchmark.measure import interval
from tests.lvspec import tiny


@pytest.fixture(scope="module")
def points():
    target = tiny.qwen2_5_vl(0, layers=3)
    pair = tiny.pair(target, tiny.noisy_copy(target, 0.02))
    same_length = [tiny.requests(1)[0]] * 1
    items = [
        Item(
            type(r)(str(i), r.frames, r.times_s, r.prompt),
            lambda text: (1 + len(text) % 7, 8),
        )
        for i, r in enumerate(same_length * 6)
    ]
    base = DecodeSettings(draft_length=4, max_new_tokens=24)
    names = ["generate", "exact", "lvspec", "gate", "accept-all", "assisted"]
    return {(p.method, p.batch): p for p in measure(pair, items, base, names, [1, 3], chunks=3)}


def test_every_method_at_every_batch(points):
    names = {"plain", "generate", "exact", "lvspec", "gate", "accept-all"}
    everywhere = {(name, batch) for name in names for batch in (1, 3)}
    assert set(points) == {*everywhere, ("assisted", 1)}
    assert all(p.scenes == 6 and p.tokens_per_s > 0 for p in points.values())


def test_plain_is_the_measure_of_the_others(points):
    for batch in (1, 3):
        plain = points["plain", batch]
        assert plain.speedup == plain.end_to_end_speedup == 1.0
        assert plain.identical_share == 1.0
        assert plain.facts_kept == pytest.approx(1.0)
        assert plain.mean_accepted_length == plain.draft_acceptance_rate == 0


def test_strict_methods_say_what_plain_says(points):
    for batch in (1, 3):
        for name in ("exact", "generate"):
            assert points[name, batch].identical_share == 1.0
            assert points[name, batch].facts_right == points["plain", batch].facts_right
    assert points["accept-all", 1].mean_accepted_length >= points["exact", 1].mean_accepted_length


def test_assisted_generation_is_greedy_too(points):
    """Its draft is blind, so it costs passes, but what it says is the target's own."""
    assert points["assisted", 1].identical_share == 1.0
    assert points["assisted", 1].mean_accepted_length <= 5


def test_every_named_method_exists():
    known = methods(DecodeSettings())
    assert set(PEERS) | set(SWEEP) <= set(known)


def test_interval_of_facts_kept():
    assert interval([3, 4, 5], [3, 4, 5]) == (1.0, 1.0)
    low, high = interval([1] * 90 + [0] * 10, [1] * 100)
    assert 0.82 < low < 0.88 and 0.93 < high < 0.97  # binomial: .9 +- .059
