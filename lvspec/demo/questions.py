"""The second prompt form: multiple-choice questions about a scene's facts, worded as Video-MME
words its own.

Every question has four options, all words of one kind of fact, and one letter as its answer; the
words are those of `facts.truth`, so an answer is right exactly where a caption that says that word
would be. Facts with fewer than four words (count, size, speed) have no question. numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lvspec.demo.facts import FACT_WORDS, truth
from lvspec.demo.scenes import Scene

LETTERS = ("A", "B", "C", "D")
INSTRUCTION = (
    "Select the best answer to the following multiple-choice question based on the video. "
    "Respond with only the letter (A, B, C, or D) of the correct option.\n"
)
CLOSING = "\nThe best answer is:"

# Name of a fact -> kind of its words, and what is asked of one thing, and of one among two.
_ASKED: dict[str, tuple[str, str, str]] = {
    "background": (
        "background",
        "What color is the background of the video?",
        "What color is the background of the video?",
    ),
    "shape": (
        "shape",
        "What is the shape of the object in the video?",
        "What is the shape of the leftmost object in the video?",
    ),
    "color": (
        "color",
        "What color is the object at the beginning?",
        "What color is the leftmost object at the beginning?",
    ),
    "direction": (
        "direction",
        "In which direction is the object moving at the beginning?",
        "In which direction is the leftmost object moving at the beginning?",
    ),
    "event": (
        "event",
        "What happens to the object over time?",
        "What happens to the leftmost object over time?",
    ),
    "new_color": (
        "color",
        "What color is the object in the end?",
        "What color is the leftmost object in the end?",
    ),
    "new_direction": (
        "direction",
        "In which direction is the object moving in the end?",
        "In which direction is the leftmost object moving in the end?",
    ),
    "other_shape": ("shape", "", "What is the shape of the other object in the video?"),
    "other_color": ("color", "", "What color is the other object in the video?"),
    "other_direction": (
        "direction",
        "",
        "In which direction is the other object moving in the video?",
    ),
}


@dataclass(frozen=True)
class Question:
    """One multiple-choice question; `options` are four words, `answer` a letter."""

    fact: str  # its name in `facts.truth`
    text: str
    options: tuple[str, ...]
    answer: str

    @property
    def word(self) -> str:
        """The right option's word."""
        return self.options[LETTERS.index(self.answer)]

    def lines(self) -> tuple[str, ...]:
        """The options as they are shown, "A. red." and so on."""
        return tuple(f"{a}. {w}." for a, w in zip(LETTERS, self.options, strict=True))

    def prompt(self) -> str:
        """The whole text that a model is asked."""
        return INSTRUCTION + self.text + "\n" + "\n".join(self.lines()) + CLOSING


def ask(rng: np.random.Generator, scene: Scene) -> list[Question]:
    """One question for every fact of `scene` that has one, in a random order; `rng` picks the
    wrong options and the place of the right one.
    """
    asked: list[Question] = []
    for name, word in truth(scene).items():
        if name not in _ASKED:
            continue
        kind, alone, among = _ASKED[name]
        others = [w for w in FACT_WORDS[kind] if w != word]
        wrong = [str(w) for w in rng.permutation(others)[: len(LETTERS) - 1]]
        place = int(rng.integers(len(LETTERS)))
        options = (*wrong[:place], word, *wrong[place:])
        text = among if len(scene.things) == 2 else alone
        asked.append(Question(name, text, options, LETTERS[place]))
    return [asked[i] for i in rng.permutation(len(asked))]
