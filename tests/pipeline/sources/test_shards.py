"""WebDataset shards: videos in tar files as a source, read in place."""

import io
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from lvspec.video import FrameSpec, read_clip
from pipeline.config import SourceSettings
from pipeline.sources import IndexStore, VideoRef, read_source
from pipeline.storage import open_video
from tests.pipeline.videos import write_video

SPEC = FrameSpec(count=2, factor=28, min_pixels=28 * 28, max_pixels=28 * 28)


def write_shard(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shards of real videos with texts beside them, as WebDataset writes them."""
    (tmp_path / "shards").mkdir()
    for shard in range(2):
        members: dict[str, bytes] = {}
        for clip in range(2):
            grey = 40 * shard + 20 * clip
            video = write_video(tmp_path / "v.mp4", brightness=grey).read_bytes()
            members[f"{clip:03d}.json"] = b'{"caption": "x"}'
            members[f"{clip:03d}.MP4"] = video
        write_shard(tmp_path / "shards" / f"s{shard}.tar", members)
    return tmp_path


def refs(prefix: Path, store: IndexStore | None = None) -> list[VideoRef]:
    source = SourceSettings(prefix=str(prefix), glob=("**/*.tar",))
    return list(read_source(source, {}, store))


def test_each_video_in_a_shard_is_a_clip_that_reads_in_place(folder: Path) -> None:
    found = refs(folder / "shards")
    assert [ref.video_id for ref in found] == [
        "s0.tar/000.MP4", "s0.tar/001.MP4", "s1.tar/000.MP4", "s1.tar/001.MP4",
    ]  # fmt: skip
    assert found[3].uri == f"tar://001.MP4::{folder / 'shards' / 's1.tar'}"
    for ref, grey in zip(found, (0, 20, 40, 60), strict=True):
        assert ref.offset_bytes is not None and ref.size_bytes is not None
        with open_video(ref.uri, {}, (ref.offset_bytes, ref.size_bytes)) as file:
            assert abs(read_clip(file, SPEC).frames.mean() - grey) <= 3


def test_a_changed_shard_changes_the_versions_of_its_videos_only(folder: Path) -> None:
    before = {ref.uri: ref.source_version for ref in refs(folder / "shards")}
    write_shard(folder / "shards" / "s1.tar", {"000.MP4": b"x" * 10, "002.MP4": b"y" * 20})
    after = {ref.uri: ref.source_version for ref in refs(folder / "shards")}
    same = [uri for uri in before if before[uri] == after.get(uri)]
    assert [uri.partition("::")[2][-6:] for uri in same] == ["s0.tar", "s0.tar"]
    assert len(after) == 4


def test_a_shard_is_read_once_while_it_stays_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, pa.Table] = {}
    store = IndexStore(kept.get, kept.__setitem__)
    first = refs(folder / "shards", store)
    assert len(kept) == 2
    monkeypatch.setattr(tarfile, "open", None)  # must not be needed
    assert refs(folder / "shards", store) == first


@pytest.mark.parametrize(("cut", "members"), [(300, 0), (700, 1), (1024, 1), (1500, 1), (2048, 2)])
def test_a_shard_that_is_cut_off_is_a_clip_too_and_so_an_error(
    tmp_path: Path, cut: int, members: int
) -> None:
    """Cut in a header, behind a video, before and in a header, and where the end mark should be."""
    path = write_shard(tmp_path / "s.tar", {"a.mp4": b"x" * 100, "b.mp4": b"y" * 300})
    path.write_bytes(path.read_bytes()[:cut])
    kept: dict[str, pa.Table] = {}
    found = [ref.video_id for ref in refs(tmp_path, IndexStore(kept.get, kept.__setitem__))]
    assert found[-1] == "s.tar"
    assert found[:-1] == ["s.tar/a.mp4", "s.tar/b.mp4"][:members]
    assert kept == {}  # looked at again the next time


@pytest.mark.parametrize("members", [{}, {"a.txt": b"text"}])
def test_a_shard_without_videos_is_not_passed_over_in_silence(
    tmp_path: Path, members: dict[str, bytes]
) -> None:
    write_shard(tmp_path / "s.tar", members)
    assert [ref.video_id for ref in refs(tmp_path)] == ["s.tar"]


def test_a_manifest_may_name_shards_and_members_and_what_is_not_there(folder: Path) -> None:
    shard = folder / "shards" / "s1.tar"
    (folder / "m.jsonl").write_text(
        '{"uri": "shards/s0.tar", "prompt": "Why?"}\n'
        f'{{"uri": "tar://001.MP4::{shard}", "start_s": 0.1}}\n'
        f'{{"uri": "tar://009.MP4::{shard}"}}\n'
        '{"uri": "gone.tar"}\n'
    )
    listed = refs(folder / "shards")
    found = list(read_source(SourceSettings(manifest=str(folder / "m.jsonl")), {}))
    assert [ref.uri for ref in found[:2]] == [ref.uri for ref in listed[:2]]
    assert {ref.prompt for ref in found[:2]} == {"Why?"}
    assert found[2].offset_bytes == listed[3].offset_bytes
    assert (found[2].source_version, found[2].start_s) == (listed[3].source_version, 0.1)
    assert [ref.source_version for ref in found[3:]] == ["missing", "missing"]
    assert found[4].uri == str(folder / "gone.tar")


def test_a_part_of_a_file_is_a_file(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "s.tar", {"a.mp4": bytes(range(200))})
    with open_video(f"tar://a.mp4::{shard}", {}, (512, 200)) as file:
        assert not isinstance(file, str)
        assert file.read() == bytes(range(200))
        assert file.read(1) == b""
        assert file.seek(-3, io.SEEK_END) == 197
        assert file.read(10) == bytes([197, 198, 199])
        assert (file.seek(5), file.read(2), file.tell()) == (5, bytes([5, 6]), 7)
        assert file.seek(500) == 500
        assert file.read() == b""
