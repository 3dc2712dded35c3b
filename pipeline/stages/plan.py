"""Plan: which clips a run will caption. Runs on the driver; the core is pure and streams.

clips = what the source lists, minus what the dataset already holds for the same file version and
prompt.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pipeline.errors import SourceError
from pipeline.schema import MANIFEST
from pipeline.sources.video_ref import MISSING_VERSION, VideoRef

ROWS_PER_FILE = 20_000  # of the manifest: small enough to stream, large enough to list
NAMED_DUPLICATES = 10  # how many a message names


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


def clip_key(clip: str, version: str, prompt: str | None) -> bytes:
    """16 bytes that stand for "this clip, of this version of the file, asked with this prompt"."""
    return hashlib.blake2b(f"{clip}\n{version}\n{prompt or ''}".encode(), digest_size=16).digest()


@dataclass
class Held:
    """What the dataset already holds: `keys` of its rows (see `clip_key`) and their clip ids, 16
    bytes each.
    """

    keys: set[bytes] = field(default_factory=set[bytes])
    clips: set[bytes] = field(default_factory=set[bytes])

    def add(self, clip: str, version: str, prompt: str | None) -> None:
        self.keys.add(clip_key(clip, version, prompt))
        self.clips.add(uuid.UUID(clip).bytes)


@dataclass(frozen=True)
class PlanCounts:
    """listed = held + planned; `replacing` of the planned ones take the place of rows of an older
    version.
    """

    listed: int
    held: int
    planned: int
    replacing: int


def plan_clips(
    refs: Iterable[VideoRef], held: Held, write: Callable[[pa.Table], None]
) -> PlanCounts:
    """Write the clips to caption as MANIFEST tables of at most ROWS_PER_FILE rows, and count.

    Raises `SourceError` naming clips that the source lists more than once.
    """
    seen: set[bytes] = set()
    duplicates: list[str] = []
    counts = {"held": 0, "planned": 0, "replacing": 0, "duplicate": 0}
    rows: list[dict[str, Any]] = []
    for ref in refs:
        identity = clip_id(ref.uri, ref.start_s, ref.end_s)
        raw = uuid.UUID(identity).bytes
        if raw in seen:
            counts["duplicate"] += 1
            if len(duplicates) < NAMED_DUPLICATES:
                duplicates.append(_name(ref))
            continue
        seen.add(raw)
        # A held clip whose file cannot be seen now (deleted, or an outage) keeps its rows.
        unseen = ref.source_version == MISSING_VERSION and raw in held.clips
        if unseen or clip_key(identity, ref.source_version, ref.prompt) in held.keys:
            counts["held"] += 1
            continue
        counts["planned"] += 1
        counts["replacing"] += raw in held.clips
        rows.append(_row(identity, ref))
        if len(rows) == ROWS_PER_FILE:
            write(pa.Table.from_pylist(rows, schema=MANIFEST))
            rows = []
    if duplicates:
        raise SourceError(
            f"the source lists {counts['duplicate']} clip(s) more than once: "
            + "; ".join(duplicates)
            + (" ..." if counts["duplicate"] > len(duplicates) else "")
        )
    if rows:
        write(pa.Table.from_pylist(rows, schema=MANIFEST))
    return PlanCounts(len(seen), counts["held"], counts["planned"], counts["replacing"])


def _row(identity: str, ref: VideoRef) -> dict[str, Any]:
    return {
        "clip_id": identity,
        "video_id": ref.video_id,
        "uri": ref.uri,
        "start_s": ref.start_s,
        "end_s": ref.end_s,
        "prompt": ref.prompt,
        "size_bytes": ref.size_bytes,
        "source_version": ref.source_version,
    }


def _name(ref: VideoRef) -> str:
    if ref.start_s is None and ref.end_s is None:
        return ref.uri
    return f"{ref.uri} [{ref.start_s or 0} s to {'end' if ref.end_s is None else f'{ref.end_s} s'}]"
