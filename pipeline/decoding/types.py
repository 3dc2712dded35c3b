"""What the decode stage and its decoder process say to each other: small, frozen, picklable."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lvspec.video import CODES as VIDEO_CODES
from lvspec.video import Clip, DecoderName, FrameSpec, VideoError, VideoInfo
from pipeline.secrets import scrub, unsigned
from pipeline.transient import StorageUnavailableError

CODES: Final[dict[str, str]] = {
    **VIDEO_CODES,
    "no_permission": "the storage refuses to hand over the file",
    "read_failed": "the storage failed while the file was read",
    "storage_unavailable": "the storage did not answer, however often it was asked",
    "decode_timeout": "reading and decoding took longer than video.timeout_s",
    "decode_memory": "decoding took more memory than video.memory_mb",
    "decode_crashed": "the decoder died, or raised what no file should cause",
}
"""Every `error_code` of `error_stage` decode. Never renamed, never reused for something else."""

ReadClip = Callable[..., Clip]
"""`lvspec.video.read_clip`, or what a test puts in its place: pickled by name."""


@dataclass(frozen=True)
class Job:
    """One clip to decode. `memory` is the path of the file that its frames are written to; `part`
    is where a video in a tar archive lies, (offset, size) in bytes.
    """

    uri: str
    start_s: float | None
    end_s: float | None
    spec: FrameSpec
    decoder: DecoderName
    storage: Mapping[str, Mapping[str, Any]]
    memory: str
    read: ReadClip
    part: tuple[int, int] | None = None


@dataclass(frozen=True)
class Decoded:
    """A clip whose frames, uint8 [T, H, W, 3] = `shape`, lie in the job's memory."""

    shape: tuple[int, int, int, int]
    times_s: npt.NDArray[np.float64]  # [T]
    info: VideoInfo


@dataclass(frozen=True)
class Failed:
    """A clip that cannot be decoded. `code` is one of CODES."""

    code: str
    message: str

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code!r} is not one of {sorted(CODES)}")


def failed(error: Exception, uri: str) -> Failed:
    """What a row says of whatever a decoder or a storage client raised."""
    match error:
        case VideoError():
            return Failed(error.code, error.message)
        case FileNotFoundError():
            return Failed("missing_file", f"there is no file {unsigned(uri)[0]}")
        case OSError():
            return Failed(_code(error), scrub(str(error)))
        case MemoryError():
            return Failed("decode_memory", f"an allocation failed: {error}")
        case _:
            return Failed("decode_crashed", scrub(f"{type(error).__name__}: {error}"))


def _code(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "no_permission"
    return "storage_unavailable" if isinstance(error, StorageUnavailableError) else "read_failed"
