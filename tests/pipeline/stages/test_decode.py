"""Decoding one row: real files through the real reader, and every kind of failure as a row."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lvspec.video import FrameSpec
from pipeline.frames import unpack
from pipeline.schema import DECODED
from pipeline.stages.decode import decode_row, decode_table
from tests.pipeline.videos import write_video

SPEC = FrameSpec(count=4, factor=28, min_pixels=28 * 28, max_pixels=56 * 56)


def row(uri: str, **more: Any) -> dict[str, Any]:
    base = {"clip_id": "id", "video_id": "v", "uri": uri, "start_s": None, "end_s": None}
    return {**base, "prompt": None, "size_bytes": None, "source_version": "v1", **more}


def test_a_video_becomes_frames_at_model_size(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", brightness=100)
    tables = list(
        decode_table(
            pa.Table.from_pylist([row(str(path))]),
            run_id="r",
            spec=SPEC,
            decoder="pyav",
            storage={},
        )
    )
    assert len(tables) == 1
    assert tables[0].schema.equals(DECODED)
    frames, times_s = unpack(tables[0], 0)
    assert frames.shape == (4, 56, 56, 3)
    assert abs(float(frames.mean()) - 100) < 3
    assert np.allclose(times_s, [0.0625, 0.1875, 0.3125, 0.4375], atol=1 / 24)
    facts = tables[0].to_pylist()[0]
    assert (facts["status"], facts["codec"], facts["run_id"]) == ("ok", "h264", "r")


def test_a_missing_file_is_an_error_row(tmp_path: Path) -> None:
    result = decode_row(row(str(tmp_path / "none.mp4")), SPEC, "pyav", {})
    assert (result["status"], result["error_stage"]) == ("error", "decode")
    assert result["error_code"] == "missing_file"
    assert result["frames"] is None


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (PermissionError("denied"), "no_permission"),
        (TimeoutError("slow"), "read_failed"),
        (ValueError("odd"), "decode_crashed"),
    ],
)
def test_whatever_is_raised_is_this_rows_error(raised: Exception, code: str) -> None:
    def read(*args: Any, **kwargs: Any) -> Any:
        raise raised

    result = decode_row(row("/v.mp4"), SPEC, "pyav", {}, read)
    assert result["error_code"] == code
    assert str(raised) in result["error_message"]


def test_the_span_and_the_decoder_reach_the_reader() -> None:
    seen: dict[str, Any] = {}

    def read(source: Any, spec: FrameSpec, **options: Any) -> Any:
        seen.update(options, source=source)
        raise ValueError

    decode_row(row("/v.mp4", start_s=1.0, end_s=2.0), SPEC, "decord", {}, read)
    assert seen == {"source": "/v.mp4", "start_s": 1.0, "end_s": 2.0, "decoder": "decord"}
