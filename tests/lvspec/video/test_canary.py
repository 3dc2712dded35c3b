"""Files that name other files, or hosts, must not make the reader open them."""

import ctypes
import os
import socket
import struct
import sys

import av
import pytest

from lvspec.video import FrameSpec, VideoError, read_clip
from lvspec.video.pyav_open import OpenVideo
from lvspec.video.sniff import Container
from lvspec.video.source import OpenSource
from tests.lvspec.video import small

SPEC = FrameSpec(2, 28, 56 * 56, 112 * 112)
IN_OPEN = 0x20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watches files with inotify")


class Watch:
    """Counts how often a file was opened, by anyone."""

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK)
        assert self.fd >= 0 and libc.inotify_add_watch(self.fd, os.fsencode(path), IN_OPEN) >= 0

    def num_opened(self):
        try:
            events = os.read(self.fd, 65536)
        except BlockingIOError:
            return 0
        return len(events) // struct.calcsize("iIII")


@pytest.fixture
def secret(tmp_path):
    path = small.write(tmp_path / "secret.ts", 20)
    watch = Watch(path)
    yield watch
    os.close(watch.fd)


CONCAT = "ffconcat version 1.0\nfile secret.ts\n"
PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3.0,\nsecret.ts\n#EXT-X-ENDLIST\n"


@pytest.mark.parametrize("text", [CONCAT, PLAYLIST, "\ufeff" + PLAYLIST, "\n" + CONCAT])
@pytest.mark.parametrize("decoder", ["pyav", "decord"])
def test_no_other_file_is_opened(tmp_path, secret, text, decoder):
    if decoder == "decord":
        pytest.importorskip("decord", reason="decord is an extra")
    path = tmp_path / "innocent.mp4"
    path.write_text(text)
    with pytest.raises(VideoError) as error:
        read_clip(str(path), SPEC, decoder=decoder)
    assert error.value.code == "refused_container"
    assert secret.num_opened() == 0


def test_the_canary_sings(tmp_path, secret):
    """FFmpeg without our care does open the other file: the tests above watch the right thing."""
    path = tmp_path / "innocent.mp4"
    path.write_text(CONCAT)
    with av.open(str(path)) as container:
        next(container.decode(video=0))
    assert secret.num_opened() > 0


def test_even_a_demuxer_that_follows_names_cannot_open_them(tmp_path, secret):
    """The second fence: no protocol is left, should sniffing ever let a script through."""
    path = tmp_path / "innocent.mp4"
    path.write_text(CONCAT)
    with path.open("rb") as file, pytest.raises(VideoError):
        OpenVideo(OpenSource(file, len(CONCAT), Container("concat", "concat,hls")))
    assert secret.num_opened() == 0


@pytest.fixture
def host():
    """A listening socket: its address as a URL, and whether anyone has connected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        yield Host(server)


class Host:
    def __init__(self, server):
        self.server = server
        self.url = f"http://127.0.0.1:{server.getsockname()[1]}/a.ts"

    def was_called(self):
        try:
            self.server.accept()[0].close()
        except TimeoutError:
            return False
        return True


@pytest.mark.parametrize("text", [CONCAT, PLAYLIST])
@pytest.mark.parametrize("decoder", ["pyav", "decord"])
def test_no_host_is_called(tmp_path, host, text, decoder):
    if decoder == "decord":
        pytest.importorskip("decord", reason="decord is an extra")
    path = tmp_path / "innocent.mp4"
    path.write_text(text.replace("secret.ts", host.url))
    with pytest.raises(VideoError, match="refused_container"):
        read_clip(str(path), SPEC, decoder=decoder)
    with pytest.raises(VideoError, match="missing_file"):
        read_clip(host.url, SPEC, decoder=decoder)
    assert not host.was_called()


def test_even_a_demuxer_that_follows_names_cannot_call(tmp_path, host):
    path = tmp_path / "innocent.mp4"
    path.write_text(PLAYLIST.replace("secret.ts", host.url))
    with path.open("rb") as file, pytest.raises(VideoError):
        OpenVideo(OpenSource(file, path.stat().st_size, Container("hls", "hls,concat")))
    assert not host.was_called()


def test_the_socket_hears(tmp_path, host):
    """FFmpeg that may use its protocols does call: the tests above listen at the right place."""
    path = tmp_path / "innocent.m3u8"
    path.write_text(PLAYLIST.replace("secret.ts", host.url))
    with pytest.raises(av.error.FFmpegError):
        av.open(
            str(path),
            container_options={"protocol_whitelist": "file,http,tcp"},
            timeout=(0.5, 0.5),
        )
    assert host.was_called()
