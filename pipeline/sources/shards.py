"""WebDataset shards: each video inside a tar file is a clip of its own, read in place.

Its URI is fsspec's, `tar://<member>::<shard>`; the row also holds where the bytes lie, so that
nothing is unpacked and no worker reads a shard's headers again. A shard that did not change is not
read again either: its index is kept in the dataset.
"""

import hashlib
import tarfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from pipeline.config import VIDEO_SUFFIXES, StorageOptions
from pipeline.secrets import signed
from pipeline.sources.outage import Outage
from pipeline.sources.video_ref import MISSING_VERSION, UNSEEN_VERSIONS, VideoRef
from pipeline.storage import open_file, shard_of, tar_uri
from pipeline.transient import StorageUnavailableError

CHUNK = 64  # shards whose headers are read together
THREADS = 16
HEADER_BLOCK = 1 << 16  # one read brings a header and small members (texts) around it

MEMBERS = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("offset_bytes", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Member:
    """A video inside a shard, and where its bytes lie."""

    name: str
    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class IndexStore:
    """Keeps the indices of shards (MEMBERS tables) by name; the default keeps nothing."""

    load: Callable[[str], pa.Table | None] = lambda name: None
    save: Callable[[str, pa.Table], None] = lambda name, table: None


@dataclass(frozen=True)
class Contents:
    """`members` by name; not `whole` if the shard could not be read to its end."""

    members: dict[str, Member]
    whole: bool


def expand_shards(
    refs: Iterable[VideoRef], storage: StorageOptions, store: IndexStore
) -> Iterator[VideoRef]:
    """`refs` with each shard replaced by its videos, and each named member given its place.

    A shard that is not there, cannot be read to its end or holds no video stays in the stream as
    itself, and so becomes an error row.
    """
    refs, outage = iter(refs), Outage(storage)

    def read(shard: str, ref: VideoRef) -> Contents | None:
        return outage.ask(lambda patient: _contents(shard, ref, patient, store))

    with ThreadPoolExecutor(THREADS) as pool:
        while chunk := list(islice(refs, CHUNK)):
            known = (ref for ref in chunk if ref.source_version not in UNSEEN_VERSIONS)
            shards = {s: ref for ref in known if (s := shard_of(ref.uri))}
            found = list(pool.map(read, shards.keys(), shards.values()))
            outage.judge(found)
            unread = Contents({}, whole=False)
            contents = {s: one or unread for s, one in zip(shards, found, strict=True)}
            for ref in chunk:
                shard = shard_of(ref.uri)
                yield from [ref] if shard not in contents else _expand(ref, contents[shard])


def _expand(ref: VideoRef, contents: Contents) -> Iterator[VideoRef]:
    if shard_of(ref.uri) != ref.uri:  # one member, named by a manifest
        name = ref.uri.removeprefix("tar://").rpartition("::")[0]
        if name in contents.members:
            yield _placed(ref, contents.members[name])
        else:
            yield replace(ref, size_bytes=None, source_version=MISSING_VERSION)
        return
    for name, member in contents.members.items():
        named = replace(ref, uri=tar_uri(name, ref.uri), video_id=f"{ref.video_id}/{name}")
        yield _placed(named, member)
    if not contents.whole or not contents.members:
        yield ref


def _placed(ref: VideoRef, member: Member) -> VideoRef:
    return replace(
        ref,
        size_bytes=member.size_bytes,
        offset_bytes=member.offset_bytes,
        source_version=f"size={member.size_bytes};shard:{ref.source_version}",
    )


def _contents(shard: str, ref: VideoRef, storage: StorageOptions, store: IndexStore) -> Contents:
    key = hashlib.blake2b(f"{shard}\n{ref.source_version}".encode(), digest_size=16).hexdigest()
    kept = store.load(key)
    if kept is not None:
        return Contents({row["name"]: Member(**row) for row in kept.to_pylist()}, whole=True)
    contents = _read_headers(signed(shard, ref.query), storage)
    if contents.whole:
        rows = [vars(member) for member in contents.members.values()]
        store.save(key, pa.Table.from_pylist(rows, schema=MEMBERS))
    return contents


def _read_headers(shard: str, storage: StorageOptions) -> Contents:
    members: dict[str, Member] = {}  # a name that comes again replaces what came before, as in tar
    try:
        with (
            open_file(shard, storage, HEADER_BLOCK) as file,
            tarfile.open(fileobj=file, mode="r:") as archive,
        ):
            while (info := archive.next()) is not None:
                vars(archive)["members"].clear()  # it would keep every header
                if info.isreg() and info.name.rpartition(".")[2].lower() in VIDEO_SUFFIXES:
                    members[info.name] = Member(info.name, info.offset_data, info.size)
            file.seek(archive.offset)  # a header cut off ends the loop as the end mark does
            whole = file.read(tarfile.BLOCKSIZE) == bytes(tarfile.BLOCKSIZE)
    except StorageUnavailableError:
        raise
    except Exception:  # no archive, cut off, storage: the shard's own row says so when it is read
        return Contents(members, whole=False)
    return Contents(members, whole)
