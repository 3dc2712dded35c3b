"""The corpus of odd videos (../shared/cases) through the decode stage: right frames, or an error
row. Skipped where it is not there.

    python -m tests.pipeline.stages.test_decode_cases

prints the table: files by kind and outcome, and each file that is not plainly right.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.config import VideoSettings
from pipeline.decoding.process import decoder_process
from pipeline.frames import unpack
from pipeline.stages.decode import decode_table
from tests.lvspec.video import odd_cases
from tests.lvspec.video.test_canary import Watch
from tests.lvspec.video.test_cases import REFUSED, SILENT_CODECS, displayed
from tests.pipeline.decoding.measure_throughput import manifest_row

pytestmark = pytest.mark.skipif(
    not odd_cases.expected() or sys.platform != "linux",
    reason=f"no odd videos at {odd_cases.FOLDER}, or no inotify",
)


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    yield
    decoder_process().close()


def decoded() -> Iterator[tuple[str, pa.Table]]:
    """Every file of the corpus and its row, one task."""
    names = sorted(odd_cases.expected())
    table = pa.Table.from_pylist([manifest_row(odd_cases.VIDEOS / name) for name in names])
    spec, video = odd_cases.SPEC, VideoSettings()
    rows = decode_table(table, run_id="r", spec=spec, video=video, storage={})
    yield from zip(names, rows, strict=True)


def outcome(name: str, table: pa.Table) -> str:
    """One of: right, wrong and how, "damaged, marked", or the error's code."""
    row = table.drop_columns(["frames"]).to_pylist()[0]
    if row["status"] == "error":
        assert row["error_stage"] == "decode"
        assert row["error_message"]
        return row["error_code"]
    frames, times_s = unpack(table, 0)
    indices = [odd_cases.read_index(picture)[0] for picture in frames]
    if row["damaged"]:
        # 2 s at 30 frames per second is how far a clean picture may be taken from.
        first = odd_cases.expected()[name]["index"][0]
        off = max(abs(i - first - t * 30) for i, t in zip(indices, times_s, strict=True))
        is_far = off > 63 and name not in SILENT_CODECS
        return f"wrong: {off:.0f} frames off" if is_far else "damaged, marked"
    clip: Any = SimpleNamespace(times_s=times_s, info=SimpleNamespace(duration_s=row["duration_s"]))
    shown = odd_cases.shown_indices(name, clip)
    if any(index not in right for index, right in zip(indices, shown, strict=True)):
        return f"wrong: frames {indices}"
    return _look(name, row, frames)


def _look(name: str, row: dict[str, Any], frames: np.ndarray) -> str:
    """Are the right frames upright, of the right size and colours?"""
    turns = {odd_cases.read_index(picture)[1] for picture in frames}
    if turns != {odd_cases.expected()[name]["turns"]}:
        return f"wrong: turned by {turns}"
    if (row["width"], row["height"]) != displayed(name):
        return f"wrong: {row['width']} x {row['height']}"
    if turns == {0} and name not in odd_cases.NO_COLOUR_CHECK:
        error = odd_cases.colour_error(frames.astype(np.float64).mean(axis=0))
        return "right" if error <= 4.0 else f"wrong: colours by {error:.1f}"
    return "right"


def is_as_expected(name: str, result: str) -> bool:
    kind = odd_cases.expected()[name]["kind"]
    if kind == "refuse":
        return result == REFUSED[name]
    return (
        result == "right" if kind == "healthy" else result in ("damaged, marked", "decode_failed")
    )


def test_frames_are_right_or_the_row_is_an_error() -> None:
    watch = Watch(odd_cases.VIDEOS / "secret.ts")  # two of the files name it
    results = {name: outcome(name, table) for name, table in decoded()}
    assert watch.num_opened() == 0
    os.close(watch.fd)
    assert len(results) == len(odd_cases.expected())
    assert {n: r for n, r in results.items() if not is_as_expected(n, r)} == {}


def main() -> None:
    results = {name: outcome(name, table) for name, table in decoded()}
    kinds = {name: case["kind"] for name, case in odd_cases.expected().items()}
    print("| kind | outcome | files |\n|---|---|---|")
    for (kind, result), count in sorted(Counter((kinds[n], r) for n, r in results.items()).items()):
        print(f"| {kind} | {result} | {count} |")
    unexpected = {
        name: result for name, result in results.items() if not is_as_expected(name, result)
    }
    print(f"\n{len(results)} files, {len(unexpected)} not as expected", unexpected or "")


if __name__ == "__main__":
    main()
