"""What a file is by its first bytes, decided before any decoder sees it.

FFmpeg picks its demuxer by guessing, and some of them open *other* files: playlists, concat
scripts, numbered images. So only the containers listed here pass, and the one that was recognised
is the only demuxer allowed to open the file.

To add a container: a line in _MAGIC (or a branch in `sniff`), its FFmpeg demuxer names, and a case
in test_sniff.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lvspec.video.errors import VideoError

HEAD_BYTES: Final = 8192


@dataclass(frozen=True)
class Container:
    """name: what is recorded. demuxers: FFmpeg's names, comma-separated. packet_bytes: of a
    transport stream, else 0.
    """

    name: str
    demuxers: str
    packet_bytes: int = 0


_MAGIC: Final[tuple[tuple[bytes, Container], ...]] = (
    (b"\x1aE\xdf\xa3", Container("matroska", "matroska,webm")),
    (b"FLV\x01", Container("flv", "flv")),
    (b"OggS", Container("ogg", "ogg")),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", Container("asf", "asf")),
    (b"GIF8", Container("gif", "gif")),
    (b"DKIF", Container("ivf", "ivf")),
    (b".RMF", Container("rm", "rm")),
    (b"\x06\x0e\x2b\x34", Container("mxf", "mxf")),
    (b"\x1f\x07\x00", Container("dv", "dv")),
    (b"\x12\x00\x0a", Container("av1", "obu")),
    (b"YUV4MPEG2 ", Container("y4m", "yuv4mpegpipe")),
    (b"\x00\x00\x01\xba", Container("mpeg-ps", "mpeg")),
    (b"\x00\x00\x01", Container("elementary", "h264,hevc,mpegvideo,m4v,vvc")),
    (b"\x00\x00\x00\x01", Container("elementary", "h264,hevc,mpegvideo,m4v,vvc")),
)

_REFUSED: Final[tuple[tuple[bytes, str], ...]] = (
    (b"#EXTM3U", "an HLS playlist"),
    (b"ffconcat", "an ffconcat script"),
    (b"<?xml", "an XML document (DASH manifests look so)"),
    (b"<MPD", "a DASH manifest"),
    (b"[playlist]", "a playlist"),
    (b"v=0\r\no=", "an SDP session"),
    (b"v=0\no=", "an SDP session"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"BM", "a BMP image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"8BPS", "a Photoshop image"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"%PDF", "a PDF document"),
)

_MP4_BOXES: Final = frozenset(
    (
        b"ftyp",
        b"moov",
        b"mdat",
        b"free",
        b"skip",
        b"wide",
        b"pnot",
        b"moof",
        b"styp",
        b"sidx",
        b"uuid",
        b"prfl",
    )
)
_HEIF_BRANDS: Final = frozenset(
    (
        b"heic",
        b"heix",
        b"heim",
        b"heis",
        b"hevc",
        b"hevx",
        b"mif1",
        b"mif2",
        b"msf1",
        b"avif",
        b"avis",
        b"crx ",
        b"jpeg",
    )
)


def sniff(head: bytes) -> Container:
    """The container that starts with `head` (the file's first HEAD_BYTES, or all of it).

    Raises VideoError: empty_file; refused_container for what is recognised and kept away from
    decoders; not_a_video.
    """
    if not head:
        raise VideoError("empty_file", "the file has no bytes")
    if packet_bytes := _transport_packet(head):
        return Container("mpegts", "mpegts", packet_bytes)
    if head[4:8] in _MP4_BOXES:
        if head[4:8] == b"ftyp" and head[8:12] in _HEIF_BRANDS:
            raise VideoError("refused_container", "the file is a HEIF or AVIF image")
        return Container("mp4", "mov,mp4,m4a,3gp,3g2,mj2")
    if head[:4] == b"RIFF":
        if head[8:12] in (b"AVI ", b"AVIX"):
            return Container("avi", "avi")
        raise VideoError("refused_container", f"the file is RIFF {head[8:12]!r}, which is no video")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, what in _REFUSED:
        if head.startswith(magic) or text.startswith(magic):
            raise VideoError("refused_container", f"the file is {what}")
    if head[257:262] == b"ustar":
        raise VideoError("refused_container", "the file is a tar archive")
    for magic, container in _MAGIC:
        if head.startswith(magic):
            return container
    raise VideoError("not_a_video", f"no known container begins with {head[:12]!r}")


def _transport_packet(head: bytes) -> int:
    """Packet size of an MPEG transport stream (188, 192 with timestamps, 204 with parity), or 0.

    The stream may begin inside a packet. Five sync bytes in a row, or all that a tiny file holds
    but at least two.
    """
    for size in (188, 192, 204):
        for offset in range(min(size, len(head))):
            syncs = head[offset : offset + 5 * size : size]
            if (
                len(syncs) >= 2
                and syncs.count(0x47) == len(syncs)
                and (len(syncs) == 5 or offset in (0, 4))
            ):
                return size
    return 0
