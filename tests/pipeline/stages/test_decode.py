"""The decode stage on real files, through the decoder process: frames, or a row with an error."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lvspec.video import FrameSpec, read_clip
from pipeline.config import VideoSettings
from pipeline.decoding.process import decoder_process
from pipeline.frames import pack, to_table, unpack
from pipeline.schema import DECODED
from pipeline.stages.decode import decode_table
from tests.lvspec.video import small
from tests.pipeline.videos import write_video

SPEC = FrameSpec(count=4, factor=28, min_pixels=28 * 28, max_pixels=56 * 56)


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    yield
    decoder_process().close()


def row(uri: str, **more: Any) -> dict[str, Any]:
    base = {"clip_id": "id", "video_id": "v", "uri": uri, "start_s": None, "end_s": None}
    return {**base, "prompt": None, "size_bytes": None, "source_version": "v1", **more}


def decode(*rows: dict[str, Any], spec: FrameSpec = SPEC) -> list[pa.Table]:
    table = pa.Table.from_pylist(list(rows))
    return list(decode_table(table, run_id="r", spec=spec, video=VideoSettings(), storage={}))


def facts(table: pa.Table) -> dict[str, Any]:
    return table.drop_columns(["frames"]).to_pylist()[0]


def test_a_video_becomes_frames_at_model_size(tmp_path: Path) -> None:
    path = write_video(tmp_path / "v.mp4", brightness=100)
    (table,) = decode(row(str(path)))
    assert table.schema.equals(DECODED)
    frames, times_s = unpack(table, 0)
    assert frames.shape == (4, 56, 56, 3)
    assert np.array_equal(frames, read_clip(path, SPEC).frames)
    assert abs(float(frames.mean()) - 100) < 3
    assert np.allclose(times_s, [0.0625, 0.1875, 0.3125, 0.4375], atol=1 / 24)
    seen = facts(table)
    assert (seen["status"], seen["codec"], seen["run_id"]) == ("ok", "h264", "r")
    assert seen["read_s"] > 0


@pytest.mark.parametrize("decoder", ["pyav", "decord"])
def test_a_span_is_the_frames_of_the_span(tmp_path: Path, decoder: str) -> None:
    if decoder == "decord":
        pytest.importorskip("decord", reason="decord is an extra")
    path = small.write(tmp_path / "v.mp4", 40)  # 20 per second
    table = pa.Table.from_pylist([row(str(path), start_s=1.0, end_s=2.0)])
    video = VideoSettings(decoder=decoder)
    (decoded,) = decode_table(table, run_id="r", spec=SPEC, video=video, storage={})
    assert [small.read(picture) for picture in unpack(decoded, 0)[0]] == [22, 27, 32, 37]


def test_rows_in_are_rows_out_in_order_whatever_is_wrong_with_them(tmp_path: Path) -> None:
    good = str(write_video(tmp_path / "good.mp4", brightness=10))
    (tmp_path / "empty.mp4").write_bytes(b"")
    (tmp_path / "image.mp4").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    names = (good, "none.mp4", "empty.mp4", "image.mp4", good)
    tables = decode(*(row(str(tmp_path / n), clip_id=str(i)) for i, n in enumerate(names)))
    seen = [facts(table) for table in tables]
    assert [s["clip_id"] for s in seen] == list("01234")
    codes = ["missing_file", "empty_file", "refused_container"]
    assert [s["error_code"] for s in seen] == [None, *codes, None]
    assert {s["error_stage"] for s in seen[1:4]} == {"decode"}
    assert tables[1]["frames"].null_count == 1


def test_lost_frames_are_an_error_and_never_repeated_in_silence(tmp_path: Path) -> None:
    """Zeroes over most of a file: fewer than half of the different frames are left."""
    path = small.write(tmp_path / "v.mp4", 200, options={"x264-params": "scenecut=0"})
    data = bytearray(path.read_bytes())
    start, end = len(data) // 10, len(data) * 8 // 10
    data[start:end] = bytes(end - start)
    path.write_bytes(data)
    spec = FrameSpec(count=20, factor=28, min_pixels=28 * 28, max_pixels=56 * 56)
    seen = facts(decode(row(str(path)), spec=spec)[0])
    assert seen["error_code"] in ("decode_failed", "broken_container")


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="a temporary file elsewhere")
def test_no_copy_between_the_decoder_process_and_the_caption_stage(tmp_path: Path) -> None:
    """The arrays that the caption stage unpacks are the memory that the decoder process filled."""
    path = str(write_video(tmp_path / "v.mp4", brightness=100))
    table = pa.concat_tables(decode(row(path), row(path), row(str(tmp_path / "none.mp4"))))
    arrays = [unpack(table, index)[0] for index in (0, 1)]
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = [line.split()[0].split("-") for line in lines if "memfd:lvspec-frames" in line]
    assert len(mapped) == len(arrays)
    for frames in arrays:
        at = frames.ctypes.data
        assert any(int(low, 16) <= at < int(high, 16) for low, high in mapped)


def test_an_array_in_a_row_of_many_is_its_own(tmp_path: Path) -> None:
    """One Arrow array of many rows, as it comes out of a file or a combined batch."""
    clips = [np.full((n + 1, 2, 3, 3), n, np.uint8) for n in range(3)]
    packed = [pack(clip, np.arange(len(clip), dtype=np.float64)) for clip in clips]
    schema = pa.schema([DECODED.field(name) for name in ("frames", "frames_shape", "times_s")])
    table = pa.concat_tables([to_table(item, schema) for item in packed]).combine_chunks()
    for index, clip in enumerate(clips):
        frames, times_s = unpack(table, index)
        assert np.array_equal(frames, clip)
        assert len(times_s) == index + 1
