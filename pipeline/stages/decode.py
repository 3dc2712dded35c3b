"""Decode: a clip's file -> its frames at the model's input size. CPU; one task decodes one block of
clips, in a process of its own that can be killed (see `pipeline.decoding`).

A file that cannot be read is a row with an error; frames of it never reach the models.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lvspec.video import FrameSpec, read_clip
from pipeline.config import StorageOptions, VideoSettings
from pipeline.decoding.memory import FrameMemory
from pipeline.decoding.process import decoder_process
from pipeline.decoding.types import Decoded, Failed, Job, ReadClip
from pipeline.frames import NO_FRAMES, pack, to_table
from pipeline.metrics import count_read
from pipeline.schema import DECODED, VIDEO_COLUMNS
from pipeline.storage import NO_QUERIES, address_of, part_of, with_patience
from pipeline.worker_log import log_failures

NO_VIDEO: Mapping[str, Any] = {column.name: None for column in VIDEO_COLUMNS}


def decode_row(
    row: Mapping[str, Any],
    spec: FrameSpec,
    video: VideoSettings,
    storage: StorageOptions,
    read: ReadClip = read_clip,
    queries: Mapping[str, str] = NO_QUERIES,
) -> dict[str, Any]:
    """One MANIFEST row -> one DECODED row (without run_id): frames and what the file is, or an
    error with one of `pipeline.decoding.types.CODES`.

    `read` is called in the decoder process. `queries` are those of signed addresses, by the address
    without them. Raises RuntimeError if none can be started.
    """
    started = time.perf_counter()
    with FrameMemory() as memory:
        job = Job(
            address_of(row["uri"], queries),
            row["start_s"],
            row["end_s"],
            spec=spec,
            decoder=video.decoder,
            storage=with_patience(storage, video.timeout_s / 2),
            memory=memory.path,
            read=read,
            part=part_of(row),
        )
        result = decoder_process().run(job, video.timeout_s, video.memory_mb)
        if isinstance(result, Failed):
            columns = _error(result)
        else:
            columns = _decoded(result, memory.read(result.shape))
    return {**row, **columns, "read_s": time.perf_counter() - started}


def decode_table(
    table: pa.Table,
    *,
    run_id: str,
    spec: FrameSpec,
    video: VideoSettings,
    storage: StorageOptions,
    read: ReadClip = read_clip,
    queries: Mapping[str, str] = NO_QUERIES,
) -> Iterator[pa.Table]:
    """What Ray Data runs: MANIFEST rows in, as many DECODED rows out, one by one to keep memory
    flat.
    """
    for row in table.to_pylist():
        decoded = decode_row(row, spec, video, storage, read, queries)
        decoded["run_id"] = run_id
        count_read(decoded)
        log_failures([decoded], "decode", run_id)
        yield to_table(decoded, DECODED)


def _error(failed: Failed) -> dict[str, Any]:
    return {
        **NO_VIDEO,
        **NO_FRAMES,
        "status": "error",
        "error_stage": "decode",
        "error_code": failed.code,
        "error_message": failed.message,
    }


def _decoded(clip: Decoded, frames: npt.NDArray[np.uint8]) -> dict[str, Any]:
    info = clip.info
    return {
        "status": "ok",
        "error_stage": None,
        "error_code": None,
        "error_message": None,
        "decoder": info.decoder,
        "codec": info.codec,
        "container": info.container,
        "fps": info.fps,
        "duration_s": info.duration_s,
        "width": info.width,
        "height": info.height,
        "rotation": info.rotation,
        "num_frames_requested": info.num_frames_requested,
        "num_frames_decoded": info.num_frames_decoded,
        "damaged": info.damaged,
        **pack(frames, clip.times_s),
    }
