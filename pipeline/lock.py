"""One driver per output: a lock file with an owner and a heartbeat.

The file is created where none may stand (O_EXCL on disk, a conditional put on S3 and GCS) and, on
remote storage, read back after a moment: stores that ignore the condition keep the last writer's.
Its owner rewrites it every BEAT_S, and whoever finds it watches whether it still changes. So a live
driver is told from a dead one without trusting clocks: on the owner's own machine at once, by its
process; elsewhere within a beat if it lives, and after EXPIRY_S of silence if it does not.
"""

import getpass
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.config import StorageOptions
from pipeline.errors import LockedError, LockLostError
from pipeline.storage import is_local, open_filesystem, with_patience

NAME = "lock.json"
SETTLE_S = 1.0  # longer than two drivers take between looking and writing


@dataclass(frozen=True)
class Pace:
    """Seconds between heartbeats, of silence after which an owner elsewhere is dead, and between
    looks at somebody else's lock.
    """

    beat_s: float = 5.0
    expiry_s: float = 60.0
    look_s: float = 0.5


PACE = Pace()


@dataclass(frozen=True)
class Owner:
    """Who holds an output. Times are seconds since 1970 by the owner's clock, for people;
    `process` tells whether it lives (see `_process`).
    """

    token: str
    name: str
    pid: int
    process: str | None
    since: float
    beat: float

    def __str__(self) -> str:
        held, silent = (max(0.0, time.time() - then) for then in (self.since, self.beat))
        return f"{self.name} (pid {self.pid}), for {held:.0f} s, last heard from {silent:.0f} s ago"

    @property
    def lives(self) -> bool | None:
        """None where this process could not see it: another machine, another container."""
        here = _process(os.getpid())
        if self.process is None or here is None:
            return None
        sees_it = self.process.rpartition(" ")[0] == here.rpartition(" ")[0]
        return _process(self.pid) == self.process if sees_it else None


class DriverLock:
    """The lock that this process holds; it beats until released."""

    def __init__(self, file: "_File", beats: "_File", owner: Owner, pace: Pace) -> None:
        """`beats` is the same file with the patience of one beat."""
        self._file, self._beats, self._owner, self._pace = file, beats, owner, pace
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="driver lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise `LockLostError` if another driver has taken the output meanwhile."""
        self._check(self._file)

    def _check(self, file: "_File") -> None:
        owner = _parse(file.read())
        if owner is None or owner.token != self._owner.token:
            raise LockLostError(
                f"{self._file.uri} is held by {owner or 'nobody'}. This driver was silent for more "
                f"than {self._pace.expiry_s:.0f} s and was taken for dead; it has published nothing"
            )

    def release(self) -> None:
        self._stop.set()
        self._thread.join()
        owner = _parse(self._beats.read())
        if owner is not None and owner.token == self._owner.token:
            self._file.remove()

    def _beat(self) -> None:
        while not self._stop.wait(self._pace.beat_s):
            # Storage that fails now may answer at the next beat; if it does not, `check` says so.
            with suppress(Exception):
                self._check(self._beats)
                self._beats.write(_encode(replace(self._owner, beat=time.time())))


@contextmanager
def hold(
    output: str, storage: StorageOptions, say: Callable[[str], None], pace: Pace = PACE
) -> Generator[DriverLock]:
    """Hold `output` alone while the block runs. Raises `LockedError` while another driver lives."""
    file = _File(output, storage)
    owner = _me()
    while not _take(file, owner):
        _outlive(file, say, pace)
    lock = DriverLock(file, _File(output, with_patience(storage, pace.beat_s)), owner, pace)
    try:
        yield lock
    finally:
        try:
            lock.release()
        except Exception as error:  # must not hide how the block ended; the lock expires anyway
            say(f"note: {file.uri} could not be removed ({error}); it expires by itself")


def held_by(output: str, storage: StorageOptions) -> Owner | None:
    """Who holds an output now, dead owners on this machine left out."""
    owner = _parse(_File(output, storage).read())
    return None if owner is None or owner.lives is False else owner


