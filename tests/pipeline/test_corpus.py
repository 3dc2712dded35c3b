"""The job end to end on Ray with real files and the scripted captioner."""

import io
import json
import os
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.corpus import caption_corpus, dry_run
from pipeline.dataset import Dataset
from pipeline.errors import (
    BackendError,
    FingerprintError,
    LockLostError,
    SourceError,
    StoppedError,
)
from pipeline.increments import Retry
from pipeline.lock import DriverLock
from pipeline.summary import RunSummary
from pipeline.verify import verify
from tests.pipeline.fakes import FAKE
from tests.pipeline.scripted import caption, rows, settings
from tests.pipeline.videos import write_corpus, write_video

pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, local_ray: None) -> tuple[Path, RunSummary]:
    """A finished run over ten good files and two bad ones."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder / "videos", good=10)
    return folder, caption(settings(folder))[0]


def test_every_clip_is_there_once_with_its_own_caption(done: tuple[Path, RunSummary]) -> None:
    folder, _ = done
    captions = {row["video_id"]: row["caption"] for row in rows(folder, "captions")}
    assert len(rows(folder, "captions")) == len(captions) == 10
    for index in range(10):
        text, shape, brightness = captions[f"clip_{index:02d}.mp4"].rsplit(" ", 2)
        assert (text, shape) == ("Describe this video.", "8x56x56x3")
        assert abs(int(brightness) - 10 * index) <= 3


def test_bad_files_are_error_rows(done: tuple[Path, RunSummary]) -> None:
    errors = {row["video_id"]: row for row in rows(done[0], "errors")}
    assert {name: row["error_code"] for name, row in errors.items()} == {
        "empty.mp4": "empty_file",
        "junk.mp4": "not_a_video",
    }
    assert all(row["error_stage"] == "decode" and row["error_message"] for row in errors.values())


def test_the_summary_counts_what_is_published(done: tuple[Path, RunSummary]) -> None:
    folder, summary = done
    assert (summary.manifest_rows, summary.succeeded, summary.failed) == (12, 10, 2)
    assert summary.failed_by_code == {"empty_file": 1, "not_a_video": 1}
    assert (summary.tokens, summary.mean_accepted_length, summary.speedup) == (40, 1.5, 2.5)
    assert set(summary.seconds_by_stage) == {
        "plan", "caption", "publish", "read", "prefill", "decode",
    }  # fmt: skip
    dataset = Dataset.open(str(folder / "out"), {})
    assert summary.run_id is not None
    assert dataset.read_json(dataset.run(summary.run_id, "summary.json")) == summary.to_json()
    assert dataset.is_published(summary.run_id)
    assert verify(dataset).findings == []


def test_flagged_captions_are_counted(done: tuple[Path, RunSummary], tmp_path: Path) -> None:
    assert (done[1].truncated, done[1].degenerate) == (0, 0)
    write_video(tmp_path / "videos" / "a.mp4", brightness=60)
    summary, _ = caption(settings(tmp_path, "models.target=loop"))
    assert (summary.succeeded, summary.truncated, summary.degenerate) == (1, 1, 1)
    (row,) = rows(tmp_path, "captions")
    assert (row["truncated"], row["degenerate"]) == (True, True)
    assert verify(Dataset.open(str(tmp_path / "out"), {})).findings == []


def test_commits_were_made_every_few_rows(done: tuple[Path, RunSummary]) -> None:
    staged = list((done[0] / "out" / "runs").rglob("rows/*.parquet"))
    assert len(staged) == 3  # 12 rows, 4 per commit


def test_nothing_new_starts_nothing(done: tuple[Path, RunSummary]) -> None:
    folder, _ = done
    broken = settings(folder, "caption.num_gpus=99")  # could not run if it tried
    summary, said = caption(broken)
    assert "nothing new" in said
    assert (summary.run_id, summary.manifest_rows, summary.already_held) == (None, 0, 12)


def test_another_fingerprint_is_refused_with_the_difference(done: tuple[Path, RunSummary]) -> None:
    with pytest.raises(FingerprintError, match=r"decoding.draft_length: 10 in the dataset, 4 now"):
        caption(settings(done[0], "decoding.draft_length=4"))


def test_a_dry_run_counts_and_writes_nothing(tmp_path: Path) -> None:
    write_corpus(tmp_path / "videos", good=2)
    plan = dry_run(settings(tmp_path), backend=FAKE)
    assert (plan.unfinished, plan.counts.listed, plan.counts.planned) == (None, 4, 4)
    assert not (tmp_path / "out").exists()


def test_three_nights(tmp_path: Path) -> None:
    """20 clips; then five new, one changed, one deleted; then nothing."""
    videos = tmp_path / "videos"
    for index in range(20):
        write_video(videos / f"clip_{index:02d}.mp4", brightness=5 * index)
    first, _ = caption(settings(tmp_path))
    assert (first.manifest_rows, first.already_held, first.deleted) == (20, 0, 0)

    for index in range(20, 25):
        write_video(videos / f"clip_{index:02d}.mp4", brightness=5 * index)
    write_video(videos / "clip_01.mp4", brightness=200)
    os.utime(videos / "clip_01.mp4", (1, 1))  # whatever the clock's resolution
    (videos / "clip_02.mp4").unlink()
    second, said = caption(settings(tmp_path))
    assert "plan: 6 clips to caption, 18 already there" in said
    assert (second.manifest_rows, second.already_held, second.replaced) == (6, 18, 1)
    assert (second.deleted, second.deleted_uris) == (1, [str(videos / "clip_02.mp4")])
    assert "deleted: 1 clip of the dataset" in said
    found = {row["video_id"]: row["caption"] for row in rows(tmp_path, "captions")}
    assert len(rows(tmp_path, "captions")) == len(found) == 25
    assert abs(int(found["clip_01.mp4"].rsplit(" ", 1)[1]) - 200) <= 3
    assert "clip_02.mp4" in found
    listed = pq.read_table(tmp_path / "out" / "deleted.parquet").to_pylist()
    assert [(row["video_id"], row["run_id"]) for row in listed] == [("clip_02.mp4", first.run_id)]

    assert verify(Dataset.open(str(tmp_path / "out"), {})).findings == []

    third, said = caption(settings(tmp_path, "caption.num_gpus=99"))  # could not run if it tried
    assert (third.run_id, third.already_held, third.deleted) == (None, 24, 1)
    assert "nothing new" in said


def test_failed_clips_are_tried_again_when_asked(tmp_path: Path) -> None:
    videos = write_corpus(tmp_path / "videos", good=2)
    (tmp_path / "m.jsonl").write_text(
        "".join(
            json.dumps({"uri": f"videos/{name}"}) + "\n"
            for name in ("clip_00.mp4", "clip_01.mp4", "empty.mp4", "junk.mp4", "gone.mp4")
        )
    )
    config = settings(tmp_path, "source.prefix=null", f"source.manifest={tmp_path / 'm.jsonl'}")
    assert caption(config)[0].failed == 3
    assert caption(config)[0].manifest_rows == 0

    one, said = caption(config, Retry(frozenset({"missing_file"})))
    assert (one.manifest_rows, one.failed_by_code, one.replaced) == (1, {"missing_file": 1}, 1)
    assert "1 failed clip to try again" in said
    write_video(videos / "empty.mp4", brightness=70)
    write_video(videos / "later.mp4", brightness=70)
    everything, _ = caption(config, Retry())
    assert (everything.manifest_rows, everything.succeeded) == (3, 1)
    assert everything.failed_by_code == {"missing_file": 1, "not_a_video": 1}
    assert sorted(row["video_id"] for row in rows(tmp_path, "captions")) == [
        "videos/clip_00.mp4", "videos/clip_01.mp4", "videos/empty.mp4",
    ]  # fmt: skip
    assert len(rows(tmp_path, "errors")) == 2

    none, said = caption(config, Retry(frozenset({"no_frames"})))
    assert none.run_id is None
    assert "failed in the dataset: 1 missing_file, 1 not_a_video" in said


def test_what_another_source_brought_is_not_deleted(tmp_path: Path) -> None:
    for name in ("videos/a.mp4", "other/b.mp4", "other/c.mp4"):
        write_video(tmp_path / name, brightness=60)
    caption(settings(tmp_path))
    summary, _ = caption(settings(tmp_path, f"source.prefix={tmp_path / 'other'}"))
    assert (summary.manifest_rows, summary.deleted) == (2, 0)
    (tmp_path / "other/c.mp4").unlink()
    only_b = settings(tmp_path, f"source.prefix={tmp_path / 'other'}", "source.glob=b.*")
    assert dry_run(only_b, backend=FAKE).deleted.rows == 0
    assert (
        dry_run(
            settings(tmp_path, f"source.prefix={tmp_path / 'other'}"), backend=FAKE
        ).deleted.rows
        == 1
    )


def test_a_manifest_with_spans_prompts_and_a_missing_file(tmp_path: Path) -> None:
    write_video(tmp_path / "v.mp4", brightness=60, frames=48)
    (tmp_path / "m.jsonl").write_text(
        '{"uri": "v.mp4", "start_s": 0, "end_s": 1, "prompt": "First?"}\n'
        '{"uri": "v.mp4", "start_s": 1, "end_s": 2}\n'
        '{"uri": "gone.mp4"}\n'
    )
    config = settings(tmp_path, "source.prefix=null", f"source.manifest={tmp_path / 'm.jsonl'}")
    summary, _ = caption(config)
    assert summary.failed_by_code == {"missing_file": 1}
    texts = {row["start_s"]: row["caption"].split("?")[0] for row in rows(tmp_path, "captions")}
    assert texts[0.0] == "First"
    assert texts[1.0].startswith("Describe this video.")
    errors = list((tmp_path / "out" / "errors").rglob("*.parquet"))
    again = settings(tmp_path, "source.prefix=null", f"source.manifest={errors[0]}")
    assert dry_run(again, backend=FAKE).counts.held == 1  # an errors file is a manifest


def test_videos_in_tar_shards(tmp_path: Path) -> None:
    videos = [write_video(tmp_path / f"{n}.mp4", brightness=50 * n) for n in (1, 2)]
    (tmp_path / "videos").mkdir()
    with tarfile.open(tmp_path / "videos" / "s.tar", "w") as shard:
        for path in videos:
            shard.add(path, path.name)
    config = settings(tmp_path, "source.glob=*.tar")
    assert caption(config)[0].succeeded == 2
    found = {row["video_id"]: row for row in rows(tmp_path, "captions")}
    assert sorted(found) == ["s.tar/1.mp4", "s.tar/2.mp4"]
    for n in (1, 2):
        row = found[f"s.tar/{n}.mp4"]
        assert row["uri"] == f"tar://{n}.mp4::{tmp_path / 'videos' / 's.tar'}"
        assert abs(int(row["caption"].rsplit(" ", 1)[1]) - 50 * n) <= 3
    assert caption(config)[0].already_held == 2
    assert len(list((tmp_path / "out" / "shards").iterdir())) == 1


def test_duplicates_name_themselves_and_leave_no_run(tmp_path: Path) -> None:
    write_video(tmp_path / "v.mp4", brightness=60)
    (tmp_path / "m.csv").write_text("uri\nv.mp4\n./v.mp4\n")
    config = settings(tmp_path, "source.prefix=null", f"source.manifest={tmp_path / 'm.csv'}")
    with pytest.raises(SourceError, match=r"more than once: .*v\.mp4 \(m.csv:2, m.csv:3\)"):
        caption(config)
    assert Dataset.open(config.output, {}).unfinished_runs() == []


def test_a_dead_engine_stops_the_job_and_the_run_resumes(tmp_path: Path) -> None:
    write_corpus(tmp_path / "videos", good=2)
    with pytest.raises(StoppedError, match="RuntimeError: device lost"):
        caption(settings(tmp_path, "models.target=broken"))
    dataset = Dataset.open(str(tmp_path / "out"), {})
    assert len(dataset.unfinished_runs()) == 1
    with pytest.raises(FingerprintError):
        caption(settings(tmp_path))


def test_a_driver_that_lost_its_lock_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_video(tmp_path / "videos" / "a.mp4", brightness=50)

    def lost(lock: DriverLock) -> None:
        raise LockLostError("another driver has it")

    with monkeypatch.context() as patch, pytest.raises(LockLostError):
        patch.setattr(DriverLock, "check", lost)
        caption(settings(tmp_path))
    assert not (tmp_path / "out" / "captions").exists()
    assert caption(settings(tmp_path))[0].succeeded == 1


def test_where_every_clip_fails_both_folders_can_still_be_read(tmp_path: Path) -> None:
    write_corpus(tmp_path / "videos", good=0)
    assert caption(settings(tmp_path))[0].failed == 2
    assert rows(tmp_path, "captions") == []
    assert len(rows(tmp_path, "errors")) == 2
    names = pq.read_schema(next((tmp_path / "out" / "captions").rglob("*.parquet"))).names
    assert "caption" in names
    assert verify(Dataset.open(str(tmp_path / "out"), {})).findings == []


def test_models_that_do_not_load_stop_the_job_with_the_reason(tmp_path: Path) -> None:
    write_corpus(tmp_path / "videos", good=1)
    with pytest.raises(StoppedError, match="RuntimeError: weights are not there"):
        caption(settings(tmp_path, "models.target=unloadable"))


def test_models_that_cannot_run_are_refused_before_anything_starts(tmp_path: Path) -> None:
    write_corpus(tmp_path / "videos", good=1)
    with pytest.raises(BackendError, match="cannot load '/no/such/model'"):
        caption_corpus(settings(tmp_path, "models.target=/no/such/model"), out=io.StringIO())
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert left == [], "a wrong name must not bind the output to its settings"
