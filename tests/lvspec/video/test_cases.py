"""Both decoders on the corpus of odd videos (../shared/cases). Skipped where it is not there."""

import numpy as np
import pytest

from lvspec.video import VideoError, pyav_reader, read_clip
from tests.lvspec.video import odd_cases

pytestmark = pytest.mark.skipif(
    not odd_cases.expected(), reason=f"no odd videos at {odd_cases.FOLDER}"
)

REFUSED = {
    "d04_moov_missing.mp4": "broken_container",
    "d11b_bitflip_moov_bad.mp4": "broken_container",
    "d12_zero_bytes.mp4": "empty_file",
    "d13_text.mp4": "not_a_video",
    "d14_random_bytes.mp4": "not_a_video",
    "g08_huge_picture.mp4": "too_large",
    "s04_audio_with_cover_only.m4a": "no_video_stream",
    "s06_jpeg_named.mp4": "refused_container",
    "s07_encrypted.mp4": "encrypted",
    "s08_hls_playlist_named.mp4": "refused_container",
    "s09_ffconcat_named.mp4": "refused_container",
    "t12_audio_only.mp4": "no_video_stream",
}

# HEVC and VP9 decode flipped bits to wrong pictures without a word: no reader can tell those.
SILENT_CODECS = {"d09_bitflip_h265.mp4", "d10_bitflip_vp9.webm"}

# What decord 0.6.0 gets wrong, as docs/decoders.md says; if this list changes, so must the table.
DECORD_WRONG = {
    "c05_h264.ts",
    "c07_h265.mp4",
    "t08_opengop_x264.mp4",
    "t17_ts_pts_reset.ts",
}
DECORD_RIGHT = {"c01_h264.mp4", "c02_h264.mkv", "c10_vp9.webm", "r01_rot90.mp4", "t01_vfr.mp4"}


def displayed(name):
    """(width, height) by the generator; it leaves the sample aspect ratio to the player."""
    width, height = odd_cases.expected()[name]["size"]
    aspects = {"g04_sar2.mp4": 2, "c21_h263.3gp": 12 / 11}  # H.263's CIF has no square samples
    return round(width * aspects.get(name, 1)), height


@pytest.mark.parametrize("name", odd_cases.names("healthy"))
def test_healthy_files_give_the_frames_on_screen(name):
    case = odd_cases.expected()[name]
    clip = read_clip(str(odd_cases.VIDEOS / name), odd_cases.SPEC)
    got = [odd_cases.read_index(picture) for picture in clip.frames]
    right = odd_cases.shown_indices(name, clip)
    assert all(index in r for (index, _), r in zip(got, right, strict=True)), (got, right)
    assert {turns for _, turns in got} == {case["turns"]}
    assert (clip.info.width, clip.info.height) == displayed(name)
    assert clip.frames.shape[2:0:-1] == odd_cases.SPEC.size_for(*displayed(name))
    assert not clip.info.damaged
    assert clip.info.num_frames_requested == odd_cases.SPEC.count
    assert clip.info.num_frames_decoded == len({index for index, _ in got})
    if case["turns"] == 0 and name not in odd_cases.NO_COLOUR_CHECK:
        # Reading 1280 x 720 BT.709 rounds one more: 4, all others 3 or less against ffmpeg's rgb24.
        # The patches stand still; averaging takes out what the encoder did to single frames.
        assert odd_cases.colour_error(clip.frames.mean(axis=0)) <= 4.0


@pytest.mark.parametrize("name", odd_cases.names("damaged"))
def test_damaged_files_give_clean_pictures_and_a_mark_or_an_error(name):
    try:
        clip = read_clip(str(odd_cases.VIDEOS / name), odd_cases.SPEC)
    except VideoError as error:
        assert error.code == "decode_failed"
        return
    assert clip.info.damaged
    if name in SILENT_CODECS:
        return
    near = 2.0 * 30 + 3  # MIN_NEAR_S at 30 frames per second; 3 frames lost by the index (d11)
    start = odd_cases.expected()[name]["index"][0]
    for picture, t in zip(clip.frames, clip.times_s, strict=True):
        index, _ = odd_cases.read_index(picture)
        assert abs(index - start - t * 30) <= near
        assert odd_cases.colour_error(picture) <= 4.0


@pytest.mark.parametrize("name", odd_cases.names("refuse"))
@pytest.mark.parametrize("decoder", ["pyav", "decord"])
def test_refused_files_have_stable_codes(name, decoder):
    if decoder == "decord":
        pytest.importorskip("decord", reason="decord is an extra")
    if decoder == "decord" and name == "s07_encrypted.mp4":
        pytest.skip("decord: decode_failed or garbage; only the packet scan sees encryption")
    with pytest.raises(VideoError) as error:
        read_clip(str(odd_cases.VIDEOS / name), odd_cases.SPEC, decoder=decoder)
    assert error.value.code == REFUSED[name]


@pytest.mark.parametrize("name", sorted(DECORD_RIGHT | DECORD_WRONG))
def test_decord_is_right_and_wrong_where_the_docs_say(name):
    pytest.importorskip("decord", reason="decord is an extra")
    verdict = odd_cases.judge(name, "decord")
    assert verdict.outcome == ("right" if name in DECORD_RIGHT else "wrong")


def test_files_read_by_their_index_give_the_same():

    for name in (
        "c01_h264.mp4",
        "c02_h264.mkv",
        "t01_vfr.mp4",
        "t04_editlist_cut.mp4",
        "c07_h265.mp4",
    ):
        path = str(odd_cases.VIDEOS / name)
        for span in ((None, None), (0.7, 2.1)):
            whole = pyav_reader.read(path, odd_cases.SPEC, *span)
            indexed = pyav_reader.read(path, odd_cases.SPEC, *span, min_indexed_bytes=0)
            assert np.array_equal(whole.frames, indexed.frames), (name, span)
            assert whole.info.duration_s == pytest.approx(indexed.info.duration_s)
