"""Captions: every fact is said, whatever wording was drawn, and the grammar keeps its promises."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import pairwise

import numpy as np

from lvspec.demo.captions import Dialect, caption
from lvspec.demo.facts import KIND, parse, score, score_by_kind, truth
from lvspec.demo.scenes import sample_scene
from lvspec.demo.wordings import WORDINGS

TOKEN = re.compile(r"[a-z]+|[.,]")


def drawn(count: int, dialect: Dialect | None = None):
    rng = np.random.default_rng(11)
    for _ in range(count):
        scene = sample_scene(rng)
        yield scene, caption(rng, scene, dialect)


def test_captions_state_exactly_the_truth() -> None:
    for scene, text in drawn(300):
        assert parse(text) == truth(scene), text
        right, total = score(text, scene)
        assert right == total
        assert 7 <= total <= 13


def test_no_filler_is_a_fact_word() -> None:
    for slot, (_, wordings) in WORDINGS.items():
        for wording in wordings:
            assert not set(TOKEN.findall(wording.lower())) & set(KIND), slot


def test_the_word_before_a_fact_tells_its_kind() -> None:
    before: dict[str, set[str]] = defaultdict(set)
    others: set[tuple[str, str]] = set()
    for _, text in drawn(400, Dialect(strength=0)):
        words = TOKEN.findall(text.lower())
        for first, second in pairwise(words):
            if second in KIND:
                before[first].add(KIND[second])
            others.add((first, second))
    for word, kinds in before.items():
        assert len(kinds) == 1, (word, kinds)


def test_facts_are_thin() -> None:
    dense = total = 0
    for _, text in drawn(200):
        words = TOKEN.findall(text.lower())
        for i in range(len(words) - 9):
            dense += sum(w in KIND for w in words[i : i + 10]) > 3
            total += 1
    assert dense / total < 0.02


def test_a_wrong_word_costs_one_fact() -> None:
    for scene, text in drawn(20):
        main = scene.things[0]
        wrong = re.sub(rf"\b{main.size}\b", "small" if main.size == "large" else "large", text)
        right, total = score(wrong, scene)
        assert right == total - 1
        assert score_by_kind(wrong, scene)["size"] == (0, 1)


def test_the_dialect_prefers_by_attribute() -> None:
    shares = Dialect().probabilities("medium", 12, "red|black")
    assert shares.sum() == np.float64(1).round(9) or abs(shares.sum() - 1) < 1e-9
    assert shares.max() > 0.3
    assert np.array_equal(shares, Dialect().probabilities("medium", 12, "red|black"))
    assert not np.array_equal(shares, Dialect().probabilities("medium", 12, "red|white"))
    assert np.allclose(Dialect(strength=0).probabilities("medium", 12, "x"), 1 / 12)


def test_parse_reads_by_fact_words_alone() -> None:
    text = (
        "Here are two shapes on a dull white wall. This thing looks like a big old circle, dyed "
        "red, hence large. Its friend is some square, quite teal, bound upward. It goes left at a "
        "slow walk. Then it turns pink."
    )
    assert parse(text) == {
        "count": "two",
        "background": "white",
        "shape": "circle",
        "color": "red",
        "size": "large",
        "other_shape": "square",
        "other_color": "teal",
        "other_direction": "upward",
        "direction": "left",
        "speed": "slow",
        "event": "turns",
        "new_color": "pink",
    }
