"""The present state of files that a source only names: their size, and what tells it from another.

Looked up by many threads: each waits on the network, not on the CPU.
"""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from pipeline.config import StorageOptions
from pipeline.sources.outage import Outage
from pipeline.sources.video_ref import (
    MISSING_VERSION,
    UNKNOWN_VERSION,
    VideoRef,
    size_of,
    source_version,
)
from pipeline.storage import open_filesystem, shard_of
from pipeline.transient import StorageUnavailableError

CHUNK = 1024  # files looked up together
THREADS = 16


def look_up(refs: Iterable[VideoRef], storage: StorageOptions) -> Iterator[VideoRef]:
    """The same refs in the same order, each with the size and version of its file."""
    refs, outage = iter(refs), Outage(storage)
    with ThreadPoolExecutor(THREADS) as pool:
        while chunk := list(islice(refs, CHUNK)):
            files = list({_file_of(ref): None for ref in chunk})
            found = list(pool.map(lambda uri: outage.ask(partial(state_of, uri)), files))
            outage.judge(found)
            states = dict(zip(files, found, strict=True))
            for ref in chunk:
                size, version = states[_file_of(ref)] or (None, UNKNOWN_VERSION)
                yield replace(ref, size_bytes=size, source_version=version)


def _file_of(ref: VideoRef) -> str:
    return shard_of(ref.address) or ref.address


def state_of(uri: str, storage: StorageOptions) -> tuple[int | None, str]:
    """Size and version of one file, as far as its storage says. Raises `StorageUnavailableError` if
    it does not answer.
    """
    try:
        fs, path = open_filesystem(uri, storage)
        info: Mapping[str, Any] = fs.info(path)
    except FileNotFoundError:
        return None, MISSING_VERSION
    except StorageUnavailableError:
        raise
    except Exception:  # any client's error, of this one file: decoding meets it again and names it
        return None, UNKNOWN_VERSION
    return size_of(info), source_version(info)
