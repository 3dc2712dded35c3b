"""read_clip on small files made here: the right frame at the asked time, by PyAV and by decord."""

import io
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from lvspec.video import FrameSpec, VideoError, pyav_decode, read_clip
from tests.lvspec.video import small

SPEC = FrameSpec(count=5, factor=28, min_pixels=56 * 56, max_pixels=112 * 112)


def indices(clip):
    return [small.read(picture) for picture in clip.frames]


def frames_off(clip):
    """Per picture, how many frames from the one on screen, at 20 frames per second."""
    shown = [int(t * 20 + 1e-6) for t in clip.times_s]
    return [abs(index - right) for index, right in zip(indices(clip), shown, strict=True)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """40 frames at 20 fps: 2 s, B-frames, keyframe every 10."""
    return small.write(tmp_path_factory.mktemp("video") / "plain.mp4")


MIDDLES = [4, 12, 20, 28, 36]  # frames on screen at 0.2, 0.6, ... s; 0.2 s is frame 4's own start


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("h264.mp4", "libx264", {}),
        ("h264.mkv", "libx264", {}),
        ("h264.mov", "libx264", {}),
        ("h264.ts", "libx264", {}),
        ("h264.avi", "libx264", {}),
        ("h264.flv", "libx264", {}),
        ("h264_no_b.mp4", "libx264", {"bf": "0"}),
        ("h264_open_gop.mp4", "libx264", {"x264-params": "open-gop=1:bframes=3:b-adapt=0"}),
        ("fragmented.mp4", "libx264", {}),
        ("h265.mp4", "libx265", {"x265-params": "log-level=none:bframes=3"}),
        ("vp9.webm", "libvpx-vp9", {"deadline": "realtime", "cpu-used": "8"}),
        ("av1.mp4", "libsvtav1", {"preset": "8", "crf": "20"}),
        ("mpeg4.avi", "mpeg4", {"bf": "2"}),
        ("mpeg2.ts", "mpeg2video", {"bf": "2", "q": "2"}),
        ("mjpeg.avi", "mjpeg", {"strict": "unofficial"}),
    ],
)
def test_the_frame_on_screen_in_every_container(tmp_path, name, codec, options):
    if not small.has_encoder(codec):
        pytest.skip(f"this PyAV has no {codec}")
    fps = 25 if codec == "mpeg2video" else 20
    clip = read_clip(str(small.write(tmp_path / name, codec=codec, fps=fps, options=options)), SPEC)
    assert indices(clip) == MIDDLES
    assert clip.times_s == pytest.approx(np.array([4, 12, 20, 28, 36]) / fps, abs=2e-3)
    assert clip.info.duration_s == pytest.approx(40 / fps, abs=5e-3)
    assert clip.info.fps == pytest.approx(fps, rel=0.01)
    assert not clip.info.damaged


def test_what_is_recorded(plain):
    clip = read_clip(str(plain), SPEC)
    info = clip.info
    assert clip.frames.shape == (5, 56, 84, 3) and clip.frames.dtype == np.uint8
    assert clip.frames.flags.c_contiguous and clip.times_s.dtype == np.float64
    assert (info.decoder, info.codec, info.container) == ("pyav", "h264", "mp4")
    assert (info.width, info.height, info.rotation) == (96, 64, 0)
    assert (info.num_frames_requested, info.num_frames_decoded) == (5, 5)
    assert (info.start_s, info.end_s) == (0.0, 2.0)


def test_a_span_counts_from_its_start(plain):
    clip = read_clip(str(plain), SPEC, start_s=0.5, end_s=1.0)
    assert indices(clip) == [11, 13, 15, 17, 19]
    assert clip.times_s == pytest.approx([0.05, 0.15, 0.25, 0.35, 0.45])
    assert (clip.info.start_s, clip.info.end_s) == (0.5, 1.0)


def test_a_span_does_not_decode_the_file(tmp_path, monkeypatch):
    """25 groups of pictures; a span in the last one must not cost the others."""
    path = small.write(tmp_path / "long.mp4", 250, options={"bf": "0"})
    decoded = []
    original = pyav_decode.decode_on

    def counting(video, wanted=None):
        for frame, clean in original(video, wanted):
            decoded.append(frame.pts)
            yield frame, clean

    monkeypatch.setattr(pyav_decode, "decode_on", counting)
    clip = read_clip(str(path), SPEC, start_s=12.0, end_s=12.5)
    assert indices(clip) == [241, 243, 245, 247, 249]
    assert len(decoded) <= 10


