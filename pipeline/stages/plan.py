"""Plan: which clips a run will caption. Runs on the driver; the core is pure and streams.

clips = what the source lists, minus what the dataset already holds for the same file version and
prompt; or, where failed clips are tried again, only those. Memory is 16 bytes per listed clip and
32 per held one: ids are sorted arrays, looked up a chunk at a time.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.errors import SourceError
from pipeline.schema import MANIFEST
from pipeline.sources.video_ref import MISSING_VERSION, UNSEEN_VERSIONS, VideoRef

ROWS_PER_FILE = 20_000  # of the manifest: small enough to stream, large enough to list
NAMED_DUPLICATES = 10  # how many a message names
ID_BYTES = 16

Ids = npt.NDArray[np.bytes_]  # [n] of 16 bytes; "sorted" where it says so


def milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def clip_id(uri: str, start_s: float | None, end_s: float | None) -> str:
    """UUID v5 of the clip: the same file and span always give the same id; no start is a start of
    0.
    """
    start_ms, end_ms = milliseconds(start_s) or 0, milliseconds(end_s)
    return str(
        uuid.uuid5(uuid.NAMESPACE_URL, f"{uri}\n{start_ms}\n{'' if end_ms is None else end_ms}")
    )


def raw_id(clip: str) -> bytes:
    """The 16 bytes of a clip id."""
    return bytes.fromhex(clip.replace("-", ""))


def clip_key(clip: str, version: str, prompt: str | None) -> bytes:
    """16 bytes that stand for "this clip, of this version of the file, asked with this prompt"."""
    text = f"{clip}\n{version}\n{prompt or ''}"
    return hashlib.blake2b(text.encode(), digest_size=ID_BYTES).digest()


def as_ids(raw: bytes | bytearray) -> Ids:
    """Ids that stand one behind the other in `raw`, as an array of the same memory."""
    return np.frombuffer(raw, dtype=f"S{ID_BYTES}")


def contains(ids: Ids, wanted: Ids) -> npt.NDArray[np.bool_]:
    """For each of `wanted`: is it in `ids`, which are sorted?"""
    if not len(ids):
        return np.zeros(len(wanted), np.bool_)
    found = np.minimum(ids.searchsorted(wanted), len(ids) - 1)
    return ids[found] == wanted


NO_IDS: Ids = as_ids(b"")


@dataclass(frozen=True)
class Held:
    """What the dataset already holds, as sorted arrays: the `ids` of its rows, and their `keys`
    (see `clip_key`). `again`: only these ids are planned, whatever else the source lists.
    """

    ids: Ids = field(default_factory=lambda: NO_IDS)
    keys: Ids = field(default_factory=lambda: NO_IDS)
    again: Ids | None = None


@dataclass(frozen=True)
class PlanCounts:
    """listed = held + planned; `replacing` of the planned ones take the place of rows of an older
    version.
    """

    listed: int
    held: int
    planned: int
    replacing: int


@dataclass(frozen=True)
class Planned:
    """`counts`, and the held ids (sorted) that the source does not list (`unlisted`) or whose file
    is not there (`missing`).
    """

    counts: PlanCounts
    unlisted: Ids
    missing: Ids


def plan_clips(
    source: Callable[[], Iterable[VideoRef]], held: Held, write: Callable[[pa.Table], None]
) -> Planned:
    """Write the clips to caption as MANIFEST tables of at most ROWS_PER_FILE rows, and count.

    Raises `SourceError` naming clips that the source lists more than once (`source` is then read
    again, for their names).
    """
    listed, missing = bytearray(), bytearray()
    num_planned = num_replacing = 0
    rows: list[dict[str, Any]] = []
    for chunk, names, ids in _chunks(source()):
        listed += ids.tobytes()
        is_held = contains(held.ids, ids)
        going = _is_going(chunk, names, ids, is_held, held)
        gone = np.array([ref.source_version == MISSING_VERSION for ref in chunk])
        missing += ids[is_held & gone].tobytes()
        num_replacing += int((going & is_held).sum())
        for index in np.flatnonzero(going):
            rows.append(_row(names[index], chunk[index]))
            if len(rows) == ROWS_PER_FILE:
                write(pa.Table.from_pylist(rows, schema=MANIFEST))
                num_planned += len(rows)
                rows = []
    all_ids = np.sort(as_ids(listed))
    _refuse_duplicates(all_ids, source)
    if rows:
        write(pa.Table.from_pylist(rows, schema=MANIFEST))
        num_planned += len(rows)
    counts = PlanCounts(len(all_ids), len(all_ids) - num_planned, num_planned, num_replacing)
    return Planned(counts, held.ids[~contains(all_ids, held.ids)], np.unique(as_ids(missing)))


def whole_videos(refs: Iterable[VideoRef]) -> Iterator[VideoRef]:
    """`refs`, to be cut into clips. Raises `SourceError` for one that is a clip already."""
    for ref in refs:
        if ref.start_s is not None or ref.end_s is not None:
            raise SourceError(
                f"{ref.place}: {ref.uri} has a span of its own, and clips.mode cuts whole videos; "
                "set clips.mode=whole to caption the spans of a manifest"
            )
        yield ref


def spans_of(row: Mapping[str, Any]) -> Iterator[VideoRef]:
    """The clips of a CUT row; none if it failed."""
    for start, end in zip(row["starts_ms"] or (), row["ends_ms"] or (), strict=True):
        yield VideoRef(
            row["uri"],
            row["video_id"],
            start / 1000,
            end / 1000,
            row["prompt"],
            size_bytes=row["size_bytes"],
            offset_bytes=row["offset_bytes"],
            source_version=row["source_version"],
        )


def _chunks(refs: Iterable[VideoRef]) -> Iterator[tuple[list[VideoRef], list[str], Ids]]:
    """Up to ROWS_PER_FILE refs at a time, with their ids as text and as an array."""
    refs = iter(refs)
    while chunk := list(islice(refs, ROWS_PER_FILE)):
        names = [clip_id(ref.uri, ref.start_s, ref.end_s) for ref in chunk]
        raw = b"".join(map(raw_id, names))
        yield chunk, names, as_ids(raw)


def _is_going(
    chunk: list[VideoRef], names: list[str], ids: Ids, is_held: npt.NDArray[np.bool_], held: Held
) -> npt.NDArray[np.bool_]:
    """For each ref of a chunk: is it planned?"""
    if held.again is not None:
        return contains(held.again, ids)
    pairs = zip(names, chunk, strict=True)
    keys = b"".join(clip_key(name, ref.source_version, ref.prompt) for name, ref in pairs)
    answered = contains(held.keys, as_ids(keys))
    # A held clip whose file cannot be seen now (deleted, or an outage) keeps its rows.
    unseen = np.array([ref.source_version in UNSEEN_VERSIONS for ref in chunk])
    return ~answered & ~(unseen & is_held)


def _refuse_duplicates(ids: Ids, source: Callable[[], Iterable[VideoRef]]) -> None:
    twice = np.unique(ids[1:][ids[1:] == ids[:-1]])
    if not len(twice):
        return
    named = twice[:NAMED_DUPLICATES]
    found: dict[str, list[VideoRef]] = {}
    for chunk, names, chunk_ids in _chunks(source()):
        for index in np.flatnonzero(contains(named, chunk_ids)):
            found.setdefault(names[index], []).append(chunk[index])
    raise SourceError(
        f"the source lists {len(twice)} clip(s) more than once: "
        + "; ".join(_name(refs) for refs in found.values())
        + (" ..." if len(twice) > len(named) else "")
    )


def _row(identity: str, ref: VideoRef) -> dict[str, Any]:
    return {
        "clip_id": identity,
        "video_id": ref.video_id,
        "uri": ref.uri,
        "start_s": ref.start_s,
        "end_s": ref.end_s,
        "prompt": ref.prompt,
        "size_bytes": ref.size_bytes,
        "offset_bytes": ref.offset_bytes,
        "source_version": ref.source_version,
    }


def _name(refs: list[VideoRef]) -> str:
    """`v.mp4 [1 s to end] (clips.csv:2, clips.csv:7)`."""
    ref = refs[0]
    places = ", ".join(ref.place for ref in refs if ref.place)
    end = "end" if ref.end_s is None else f"{ref.end_s:g} s"
    span = (
        "" if ref.start_s is None and ref.end_s is None else f" [{ref.start_s or 0:g} s to {end}]"
    )
    return f"{ref.uri}{span}" + (f" ({places})" if places else "")
