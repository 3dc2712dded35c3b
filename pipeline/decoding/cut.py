"""Cutting in the decoder process: a video -> the spans of its clips."""

import gc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lvspec.video import VideoSource
from lvspec.video.timeline import read_extent, see_all
from pipeline.clips import ClipSettings, Span, extent_ms, scenes, windows
from pipeline.decoding.types import Failed, failed
from pipeline.storage import open_video

LOOK_PIXELS = 256  # the longer side of what is compared: cuts show at any size


@dataclass(frozen=True)
class CutJob:
    """One video to cut. `part`: see `Job`."""

    uri: str
    part: tuple[int, int] | None
    clips: ClipSettings
    storage: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Cuts:
    """The spans of a video's clips, in milliseconds."""

    spans: tuple[Span, ...]


def cut(job: CutJob) -> Cuts | Failed:
    """Whatever is raised becomes a code, as in `child.decode`."""
    try:
        with open_video(job.uri, job.storage, job.part) as source:
            if job.clips.mode == "scenes":
                spans = find_scenes(source, job.clips)
            else:
                spans = windows(extent_ms(*read_extent(source)), job.clips)
        result = Cuts(tuple(spans))
    except Exception as error:  # one odd file must not end a job of millions
        result = failed(error, job.uri)
    gc.collect()  # as in `child.decode`
    return result


def find_scenes(source: VideoSource, settings: ClipSettings) -> list[Span]:
    """Spans between the cuts that PySceneDetect sees.

    Its detector is shown each picture by its number; numbers become times only afterwards, by the
    pictures' own times, so that a varying frame rate shifts nothing.
    """
    import cv2  # noqa: PLC0415  # an extra; and the process that only decodes starts without it
    from scenedetect.common import FrameTimecode  # noqa: PLC0415
    from scenedetect.detectors import ContentDetector  # noqa: PLC0415

    cv2.setNumThreads(1)
    # Short scenes are joined by `scenes`, which knows times; here every cut is wanted.
    detector: Any = ContentDetector(threshold=settings.threshold, min_scene_len=0)
    numbers: list[int] = []

    def look(number: int, picture: Any) -> None:
        found = detector.process_frame(FrameTimecode(number, fps=1000.0), picture)
        numbers.extend(code.frame_num for code in found)

    times_s, end_s = see_all(source, look, LOOK_PIXELS)
    cuts_ms = [round(times_s[number] * 1000) for number in numbers]
    return scenes(extent_ms(times_s[0], end_s), cuts_ms, settings)