@pytest.mark.parametrize(("start", "end"), [(2.0, 3.0), (1.0, 0.5), (-1.0, 1.0), (0.0, 5.0)])
def test_spans_outside_the_video(plain, start, end):
    with pytest.raises(VideoError) as error:
        read_clip(str(plain), SPEC, start_s=start, end_s=end)
    assert error.value.code == "bad_span"


def test_variable_frame_rate_is_sampled_in_time(tmp_path):
    pts = [20 * i for i in range(20)] + [400 + 200 * i for i in range(10)]  # 50 fps, then 5 fps
    path = small.write(tmp_path / "vfr.mp4", 30, pts_ms=pts)
    clip = read_clip(str(path), SPEC)
    shown = [max(i for i, p in enumerate(pts) if p <= t * 1000 + 1e-3) for t in clip.times_s]
    assert indices(clip) == shown
    assert shown[0] < 20 and shown[1] > 20  # a uniform choice of frame numbers would not do this


def test_a_frame_on_screen_for_long_is_repeated(tmp_path):
    path = small.write(tmp_path / "one.mp4", 1)
    clip = read_clip(str(path), SPEC)
    assert indices(clip) == [0] * 5
    assert clip.info.num_frames_decoded == 1 and clip.info.num_frames_requested == 5


@pytest.mark.parametrize(
    ("degrees", "flip"), [(90, False), (180, False), (270, False), (0, True), (90, True)]
)
def test_pictures_are_turned_and_mirrored_as_players_do(tmp_path, degrees, flip):
    path = small.write(tmp_path / "turned.mp4", 10, rotate=degrees, hflip=flip)
    clip = read_clip(str(path), SPEC)
    # PyAV's set_display_rotation turns counterclockwise, then mirrors.
    drawn = [np.rot90(small.paint(i), degrees // 90) for i in (1, 3, 5, 7, 9)]
    drawn = [picture[:, ::-1] if flip else picture for picture in drawn]
    assert (clip.info.width, clip.info.height) == drawn[0].shape[1::-1]
    pairs = list(zip(clip.frames, drawn, strict=True))
    assert max(_distance(picture, right) for picture, right in pairs) < 10
    assert max(_distance(picture, right[::-1, ::-1]) for picture, right in pairs) > 40
    if not flip:
        assert clip.info.rotation == (360 - degrees) % 360  # recorded clockwise


def _distance(picture, drawn):
    """Mean difference on a grid of 4 x 4 cells' middles."""

    def grid(a):
        ys = (np.arange(4) * 2 + 1) * a.shape[0] // 8
        xs = (np.arange(4) * 2 + 1) * a.shape[1] // 8
        return a[ys][:, xs].astype(float)

    return np.abs(grid(picture) - grid(drawn)).mean()


def test_sample_aspect_ratio_makes_the_picture_wider(tmp_path):
    path = small.write(tmp_path / "sar.mp4", 10, sample_aspect=Fraction(2))
    clip = read_clip(str(path), SPEC)
    assert (clip.info.width, clip.info.height) == (192, 64)
    assert clip.frames.shape[1:3] == SPEC.size_for(192, 64)[::-1]
    assert indices(clip) == [1, 3, 5, 7, 9]


def test_sound_longer_than_the_pictures_does_not_count(tmp_path):
    clip = read_clip(str(small.write(tmp_path / "sound.mp4", with_audio_s=5.0)), SPEC)
    assert clip.info.duration_s == pytest.approx(2.0)
    assert indices(clip) == MIDDLES


def test_file_objects_are_read_in_ranges_and_left_open(tmp_path):
    path = small.write(tmp_path / "big.mp4", 200, options={"bf": "0"})
    padded = path.read_bytes() + (8 << 20).to_bytes(4, "big") + b"free" + bytes((8 << 20) - 8)
    file = _Counting(padded)
    clip = read_clip(file, SPEC)
    assert indices(clip) == [20, 60, 100, 140, 180]
    assert not file.closed
    assert file.num_read < len(padded) / 4


class _Counting(io.BytesIO):
    num_read = 0

    def read(self, size=-1):
        data = super().read(size)
        self.num_read += len(data)
        return data


def test_storage_errors_pass_through(plain):
    class Failing(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 100:
                raise ConnectionResetError("the storage went away")
            return super().read(min(size, 101) if size > 0 else 101)

    with pytest.raises(ConnectionResetError):
        read_clip(Failing(plain.read_bytes()), SPEC)


def test_a_file_object_that_cannot_seek_is_a_mistake_of_the_caller(plain):
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    with pytest.raises(ValueError, match="seekable"):
        read_clip(Pipe(plain.read_bytes()), SPEC)


@pytest.mark.parametrize("decoder", ["pyav", "decord"])
def test_files_that_hold_no_video(tmp_path, decoder):
    if decoder == "decord":
        pytest.importorskip("decord", reason="decord is an extra")
    files = {
        "missing_file": tmp_path / "nothing.mp4",
        "empty_file": tmp_path / "empty.mp4",
        "not_a_video": tmp_path / "text.mp4",
        "no_video_stream": small.write(tmp_path / "audio.mp4", with_audio_s=1.0, audio_only=True),
        "broken_container": tmp_path / "half.mp4",
    }
    files["empty_file"].write_bytes(b"")
    files["not_a_video"].write_text("<html>404</html>")
    whole = small.write(tmp_path / "whole.mp4").read_bytes()
    files["broken_container"].write_bytes(whole[: whole.index(b"moov")])  # the index is at the end
    for code, path in files.items():
        with pytest.raises(VideoError) as error:
            read_clip(str(path), SPEC, decoder=decoder)
        assert error.value.code == code
    with pytest.raises(VideoError, match="missing_file"):
        read_clip(str(tmp_path), SPEC, decoder=decoder)


def test_a_truncated_file_is_read_as_far_as_it_goes_and_marked(tmp_path):
    path = small.write(tmp_path / "whole.mkv", 100)  # MP4 cut so: the corpus (d01 to d03)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    clip = read_clip(str(path), SPEC)
    assert clip.info.damaged and 2.0 < clip.info.duration_s < 4.0
    assert frames_off(clip) == [0] * 5


def test_broken_packets_are_replaced_by_clean_frames_nearby(tmp_path):
    path = small.write(tmp_path / "hurt.mkv", 100, options={"bf": "0"})
    data = bytearray(path.read_bytes())
    middle = len(data) * 45 // 100
    data[middle : middle + 300] = bytes(300)
    path.write_bytes(bytes(data))
    clip = read_clip(str(path), FrameSpec(25, 28, 56 * 56, 112 * 112))
    assert clip.info.damaged
    off = [
        abs(small.read(p) - int(t * 20 + 1e-6))
        for p, t in zip(clip.frames, clip.times_s, strict=True)
    ]
    assert max(off) <= 40  # two seconds
    assert off.count(0) >= 12


def test_a_bad_message_with_every_h265_frame_is_no_reason_to_refuse(tmp_path):
    """Strict decoding, which tells damage, fails on such files; they are read and marked."""
    path = small.write(
        tmp_path / "plain.hevc", 20, codec="libx265", options={"x265-params": "log-level=none"}
    )
    cut_message = bytes.fromhex("00000001 4e01 05 40 11")  # says 64 bytes, has 1
    units = re.split(b"\0\0\0?\1", path.read_bytes())[1:]
    path.write_bytes(
        b"".join((cut_message if unit[0] >> 1 < 32 else b"") + b"\0\0\0\1" + unit for unit in units)
    )
    clip = read_clip(str(path), SPEC)
    assert indices(clip) == [2, 6, 10, 14, 18]
    assert clip.info.damaged


def test_decord_reads_plain_files_and_file_objects(plain):
    pytest.importorskip("decord", reason="decord is an extra")
    clip = read_clip(str(plain), SPEC, decoder="decord")
    assert indices(clip) == MIDDLES
    assert clip.info.decoder == "decord" and clip.info.codec == "h264"
    with plain.open("rb") as file:
        again = read_clip(file, SPEC, decoder="decord", start_s=0.5, end_s=1.0)
    assert indices(again) == [11, 13, 15, 17, 19]


def test_an_unknown_decoder_names_the_known_ones(plain):
    with pytest.raises(ValueError, match="pyav"):
        read_clip(str(plain), SPEC, decoder="opencv")


def test_importing_the_reader_loads_neither_torch_nor_decord():
    code = "import sys, lvspec.video; assert not {'torch', 'decord'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
