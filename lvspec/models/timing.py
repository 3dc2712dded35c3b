"""When frames were shown, in the words of the stock processors (`VideoMetadata`)."""

import numpy as np
from transformers.video_utils import VideoMetadata


def at_their_rate(times_s: np.ndarray) -> VideoMetadata:
    """For processors that read a rate only: one over the frames' mean gap."""
    count = len(times_s)
    span = float(times_s[-1] - times_s[0])
    fps = (count - 1) / span if span > 0 else 1.0
    return VideoMetadata(
        total_num_frames=count, fps=fps, duration=count / fps, frames_indices=list(range(count))
    )


def at_their_times(times_s: np.ndarray) -> VideoMetadata:
    """For processors that write every frame's time into the prompt: a clock of milliseconds.

    The clip lasts half a gap beyond its last frame: exactly so for frames at the centres of equal
    parts, which is how `lvspec.video` takes them.
    """
    first, last = float(times_s[0]), float(times_s[-1])
    half_gap = (last - first) / (len(times_s) - 1) / 2 if len(times_s) > 1 else first
    duration_ms = round((last + half_gap) * 1000)
    return VideoMetadata(
        total_num_frames=duration_ms,
        fps=1000.0,
        duration=duration_ms / 1000,
        frames_indices=[round(float(t) * 1000) for t in times_s],
    )
