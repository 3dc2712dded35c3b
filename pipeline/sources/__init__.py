"""Where videos come from: each module turns one kind of source into a stream of `VideoRef`.

To add one: a module with a function that yields `VideoRef`, a section in
`pipeline.config.SourceSettings`, and its line in `read_source` below.
"""

from collections.abc import Iterator

from pipeline.config import SourceSettings, StorageOptions
from pipeline.sources.manifest import list_manifest
from pipeline.sources.prefix import list_prefix
from pipeline.sources.video_ref import VideoRef

__all__ = ["VideoRef", "read_source"]


def read_source(source: SourceSettings, storage: StorageOptions) -> Iterator[VideoRef]:
    """Stream the clips that `source` names. Raises `SourceError` when the source itself cannot be
    read.
    """
    if source.manifest is not None:
        return list_manifest(source.manifest, storage)
    assert source.prefix is not None  # SourceSettings allows exactly one of the two
    return list_prefix(source.prefix, source.glob, storage)