def _take(file: "_File", owner: Owner) -> bool:
    """Write the lock where there is none. False if another driver was faster."""
    try:
        file.create(_encode(owner))
    except FileExistsError:  # or by this one: storage may write and yet not answer in time
        found = _parse(file.read())
        return found is not None and found.token == owner.token
    if not file.is_local:
        time.sleep(SETTLE_S)
    found = _parse(file.read())
    return found is not None and found.token == owner.token


def _outlive(file: "_File", say: Callable[[str], None], pace: Pace) -> None:
    """Return once nobody holds the lock: it is gone, or its owner dead and it was removed."""
    found = file.read()
    if found is None:
        return
    owner = _parse(found)
    lives = None if owner is None else owner.lives
    if lives is None:
        say(f"{file.uri} is held by {owner or 'somebody'}: looking whether it lives")
        lives = _changes(file, found, owner, pace)
    now = file.read()
    if now is None:
        return  # it has ended meanwhile
    if lives:
        raise LockedError(
            f"{file.output} is in use by {_parse(now) or 'another driver'}. Two drivers on "
            "one output would do the work twice: wait for it or stop it (a stopped driver's lock "
            "gives way by itself)"
        )
    say(f"the driver that held {file.uri} is dead ({owner or 'unknown'}): taking over")
    if now == found:
        file.remove()


def _changes(file: "_File", found: bytes, owner: Owner | None, pace: Pace) -> bool:
    """Watch a lock until it changes, or has been silent for long enough."""
    silent_s = time.time() - owner.beat if owner else 0.0  # by two clocks, so watch a beat anyway
    watch_s = min(max(pace.expiry_s - silent_s, 1.5 * pace.beat_s), pace.expiry_s)
    until = time.monotonic() + watch_s
    while time.monotonic() < until:
        time.sleep(pace.look_s)
        if file.read() != found:
            return True
    return False


class _File:
    """The lock file on any storage."""

    def __init__(self, output: str, storage: StorageOptions) -> None:
        self._fs, root = open_filesystem(output, storage)
        self._path = f"{root.rstrip('/')}/{NAME}"
        self.output = output
        self.uri = f"{output.rstrip('/')}/{NAME}"
        self.is_local = is_local(output)
        self._made_folder = False

    def read(self) -> bytes | None:
        try:
            return self._fs.cat_file(self._path)
        except FileNotFoundError:
            return None

    def create(self, data: bytes) -> None:
        """Raises FileExistsError, where the storage can tell."""
        if self.is_local:
            folder = Path(self._path).parent
            self._made_folder = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            with Path(self._path).open("xb") as file:
                file.write(data)
        else:
            self._fs.pipe_file(self._path, data, mode="create")

    def write(self, data: bytes) -> None:
        """Whole or not at all: a put is so by itself."""
        if self.is_local:
            fresh = Path(f"{self._path}.tmp")
            fresh.write_bytes(data)
            fresh.replace(self._path)
        else:
            self._fs.pipe_file(self._path, data)

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._path)
        if self._made_folder:
            with suppress(OSError):  # unless something was written into it
                Path(self._path).parent.rmdir()


def _me() -> Owner:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        user = f"user {os.getuid()}"
    pid, now = os.getpid(), time.time()
    name = f"{user}@{socket.gethostname()}"
    return Owner(secrets.token_hex(8), name, pid, _process(pid), now, now)


def _process(pid: int) -> str | None:
    """Names a live process for good: boot and pid namespace (which processes can see it), then pid
    and start time. None if it is not there, or on systems without /proc.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = Path("/proc/self/ns/pid").readlink()
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else f"{boot} {space} {pid}:{fields[18]}"


def _encode(owner: Owner) -> bytes:
    return (json.dumps(asdict(owner), indent=2) + "\n").encode()


def _parse(data: bytes | None) -> Owner | None:
    """None for no file, and for one that is just being written or is no lock."""
    try:
        values: Any = json.loads(data or b"")
        return Owner(**values)
    except (ValueError, TypeError):
        return None
