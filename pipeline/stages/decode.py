"""Decode: a clip's file -> its frames at the model's input size. CPU; one task decodes one block of
clips.

A file that cannot be read is a row with an error; frames of it never reach the models.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from lvspec.video import Clip, FrameSpec, VideoError, read_clip
from pipeline.config import StorageOptions
from pipeline.frames import NO_FRAMES, pack
from pipeline.schema import DECODED, VIDEO_COLUMNS
from pipeline.storage import open_video

NO_VIDEO: Mapping[str, Any] = {column.name: None for column in VIDEO_COLUMNS}
ReadClip = Callable[..., Clip]


def decode_row(
    row: Mapping[str, Any],
    spec: FrameSpec,
    decoder: str,
    storage: StorageOptions,
    read: ReadClip = read_clip,
) -> dict[str, Any]:
    """One MANIFEST row -> one DECODED row (without run_id): frames and what the file is, or an
    error.
    """
    started = time.perf_counter()
    try:
        with open_video(row["uri"], storage) as source:
            clip = read(source, spec, start_s=row["start_s"], end_s=row["end_s"], decoder=decoder)
    except VideoError as error:
        result = _error(error.code, error.message)
    except FileNotFoundError:
        result = _error("missing_file", f"there is no file {row['uri']}")
    except PermissionError as error:
        result = _error("no_permission", str(error))
    except OSError as error:
        result = _error("read_failed", str(error))
    except Exception as error:
        # One odd file must not end a job of millions: whatever a decoder or a storage client raises
        # is this row's error, named by its type. (MemoryError included: the next file may be
        # small.)
        result = _error("decode_crashed", f"{type(error).__name__}: {error}")
    else:
        result = _decoded(clip)
    return {**row, **result, "read_s": time.perf_counter() - started}


def decode_table(
    table: pa.Table,
    *,
    run_id: str,
    spec: FrameSpec,
    decoder: str,
    storage: StorageOptions,
    read: ReadClip = read_clip,
) -> Iterator[pa.Table]:
    """What Ray Data runs: MANIFEST rows in, as many DECODED rows out, one by one to keep memory
    flat.
    """
    for row in table.to_pylist():
        decoded = decode_row(row, spec, decoder, storage, read)
        yield pa.Table.from_pylist([{**decoded, "run_id": run_id}], schema=DECODED)


def _error(code: str, message: str) -> dict[str, Any]:
    return {
        **NO_VIDEO,
        **NO_FRAMES,
        "status": "error",
        "error_stage": "decode",
        "error_code": code,
        "error_message": message,
    }


def _decoded(clip: Clip) -> dict[str, Any]:
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
        **pack(clip.frames, clip.times_s),
    }
