"""Captions of toy scenes: every visual fact as one word, thinly spread among many interchangeable
fillers.

The grammar keeps three promises that speculative decoding with loose fillers depends on:
- no filler decides *whether* a fact is said: each fact follows whichever wording was chosen before
  it;
- the word before a fact belongs to one kind of fact only, so a fact word and a filler never compete
  for a place;
- facts stand four to five tokens apart, so that a block of ten drafted tokens holds about two.
Belongs here: wording, and the dialect that decides which of many equal wordings a scene gets. numpy
only.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from lvspec.demo.scenes import EVENTS, Scene, Thing
from lvspec.demo.wordings import ORDERS, WORDINGS

PROMPT = "Describe this video."


@dataclass(frozen=True)
class Dialect:
    """Which wording a scene gets: a fixed random table of preferences per slot and attribute
    values.

    `strength` is the standard deviation of the preferences (logits): 0 makes all wordings equal, 3
    nearly fixes one.
    """

    seed: int = 0
    strength: float = 1.5

    def probabilities(self, slot: str, count: int, key: str) -> np.ndarray:
        """Shares of the `count` wordings of `slot` for the attribute values `key`, [count]."""
        rng = np.random.default_rng(zlib.crc32(f"{self.seed}|{slot}|{key}".encode()))
        logits = self.strength * rng.standard_normal(count)
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()


class _Writer:
    """Chooses wordings for one scene."""

    def __init__(self, rng: np.random.Generator, scene: Scene, dialect: Dialect) -> None:
        self.rng, self.dialect, self.background = rng, dialect, scene.background

    def index(self, slot: str, attributes: tuple[str, ...], count: int, thing: Thing) -> int:
        values = {"background": self.background, "speed": thing.speed or "", **_values(thing)}
        key = "|".join(values[a] for a in attributes)
        return _draw(self.rng, self.dialect, slot, count, key)

    def say(self, slot: str, thing: Thing) -> str:
        attributes, wordings = WORDINGS[slot]
        return wordings[self.index(slot, attributes, len(wordings), thing)]

    def order(self, slot: str, thing: Thing) -> int:
        attributes, count = ORDERS[slot]
        return self.index(slot, attributes, count, thing)


def _values(thing: Thing) -> dict[str, str]:
    return {
        "color": thing.color,
        "shape": thing.shape,
        "size": thing.size,
        "direction": thing.direction,
        "event": thing.event,
    }


_tables: dict[tuple[Dialect, str, str], np.ndarray] = {}


def _draw(rng: np.random.Generator, dialect: Dialect, slot: str, count: int, key: str) -> int:
    table = _tables.get((dialect, slot, key))
    if table is None:
        table = np.cumsum(dialect.probabilities(slot, count, key))
        _tables[dialect, slot, key] = table
    return min(int(np.searchsorted(table, rng.random())), count - 1)


def caption(rng: np.random.Generator, scene: Scene, dialect: Dialect | None = None) -> str:
    """One caption of `scene`, 40 to 90 tokens; `rng` picks among the wordings that the dialect
    likes here.
    """
    w = _Writer(rng, scene, dialect or Dialect())
    main = scene.things[0]
    two = len(scene.things) == 2
    middle = [_motion(w, main, two), _change(w, main, two)]
    if w.order("sentences", main):
        middle.reverse()
    if two:
        middle.insert(int(w.order("clauses", scene.things[1])), _companion(w, scene.things[1]))
    # Two things fill a caption: the closing, which tells nothing, is for one.
    closing = [] if two else [_closing(w, main)]
    return " ".join([_opening(w, main, two), _subject(w, main, two), *middle, *closing])


def _opening(w: _Writer, main: Thing, two: bool) -> str:
    count, plural = ("two", "s") if two else ("one", "")
    who = f"{w.say('this', main)} {w.say('medium', main)} {w.say('shows', main)}"
    what = f"{w.say('just', main)} {count} {w.say('noun', main)}{plural}"
    ground = f"{w.say('over', main)} a {w.say('plain', main)} {w.background}"
    return f"{who} {what} {ground} {w.say('backdrop', main)}."


def _subject(w: _Writer, main: Thing, two: bool) -> str:
    color = f"{w.say('face', main)} {w.say('painted', main)} {main.color}"
    size = f"{w.say('scale', main)} {w.say('judged', main)} {main.size}"
    clauses = [color, size]
    if w.order("clauses", main):
        clauses.reverse()
    name = w.say("First" if two else "It", main)
    form = f"{w.say('is', main)} a {w.say('neat', main)} {main.shape}"
    return f"{name} {form}, {clauses[0]}, {w.say('and', main)} {clauses[1]}."


def _motion(w: _Writer, main: Thing, two: bool) -> str:
    name = w.say("first" if two else "it", main)
    name = f"{name[0].upper()}{name[1:]}"
    start = f"{name} is {w.say('seen', main)} {w.say('heading', main)} {main.direction}"
    if main.speed is None:
        return f"{start}, {w.say('resting', main)}."
    pace = f"{w.say('at', main)} {w.say('rather', main)} {main.speed} {w.say('pace', main)}"
    return f"{start}, {pace}."


def _change(w: _Writer, main: Thing, two: bool) -> str:
    text = f"{w.say('time', main)}, {w.say('first' if two else 'it', main)}"
    text += f" {w.say('finally', main)} {EVENTS[main.event]}"
    if main.new_color is not None:
        text += f" {w.say('fully', main)} {main.new_color}"
    if main.new_direction is not None:
        text += f" {w.say('off', main)} {main.new_direction}"
    return f"{text}." if two else f"{text}, {w.say('sight', main)}."


def _companion(w: _Writer, other: Thing) -> str:
    form = f"{w.say('other', other)} {w.say('is', other)} a {w.say('neat', other)} {other.shape}"
    color = f"{w.say('face', other)} {w.say('painted', other)} {other.color}"
    motion = f"{w.say('seen', other)} {w.say('heading', other)} {other.direction}"
    return f"{form}, {color}, {motion}."


def _closing(w: _Writer, main: Thing) -> str:
    kind = w.order("closing", main)
    if kind == 0:
        view = f"The {w.say('camera', main)} {w.say('stays', main)}"
        return f"{view} {w.say('steady', main)} {w.say('throughout', main)}."
    if kind == 1:
        return f"No {w.say('text', main)} is {w.say('visible', main)} {w.say('anywhere', main)}."
    start = f"Overall, the {w.say('medium', main)} {w.say('stays', main)}"
    return f"{start} {w.say('quiet', main)} and {w.say('readable', main)}."
