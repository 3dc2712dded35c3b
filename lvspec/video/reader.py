"""The seam: one function, two decoders behind it.

To add a decoder: a function with the signature of `_Reader` in its own file, a line in _READERS,
its name in types.DecoderName, and its row in docs/decoders.md, measured by
tests/lvspec/video/measure_decoders.py.
"""

from __future__ import annotations

from collections.abc import Callable

from lvspec.video import decord_reader, pyav_reader
from lvspec.video.source import VideoSource
from lvspec.video.types import Allocate, Clip, DecoderName, FrameSpec, on_heap

_Reader = Callable[[VideoSource, FrameSpec, float | None, float | None, Allocate], Clip]

_READERS: dict[DecoderName, _Reader] = {"pyav": pyav_reader.read, "decord": decord_reader.read}


def read_clip(
    source: VideoSource,
    spec: FrameSpec,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    decoder: DecoderName = "pyav",
    allocate: Allocate = on_heap,
) -> Clip:
    """Read `spec.count` frames of a video, or of a span of it, at the model's size.

    source          a local path, or a seekable binary file object (fsspec); "pyav" reads ranges of
                    it, "decord" copies it
    start_s, end_s  the span on the player's clock: 0 is where the file starts, which may be before
                    its first picture. Default: from the first frame to the end of the last one. An
                    end up to 1 s behind the video's is cut.
    decoder         "pyav", or "decord" for those who have validated it on their corpus
                    (docs/decoders.md)
    allocate        where the pictures are put; memory that another process reads, for example

    The span is divided into `count` equal parts, and the frame on screen in the middle of each is
    returned: right for variable frame rates, edit lists and gaps. Frames are upright, with square
    pixels, uint8 RGB. A frame on screen at several of those times is repeated.

    Raises VideoError (code and message) for what is wrong with the file or the span; a damaged
    file gives clean pictures near the asked times and `info.damaged`, or decode_failed. Errors of
    the storage pass through as they are.
    """
    if decoder not in _READERS:
        raise ValueError(f"decoder must be one of {sorted(_READERS)}, not {decoder!r}")
    return _READERS[decoder](source, spec, start_s, end_s, allocate)
