"""A strip of a clip's frames as one small JPEG, for people."""

import io

import numpy as np
from PIL import Image

from pipeline.frames import Frames

HEIGHT = 72  # pixels
MOST_FRAMES = 8
QUALITY = 70


def strip_jpeg(frames: Frames) -> bytes:
    """At most MOST_FRAMES frames of uint8 [T, H, W, 3], evenly spaced and side by side, as a JPEG
    of HEIGHT pixels: a few kilobytes.
    """
    picked = np.unique(np.linspace(0, len(frames) - 1, MOST_FRAMES).round().astype(int))
    height, width = frames.shape[1:3]
    size = (max(1, min(4 * HEIGHT, round(width * HEIGHT / height))), HEIGHT)
    strip = Image.new("RGB", (size[0] * len(picked), HEIGHT))
    for place, index in enumerate(picked):
        strip.paste(Image.fromarray(frames[index]).resize(size), (place * size[0], 0))
    data = io.BytesIO()
    strip.save(data, "JPEG", quality=QUALITY, optimize=True)
    return data.getvalue()
