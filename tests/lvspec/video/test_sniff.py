import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvspec.video import VideoError
from lvspec.video.sniff import sniff

TS = b"\x47" + bytes(187)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\0\0\0\x20ftypisom\0\0\2\0", "mp4"),
        (b"\0\0\0\x20ftypqt  \0\0\2\0", "mp4"),
        (b"\0\0\0\x08wide\0\0\0\0mdat", "mp4"),
        (b"\x1aE\xdf\xa3\x9fB\x86\x81\1", "matroska"),
        (b"RIFF\0\0\0\0AVI LIST", "avi"),
        (b"OggS\0\2", "ogg"),
        (b"FLV\1\5", "flv"),
        (b"GIF89a", "gif"),
        (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "asf"),
        (b"\0\0\1\xba\x44", "mpeg-ps"),
        (b"\0\0\0\1\x67\x64", "elementary"),
        (b"DKIF\0\0", "ivf"),
        (TS * 6, "mpegts"),
        (bytes(50) + TS * 6, "mpegts"),
    ],
)
def test_containers_are_known_by_content(head, name):
    assert sniff(head).name == name


def test_transport_packets_of_other_sizes():
    assert sniff((bytes(4) + TS) * 6).packet_bytes == 192
    assert sniff((TS + bytes(16)) * 6).packet_bytes == 204


@pytest.mark.parametrize(
    "head",
    [
        b"#EXTM3U\n#EXT-X-VERSION:3\n",
        b"\xef\xbb\xbf\n#EXTM3U\n",
        b"ffconcat version 1.0\nfile x.ts\n",
        b"  \n<?xml version='1.0'?><MPD>",
        b"v=0\r\no=- 0 0 IN IP4 127.0.0.1",
        b"\xff\xd8\xff\xe0\0\x10JFIF",
        b"\x89PNG\r\n\x1a\n",
        b"RIFF\0\0\0\0WEBPVP8 ",
        b"\0\0\0\x20ftypheic",
        b"\0\0\0\x20ftypavif",
        b"PK\x03\x04",
        b"\x1f\x8b\x08",
        bytes(257) + b"ustar\0" + bytes(20),
    ],
)
def test_what_could_lead_elsewhere_is_refused(head):
    with pytest.raises(VideoError) as error:
        sniff(head)
    assert error.value.code == "refused_container"


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"", "empty_file"),
        (b"<html><body>404", "not_a_video"),
        (b"G", "not_a_video"),
        (b"\0" * 99, "not_a_video"),
    ],
)
def test_the_rest_is_no_video(head, code):
    with pytest.raises(VideoError) as error:
        sniff(head)
    assert error.value.code == code


@given(st.binary(max_size=600))
def test_any_bytes_give_a_container_or_a_code(head):
    try:
        container = sniff(head)
    except VideoError:
        return
    assert (
        container.demuxers
        and "hls" not in container.demuxers
        and "concat" not in container.demuxers
    )
