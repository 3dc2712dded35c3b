"""Where videos come from: each module turns one kind of source into a stream of `VideoRef`.

To add one: a module with a function that yields `VideoRef`, a section in
`pipeline.config.SourceSettings`, and its line in `read_source` below.
"""

from collections.abc import Callable, Iterator

from pipeline.config import SourceSettings, StorageOptions
from pipeline.sources.manifest import list_manifest
from pipeline.sources.prefix import covered_by_prefix, list_prefix
from pipeline.sources.video_ref import VideoRef

__all__ = ["VideoRef", "covered_by", "read_source"]


def read_source(source: SourceSettings, storage: StorageOptions) -> Iterator[VideoRef]:
    """Stream the clips that `source` names. Raises `SourceError` when the source itself cannot be
    read.
    """
    if source.manifest is not None:
        return list_manifest(source.manifest, storage)
    assert source.prefix is not None  # SourceSettings allows exactly one of the two
    return list_prefix(source.prefix, source.glob, storage)


def covered_by(source: SourceSettings, storage: StorageOptions) -> Callable[[str], bool]:
    """Whether `source` would list a video of this URI if it were there.

    A manifest covers nothing: what is not in it was left out, not deleted.
    """
    if source.prefix is None:
        return lambda uri: False
    return covered_by_prefix(source.prefix, source.glob, storage)
