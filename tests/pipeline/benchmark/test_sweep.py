"""Sweeps: their points, what is refused, and one that breaks and goes on."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.benchmark.result import load_results, save, table
from pipeline.benchmark.sweep import Run, SweepPoint, SweepSettings, load_sweep, run_sweep
from pipeline.errors import ConfigError

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "benchmark_demo.yaml"
FIGURES = (
    *("clips_per_s", "tokens_per_s", "clips_per_s_per_device", "device_hours_per_1000"),
    *("price_per_1000", "efficiency", "read_s_per_clip", "prefill_s_per_clip"),
    *("generate_s_per_clip", "engine_busy"),
)


def sweep(**more: Any) -> SweepSettings:
    grid = {"decoding.slots": [4, 8], "caption.actors": [1, 2]}
    return SweepSettings(grid=grid, base={"frames.count": 4}, clips=8, warm=2, **more)


def test_points_are_all_combinations_over_the_base() -> None:
    points = sweep().points()
    assert [point.name for point in points] == [
        "decoding.slots=4 caption.actors=1",
        "decoding.slots=4 caption.actors=2",
        "decoding.slots=8 caption.actors=1",
        "decoding.slots=8 caption.actors=2",
    ]
    job = points[3].job(Path("somewhere"))
    assert (job.decoding.slots, job.caption.pool, job.frames.count) == (8, (2, 2), 4)


def test_the_shipped_sweep_loads() -> None:
    settings = load_sweep(CONFIG)
    assert len(settings.points()) == 8
    assert settings.points()[0].job(Path("x")).decoding.policy.name == "exact"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grid: {decoding.slot: [1]}", "decoding.slot"),
        ("grid: {decoding.slots: 4}", "grid.decoding.slots = 4"),
        ("grid: {}\nclip: 3", "no such key: clip"),
        ("grid: {}\nengine: fast", "engine = 'fast'"),
        ("grid: {}\nclips: 8\nwarm: 8", "warm = 8: fewer than clips"),
        ("grid: {}\nrepeats: 0", "repeats = 0: at least 1"),
        ("[", "cannot be read"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_sweep(file)
    assert message in str(error.value)


def figures(point: SweepPoint) -> Run:
    return dict.fromkeys(FIGURES, float(point.varied["decoding.slots"]))


def test_a_broken_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    ran: list[str] = []

    def breaks(point: SweepPoint) -> Run:
        if len(ran) == 5:
            raise KeyboardInterrupt
        ran.append(point.name)
        return figures(point)

    with pytest.raises(KeyboardInterrupt):
        run_sweep(sweep(repeats=2), tmp_path, breaks, lambda line: None)
    again: list[str] = []
    entries = run_sweep(
        sweep(repeats=2), tmp_path, lambda p: again.append(p.name) or figures(p), lambda line: None
    )
    names = [point.name for point in sweep().points()]
    assert ran == [*names, names[0]]  # repeats go round
    assert again == names[1:]
    assert [len(entry["runs"]) for entry in entries] == [2, 2, 2, 2]
    assert load_results(tmp_path) == json.loads(json.dumps(entries))


def test_another_sweep_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    run_sweep(sweep(repeats=1), tmp_path, figures, lambda line: None)
    more = run_sweep(sweep(repeats=2), tmp_path, figures, lambda line: None)  # more repeats add
    assert [len(entry["runs"]) for entry in more] == [2, 2, 2, 2]
    with pytest.raises(ConfigError, match="another sweep"):
        run_sweep(sweep(repeats=1, price_per_hour=1.0), tmp_path, figures, lambda line: None)


def test_table_csv_and_picture(tmp_path: Path) -> None:
    entries = run_sweep(sweep(repeats=2), tmp_path, figures, lambda line: None)
    save(tmp_path, entries)
    assert "| decoding.slots=8 caption.actors=2 | 8.00 |" in table(entries)
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert rows[-1]["decoding.slots"] == "8"
    assert float(rows[-1]["clips_per_s"]) == 8.0
    assert (tmp_path / "throughput.png").read_bytes().startswith(b"\x89PNG")
