"""What the decoder process does with one job, here without a process: every kind of failure is a
code.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvspec.video import Clip, FrameSpec, VideoError, VideoInfo
from pipeline.decoding.child import decode
from pipeline.decoding.memory import FrameMemory
from pipeline.decoding.types import CODES, Decoded, Failed, Job, ReadClip

SPEC = FrameSpec(count=2, factor=28, min_pixels=28 * 28, max_pixels=56 * 56)
INFO = VideoInfo("pyav", "h264", "mp4", 25.0, 1.0, 56, 28, 0, 0.0, 1.0, 2, 2, False)
DECODERS = Path(__file__).resolve().parents[3] / "docs" / "decoders.md"


def job(read: ReadClip, memory: str = "", uri: str = "/v.mp4", **more: Any) -> Job:
    base = {"start_s": None, "end_s": None, "decoder": "pyav", "storage": {}}
    return Job(uri=uri, spec=SPEC, memory=memory, read=read, **{**base, **more})


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (VideoError("encrypted", "CENC"), "encrypted", "CENC"),
        (FileNotFoundError(2, "gone"), "missing_file", "there is no file /v.mp4"),
        (PermissionError("denied"), "no_permission", "denied"),
        (TimeoutError("slow"), "read_failed", "slow"),
        (ConnectionResetError("reset"), "read_failed", "reset"),
        (MemoryError("9 GB"), "decode_memory", "an allocation failed: 9 GB"),
        (ValueError("odd"), "decode_crashed", "ValueError: odd"),
    ],
)
def test_whatever_is_raised_is_a_code(raised: Exception, code: str, words: str) -> None:
    def read(*args: Any, **kwargs: Any) -> Any:
        raise raised

    assert decode(job(read)) == Failed(code, words)


def test_the_span_and_the_decoder_reach_the_reader() -> None:
    seen: dict[str, Any] = {}

    def read(source: Any, spec: FrameSpec, **options: Any) -> Any:
        seen.update(options, source=source)
        raise ValueError

    decode(job(read, start_s=1.0, end_s=2.0, decoder="decord"))
    del seen["allocate"]
    assert seen == {"source": "/v.mp4", "start_s": 1.0, "end_s": 2.0, "decoder": "decord"}


def test_frames_lie_in_the_jobs_memory_even_if_reading_starts_over() -> None:
    pictures = np.random.default_rng(0).integers(0, 255, (2, 28, 56, 3), np.uint8)

    def read(*args: Any, allocate: Any, **kwargs: Any) -> Clip:
        allocate((2, 56, 56, 3))[:] = 1  # a first try that was given up
        frames = allocate(pictures.shape)
        frames[:] = pictures
        return Clip(frames, np.array([0.25, 0.75]), INFO)

    with FrameMemory() as memory:
        result = decode(job(read, memory.path))
        assert isinstance(result, Decoded)
        frames = memory.read(result.shape)
    assert np.array_equal(frames, pictures)  # also after the memory's file is closed
    assert not frames.flags.writeable


def test_every_code_is_documented() -> None:
    text = DECODERS.read_text()
    assert [code for code in CODES if f"| `{code}` |" not in text] == []


def test_a_code_that_is_not_listed_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="no_such_code"):
        Failed("no_such_code", "")
