"""Videos cut into clips, end to end on Ray with real files and the scripted captioner."""

import os
from pathlib import Path
from typing import Any

import pytest

from pipeline import corpus
from pipeline.config import JobSettings
from pipeline.corpus import dry_run
from pipeline.dataset import Dataset
from pipeline.errors import FingerprintError, SourceError
from pipeline.increments import Retry
from pipeline.planning import write_clips
from pipeline.verify import verify
from tests.pipeline import scripted
from tests.pipeline.fakes import FAKE
from tests.pipeline.scripted import caption, rows
from tests.pipeline.videos import write_greys, write_video

pytestmark = pytest.mark.usefixtures("local_ray")


WINDOWS = ("clips.mode=windows", "clips.length_s=1.0", "clips.minimum_s=0.25")


def settings(folder: Path, *assignments: str) -> JobSettings:
    return scripted.settings(folder, *WINDOWS, *assignments)


def spans(folder: Path) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows(folder, "captions"):
        found.setdefault(row["video_id"], []).append((row["start_s"], row["end_s"]))
    return {name: sorted(spans) for name, spans in found.items()}


def test_windows_over_three_nights(tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    write_video(videos / "long.mp4", brightness=50, frames=60)
    write_video(videos / "short.mp4", brightness=90, frames=12)
    (videos / "junk.mp4").write_bytes(b"this is text\n" * 50)
    assert (
        dry_run(settings(tmp_path), backend=FAKE).counts.planned,
        dry_run(settings(tmp_path), backend=FAKE).unit,
    ) == (
        3,
        "video",
    )
    first, said = caption(settings(tmp_path))
    assert "plan: 3 videos to cut, 0 already there" in said
    assert "cut: 4 clips to caption, 1 video cannot be cut" in said
    assert (first.manifest_rows, first.failed_by_code) == (5, {"not_a_video": 1})
    assert spans(tmp_path) == {
        "long.mp4": [(0.0, 1.0), (1.0, 2.0), (2.0, 2.5)],
        "short.mp4": [(0.0, 0.5)],
    }
    (error,) = rows(tmp_path, "errors")
    assert (error["error_stage"], error["start_s"], error["video_id"]) == ("cut", None, "junk.mp4")

    write_video(videos / "long.mp4", brightness=50, frames=36)  # now 1.5 s
    os.utime(videos / "long.mp4", (1, 1))
    write_video(videos / "junk.mp4", brightness=70, frames=24)
    (videos / "short.mp4").unlink()
    second, said = caption(settings(tmp_path))
    assert "plan: 2 videos to cut, 0 already there" in said
    assert (second.manifest_rows, second.replaced, second.deleted) == (3, 4, 1)
    assert spans(tmp_path) == {
        "long.mp4": [(0.0, 1.0), (1.0, 1.5)],
        "short.mp4": [(0.0, 0.5)],
        "junk.mp4": [(0.0, 1.0)],
    }
    assert rows(tmp_path, "errors") == []
    assert verify(Dataset.open(str(tmp_path / "out"), {})).findings == []

    third, said = caption(settings(tmp_path, "caption.num_gpus=99"))
    assert (third.run_id, third.already_held, third.deleted) == (None, 2, 1)
    assert "nothing new: the dataset holds all 2 videos" in said
    with pytest.raises(FingerprintError, match=r"clips.length_s: 1.0 in the dataset, 2.0 now"):
        caption(settings(tmp_path, "clips.length_s=2"))


def test_scenes_and_trying_one_again_after_a_stop_between_cutting_and_captioning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    greys = [40] * 25 + [200] * 25
    write_greys(tmp_path / "videos" / "v.mp4", greys, [40 * i for i in range(50)])
    (tmp_path / "videos" / "bad.mp4").write_bytes(b"")
    config = settings(tmp_path, "clips={mode: scenes, minimum_s: 0.5}")

    def stop(*arguments: Any) -> None:
        write_clips(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(corpus, "write_clips", stop)
        with pytest.raises(KeyboardInterrupt):
            caption(config)
    summary, said = caption(config)
    assert "has 0 of 2 clips" in said
    assert (summary.succeeded, summary.failed_by_code) == (2, {"empty_file": 1})
    assert spans(tmp_path) == {"v.mp4": [(0.0, 1.0), (1.0, 2.0)]}
    assert caption(config)[0].run_id is None

    again, said = caption(config, Retry(frozenset({"empty_file"})))
    assert "plan: 1 failed video to try again" in said
    assert (again.manifest_rows, again.failed_by_code) == (1, {"empty_file": 1})
    assert [row["run_id"] for row in rows(tmp_path, "errors")] == [again.run_id]
    write_greys(tmp_path / "videos" / "bad.mp4", greys, [40 * i for i in range(50)])
    assert caption(config, Retry())[0].succeeded == 2
    assert rows(tmp_path, "errors") == []
    assert len({row["clip_id"] for row in rows(tmp_path, "captions")}) == 4


def test_spans_of_a_manifest_are_clips_and_are_not_cut_again(tmp_path: Path) -> None:
    write_video(tmp_path / "v.mp4", brightness=60, frames=48)
    (tmp_path / "m.csv").write_text("uri,start_s,end_s\nv.mp4,0,1\n")
    config = settings(tmp_path, "source={}", f"source.manifest={tmp_path / 'm.csv'}")
    with pytest.raises(SourceError, match=r"^m.csv:2: .*v.mp4 has a span of its own"):
        caption(config)
