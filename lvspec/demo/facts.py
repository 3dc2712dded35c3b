"""The visual facts of a scene, and how many of them a caption states rightly.

A caption is read by its fact words alone, sentence by sentence: wording around them does not
matter. A fact is a pair of a name ("color", "event", "other_shape", ...) and a word. numpy-free; no
torch.
"""

from __future__ import annotations

import re

from lvspec.demo.scenes import (
    BACKGROUNDS,
    COLORS,
    COUNTS,
    DIRECTIONS,
    EVENTS,
    SHAPES,
    SIZES,
    SPEEDS,
    Scene,
)

# Kind of fact -> the words that state it. No word belongs to two kinds, and no filler is among
# them.
FACT_WORDS: dict[str, tuple[str, ...]] = {
    "count": COUNTS,
    "background": tuple(BACKGROUNDS),
    "shape": SHAPES,
    "color": tuple(COLORS),
    "size": tuple(SIZES),
    "direction": tuple(DIRECTIONS),
    "speed": tuple(SPEEDS),
    "event": tuple(EVENTS.values()),
}
KIND = {word: kind for kind, words in FACT_WORDS.items() for word in words}
_WORD = re.compile(r"[a-z]+")


def truth(scene: Scene) -> dict[str, str]:
    """All facts that a caption of `scene` must state."""
    main = scene.things[0]
    facts = {
        "count": COUNTS[len(scene.things) - 1],
        "background": scene.background,
        "shape": main.shape,
        "color": main.color,
        "size": main.size,
        "direction": main.direction,
        "event": EVENTS[main.event],
    }
    if main.speed is not None:
        facts["speed"] = main.speed
    if main.new_color is not None:
        facts["new_color"] = main.new_color
    if main.new_direction is not None:
        facts["new_direction"] = main.new_direction
    for other in scene.things[1:]:
        facts |= {
            "other_shape": other.shape,
            "other_color": other.color,
            "other_direction": other.direction,
        }
    return facts


def parse(text: str) -> dict[str, str]:
    """The facts that a caption states; where it states one twice, the first time counts."""
    facts: dict[str, str] = {}
    things = 0
    for sentence in text.lower().split("."):
        found = [(KIND[word], word) for word in _WORD.findall(sentence) if word in KIND]
        kinds = {kind for kind, _ in found}
        if kinds & {"count", "background"}:
            prefix = ""
        elif "shape" in kinds:
            prefix = "" if things == 0 else "other_"
            things += 1
        else:
            prefix = "new_" if "event" in kinds else ""
        for kind, word in found:
            name = kind if kind == "event" else prefix + kind
            facts.setdefault(name, word)
    return facts


def score(text: str, scene: Scene) -> tuple[int, int]:
    """(facts stated rightly, facts there are)."""
    stated, true = parse(text), truth(scene)
    return sum(stated.get(name) == word for name, word in true.items()), len(true)


def score_by_kind(text: str, scene: Scene) -> dict[str, tuple[int, int]]:
    """`score` for each fact's name."""
    stated, true = parse(text), truth(scene)
    return {name: (int(stated.get(name) == word), 1) for name, word in true.items()}
