"""Where videos come from: each module turns one kind of source into a stream of `VideoRef`.

To add one: a module with a function that yields `VideoRef`, a section in
`pipeline.config.SourceSettings`, and its line in `read_source` below.
"""

from collections.abc import Callable, Iterable, Iterator

from pipeline.config import SourceSettings, StorageOptions
from pipeline.errors import SourceError
from pipeline.sources.look_up import look_up
from pipeline.sources.manifest import list_manifest
from pipeline.sources.prefix import covered_by_prefix, list_prefix
from pipeline.sources.shards import IndexStore, expand_shards
from pipeline.sources.video_ref import VideoRef
from pipeline.storage import client_problem, protocol_of, shard_of

__all__ = ["IndexStore", "VideoRef", "covered_by", "read_source"]


def read_source(
    source: SourceSettings, storage: StorageOptions, store: IndexStore | None = None
) -> Iterator[VideoRef]:
    """Stream the clips that `source` names, each with the present state of its file. A file that is
    missing is still a clip if a manifest names it: it becomes an error row. `store` keeps what was
    read of tar shards.

    Raises `SourceError` when the source itself cannot be read, or names what is not allowed.
    """
    if source.manifest is not None:
        _check(source.manifest, "source.manifest", source)
        rows = list_manifest(source.manifest, storage)
        refs = look_up(_allowed(rows, source), storage)
    else:
        assert source.prefix is not None  # SourceSettings allows exactly one of the two
        _check(source.prefix, "source.prefix", source)
        refs = list_prefix(source.prefix, source.glob, storage)
    return expand_shards(refs, storage, store or IndexStore())


def _allowed(refs: Iterable[VideoRef], source: SourceSettings) -> Iterator[VideoRef]:
    for ref in refs:
        _check(shard_of(ref.uri) or ref.uri, f"source.manifest: {ref.place}", source)
        yield ref


def _check(uri: str, place: str, source: SourceSettings) -> None:
    protocol = protocol_of(uri)
    if protocol not in source.protocols:
        raise SourceError(
            f"{place}: {uri}: {protocol}:// is not in source.protocols "
            f"({', '.join(source.protocols)})"
        )
    problem = client_problem(protocol)
    if problem is not None:  # of every file there, so no matter of single rows
        raise SourceError(f"{place}: {uri}: {problem}")


def covered_by(source: SourceSettings, storage: StorageOptions) -> Callable[[str], bool]:
    """Whether `source` would list a video of this URI if it were there.

    A manifest covers nothing: what is not in it was left out, not deleted.
    """
    if source.prefix is None:
        return lambda uri: False
    covers = covered_by_prefix(source.prefix, source.glob, storage)
    return lambda uri: covers(shard_of(uri) or uri)
