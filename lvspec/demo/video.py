"""Writing a toy scene as a real video file, as a camera would: encoded frames at a fixed rate.
numpy and PyAV only.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.stream import VideoStream

from lvspec.demo.drawing import render_at
from lvspec.demo.scenes import SIDE, Scene

# Suffix -> encoder and its options. Quality is high: at 112 pixels a coarse quantiser would hide
# what the captions are about.
ENCODERS: dict[str, tuple[str, dict[str, str]]] = {
    ".mp4": ("libx264", {"crf": "16", "preset": "veryfast"}),
    ".mkv": ("libx264", {"crf": "16", "preset": "veryfast"}),
    ".webm": ("libvpx-vp9", {"crf": "18", "b": "0", "deadline": "realtime", "cpu-used": "8"}),
}
_BT601 = 6  # AVCOL_SPC_SMPTE170M, and the same number for primaries and transfer


def write(scene: Scene, path: str | Path, fps: int | Fraction = 25) -> None:
    """Encodes `scene` to `path` at `fps` frames per second; container and codec by suffix (.mp4,
    .mkv, .webm).

    Frame i of N shows moment (i + 1/2) / N of the scene. Raises ValueError for any other suffix.
    """
    suffix = Path(path).suffix
    if suffix not in ENCODERS:
        raise ValueError(f"cannot write {suffix!r} files; choose one of {', '.join(ENCODERS)}")
    codec, options = ENCODERS[suffix]
    count = round(scene.duration_s * fps)
    frames = render_at(scene, (np.arange(count) + 0.5) / count)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=fps, options=options)
        assert isinstance(stream, VideoStream)  # every encoder above is for video
        stream.width = stream.height = SIDE
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = _BT601
        for image in frames:
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame = frame.reformat(format="yuv420p", dst_colorspace="ITU601")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
