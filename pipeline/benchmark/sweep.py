"""A sweep: one YAML, a grid of job settings, each point measured several times through the
product's plan and, beside it, the bare engine. Results are written after every run, so a sweep that
was broken off goes on where it stopped.
"""

import json
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import TypeAdapter, ValidationError

from pipeline.benchmark.synthetic import settings_for
from pipeline.config import JobSettings
from pipeline.errors import ConfigError

RESULTS = "results.json"


@dataclass(frozen=True)
class SweepSettings:
    """What is swept. `base` and `grid` hold settings of the job by their dotted paths: one value
    each, or a list of which every combination is a point.

    clips, warm: clips of a run, and how many answers at its start do not count.
    repeats: runs of each point, for the intervals. price_per_hour: of one device (a GPU, or an
    actor where actors have none). engine: "fake" sleeps for `service_s` per clip instead.
    """

    grid: Mapping[str, list[Any]]
    base: Mapping[str, Any] = field(default_factory=dict)
    engine: Literal["real", "fake"] = "real"
    clips: int = 96
    warm: int = 16
    repeats: int = 3
    price_per_hour: float = 0.0
    service_s: float = 0.1

    def points(self) -> list["SweepPoint"]:
        """Every combination, the last key varying fastest."""
        keys = list(self.grid)
        return [
            SweepPoint(
                {**self.base, **dict(zip(keys, values, strict=True))},
                dict(zip(keys, values, strict=True)),
            )
            for values in product(*self.grid.values())
        ]


@dataclass(frozen=True)
class SweepPoint:
    """`settings`: all that differ from the job's defaults; `varied`: those of the grid."""

    settings: Mapping[str, Any]
    varied: Mapping[str, Any]

    @property
    def name(self) -> str:
        return " ".join(f"{key}={_short(value)}" for key, value in self.varied.items()) or "base"

    @property
    def assignments(self) -> list[str]:
        return [f"{key}={json.dumps(value)}" for key, value in self.settings.items()]

    def job(self, folder: Path) -> JobSettings:
        """Raises ConfigError for a setting that does not exist."""
        return settings_for(folder, *self.assignments)


def _short(value: Any) -> str:
    return value["name"] if isinstance(value, dict) and "name" in value else str(value)


def load_sweep(path: Path) -> SweepSettings:
    """Read and check a sweep. Raises `ConfigError`."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        settings = TypeAdapter(SweepSettings).validate_python(tree)
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "top"
        raise ConfigError(f"{path}: {place} = {first.get('input')!r}: {first['msg']}") from error
    unknown = sorted(set(typing.cast(dict[str, Any], tree)) - set(SweepSettings.__annotations__))
    if unknown:
        known = ", ".join(SweepSettings.__annotations__)
        raise ConfigError(f"{path}: no such key: {', '.join(unknown)}; known: {known}")
    for key, least in (("clips", 2), ("warm", 1), ("repeats", 1)):
        if getattr(settings, key) < least:
            raise ConfigError(f"{path}: {key} = {getattr(settings, key)}: at least {least}")
    if settings.warm >= settings.clips:
        raise ConfigError(f"{path}: warm = {settings.warm}: fewer than clips ({settings.clips})")
    for point in settings.points():
        point.job(Path("sweep"))
    return settings


Run = Mapping[str, float]


def run_sweep(
    settings: SweepSettings,
    folder: Path,
    measure: Callable[[SweepPoint], Run],
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Measure what `folder` does not hold yet. Repeats go round, so that a machine whose speed
    drifts slows all points alike. Returns one entry per point: `settings`, `varied`, `runs`.

    Raises ConfigError if `folder` holds results of another sweep.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, asked = folder / RESULTS, json.loads(json.dumps(asdict(settings)))
    points = settings.points()
    entries = _load(file, asked) or [
        {"name": p.name, "settings": dict(p.settings), "varied": dict(p.varied), "runs": []}
        for p in points
    ]
    for number in range(settings.repeats):
        for point, entry in zip(points, entries, strict=True):
            if len(entry["runs"]) > number:
                continue
            say(f"{point.name}: run {number + 1} of {settings.repeats}")
            entry["runs"].append(dict(measure(point)))
            _save(file, {"sweep": asked, "points": entries})
    return entries


def _load(file: Path, asked: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    if not file.exists():
        return None
    held = json.loads(file.read_text())
    same = {key: value for key, value in held["sweep"].items() if key != "repeats"}
    if same != {key: value for key, value in asked.items() if key != "repeats"}:
        raise ConfigError(f"{file} holds results of another sweep: choose another folder")
    return held["points"]


def _save(file: Path, value: Mapping[str, Any]) -> None:
    half = file.with_suffix(".tmp")
    half.write_text(json.dumps(value, indent=2) + "\n")
    half.replace(file)


def means(runs: Sequence[Run]) -> dict[str, float]:
    """Of each figure, over repeats."""
    return {key: sum(run[key] for run in runs) / len(runs) for key in runs[0]}
