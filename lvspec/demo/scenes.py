"""The toy world of the embedded pair: scenes of moving coloured shapes, and how a scene looks at
any moment.

A scene is a frozen value that fixes everything visible (places, exact colours, noise), so it
renders the same at any frame rate. Time inside a scene is `u`, the share of the clip that has
passed (0..1): speeds are pixels per clip, so a clip of 2 s and one of 4 s look the same through
eight evenly spaced frames. Belongs here: sampling scenes. Does not belong here: drawing
them (drawing.py), words around the facts (captions.py), scoring (facts.py).
numpy only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

SIDE = 112  # pixels, both ways: eight 14-pixel patches
FRAMES = 8  # frames a model sees: the centres of eight equal parts of the clip
CELL = 28  # pixels of a merged video token (2 x 2 patches)
DURATIONS_S = (2.0, 4.0)
NUM_CELLS = (FRAMES // 2, SIDE // CELL, SIDE // CELL)  # a video token covers two frames

# Three pairs of near colours (red/crimson, blue/navy, green/teal): with the jitter below, the right
# word is a judgement, as in real footage. A model that sees well is right in more than nine of ten,
# and unsure in some.
COLORS: dict[str, tuple[int, int, int]] = {
    "red": (218, 40, 36),
    "crimson": (188, 24, 78),
    "blue": (50, 90, 236),
    "navy": (40, 56, 176),
    "green": (44, 184, 60),
    "teal": (32, 150, 112),
    "yellow": (235, 215, 50),
    "orange": (246, 138, 30),
    "purple": (146, 60, 196),
    "pink": (250, 156, 204),
}
NEAR = {
    "red": "crimson",
    "crimson": "red",
    "blue": "navy",
    "navy": "blue",
    "green": "teal",
    "teal": "green",
}
COLOR_JITTER = 12.0  # standard deviation per channel, 0..255
BACKGROUNDS: dict[str, tuple[int, int, int]] = {
    "black": (15, 15, 15),
    "gray": (120, 120, 120),
    "white": (240, 240, 240),
    "brown": (100, 65, 35),
}
SHAPES = ("circle", "square", "triangle", "cross", "ring", "diamond")
SIZES = {"small": (10.5, 1.2), "large": (17.5, 1.4)}  # radius in pixels: mean, standard deviation
SPEEDS = {"slow": (21.0, 4.5), "quick": (50.0, 6.0)}  # pixels per clip: mean, standard deviation
DIRECTIONS: dict[str, tuple[int, int]] = {
    "left": (-1, 0),
    "right": (1, 0),
    "upward": (0, -1),
    "downward": (0, 1),
    "nowhere": (0, 0),
}
COUNTS = ("one", "two")
# What happens to the first thing, and the verb that says it.
EVENTS = {
    "none": "persists",
    "recolor": "turns",
    "grow": "grows",
    "shrink": "shrinks",
    "vanish": "vanishes",
    "redirect": "veers",
}
EVENT_SHARES = (0.19, 0.25, 0.14, 0.14, 0.12, 0.16)
EVENT_SPAN = (0.33, 0.60)  # u at which an event happens: early enough to see what follows
GROW, SHRINK = 1.5, 0.58


@dataclass(frozen=True)
class Thing:
    """One shape. `start` is its centre at u = 0 (x, y in pixels), `velocity` in pixels per clip."""

    color: str
    shape: str
    size: str
    direction: str
    speed: str | None  # None where direction is "nowhere"
    rgb: tuple[float, float, float]
    radius: float
    start: tuple[float, float]
    velocity: tuple[float, float]
    event: str = "none"
    event_at: float = 1.0
    new_color: str | None = None
    new_rgb: tuple[float, float, float] | None = None
    new_direction: str | None = None
    new_velocity: tuple[float, float] | None = None

    def changed(self, u: float) -> bool:
        """Whether the event lies behind at moment `u` (always False for event "none")."""
        return self.event != "none" and u >= self.event_at

    def centre(self, u: float) -> NDArray[np.float64]:
        """Centre at moment `u`, (x, y) in pixels."""
        before = np.array(self.start) + np.array(self.velocity) * min(u, self.event_at)
        after = self.new_velocity if self.new_velocity is not None else self.velocity
        return before + np.array(after) * max(0.0, u - self.event_at)

    def radius_at(self, u: float) -> float:
        """Radius in pixels at moment `u`; 0 once vanished."""
        if not self.changed(u):
            return self.radius
        return self.radius * {"grow": GROW, "shrink": SHRINK, "vanish": 0.0}.get(self.event, 1.0)

    def rgb_at(self, u: float) -> tuple[float, float, float]:
        """Exact colour at moment `u`."""
        return self.new_rgb if self.new_rgb is not None and self.changed(u) else self.rgb


@dataclass(frozen=True)
class Scene:
    """Everything that is visible in one clip; `things[0]` is the one further left at the start, and
    has the event.
    """

    background: str
    background_rgb: tuple[float, float, float]
    things: tuple[Thing, ...]
    duration_s: float
    noise_seed: int


def sample_scene(rng: np.random.Generator) -> Scene:
    """Draws a scene in which nothing leaves the picture and two things never touch."""
    while True:
        colors = [str(c) for c in rng.permutation(list(COLORS))]
        first = _event(rng, _thing(rng, colors), colors)
        things = [first]
        if rng.random() < 0.45:
            second = _thing(rng, colors)
            others = [s for s in SHAPES if s != first.shape]
            size = "small" if first.size == "large" else second.size
            radius = float(rng.normal(*SIZES[size]))
            things.append(replace(second, shape=str(rng.choice(others)), size=size, radius=radius))
        placed = _place(rng, things)
        if placed is None:
            continue
        background = str(rng.choice(list(BACKGROUNDS)))
        return Scene(
            background=background,
            background_rgb=_jitter(rng, BACKGROUNDS[background], 5.0),
            things=placed,
            duration_s=float(rng.uniform(*DURATIONS_S)),
            noise_seed=int(rng.integers(2**31)),
        )


def _jitter(
    rng: np.random.Generator, rgb: tuple[int, int, int], std: float
) -> tuple[float, float, float]:
    r, g, b = (float(c + n) for c, n in zip(rgb, rng.normal(0, std, 3), strict=True))
    return (r, g, b)


def _thing(rng: np.random.Generator, colors: list[str]) -> Thing:
    """A thing without a place yet; takes its colour from the end of `colors`."""
    color, size = colors.pop(), str(rng.choice(list(SIZES)))
    direction = str(rng.choice(list(DIRECTIONS), p=(0.21, 0.21, 0.21, 0.21, 0.16)))
    speed = str(rng.choice(list(SPEEDS)))
    pace = float(rng.normal(*SPEEDS[speed]))
    dx, dy = DIRECTIONS[direction]
    return Thing(
        color=color,
        shape=str(rng.choice(SHAPES)),
        size=size,
        direction=direction,
        speed=None if direction == "nowhere" else speed,
        rgb=_jitter(rng, COLORS[color], COLOR_JITTER),
        radius=float(rng.normal(*SIZES[size])),
        start=(0.0, 0.0),
        velocity=(dx * pace, dy * pace),
    )


def _event(rng: np.random.Generator, thing: Thing, colors: list[str]) -> Thing:
    """Gives `thing` an event; a new colour is never the near twin of the old one, and only moving
    things change direction.
    """
    event = str(rng.choice(list(EVENTS), p=EVENT_SHARES))
    if event == "redirect" and thing.speed is None:
        event = "none"
    if event == "none":
        return thing
    thing = replace(thing, event=event, event_at=float(rng.uniform(*EVENT_SPAN)))
    if event == "recolor":
        color = next(c for c in reversed(colors) if c != NEAR.get(thing.color))
        colors.remove(color)
        return replace(thing, new_color=color, new_rgb=_jitter(rng, COLORS[color], COLOR_JITTER))
    if event == "redirect":
        turned = ("upward", "downward") if thing.velocity[0] else ("left", "right")
        direction = str(rng.choice(turned))
        pace = abs(thing.velocity[0]) + abs(thing.velocity[1])
        dx, dy = DIRECTIONS[direction]
        return replace(thing, new_direction=direction, new_velocity=(dx * pace, dy * pace))
    return thing


def _place(rng: np.random.Generator, things: list[Thing]) -> tuple[Thing, ...] | None:
    """Starting places such that all stay inside and apart; None where a few tries find none."""
    us = np.linspace(0, 1, 9)
    paths = [np.stack([t.centre(u) for u in us]) for t in things]  # [9, 2], from (0, 0)
    radii = [np.array([t.radius_at(u) for u in us]) for t in things]
    for _ in range(24):
        starts: list[NDArray[np.float64]] = []
        for path, radius in zip(paths, radii, strict=True):
            margin = radius.max() + 1
            low, high = margin - path.min(0), SIDE - margin - path.max(0)
            if (high < low).any():
                return None
            starts.append(rng.uniform(low, high))
        if len(things) == 2:
            apart = np.linalg.norm(paths[0] + starts[0] - paths[1] - starts[1], axis=1)
            if (apart - radii[0] - radii[1]).min() < 2 or starts[1][0] - starts[0][0] < 16:
                continue
        return tuple(
            replace(t, start=(float(s[0]), float(s[1])))
            for t, s in zip(things, starts, strict=True)
        )
    return None


def scene_stream(seed: int, space: int) -> Iterator[Scene]:
    """An endless stream of scenes. `space` keeps uses apart: 0 training the target, 1 distilling
    the draft, 2 held out, 3 demo corpora.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(space,)))
    while True:
        yield sample_scene(rng)
