"""Remote storage that is asked again: an fsspec filesystem and its files, whose calls are repeated
while they fail in a way that passes (`pipeline.transient`).

This is the only place that repeats. The clients' own repetitions are off where they can be
(botocore and s3fs; gcsfs and adlfs make a few quick ones of their own within each try), and Ray's
match none of the errors that come out of here. So what fails for good has failed for
`storage.retry_s`, plus the time of one answer.
"""

import inspect
import io
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import fsspec  # pyright: ignore[reportMissingTypeStubs]  # brings no types: not here, nor below
from fsspec.asyn import sync  # pyright: ignore[reportMissingTypeStubs]
from tenacity import RetryCallState as State
from tenacity import Retrying, retry_if_exception, stop_before_delay, wait_random_exponential

from pipeline.secrets import secrets_of
from pipeline.transient import (
    ShortReadError,
    StorageUnavailableError,
    has_expired,
    is_transient,
    plain,
)

BLOCK_BYTES = 4 * 1024 * 1024  # one ranged read of a remote file
MAX_BLOCKS = 16  # kept per open file: an index at the end of a video does not evict its frames
FIRST_WAIT_S, MOST_WAIT_S = 0.2, 20.0  # a wait is drawn from 0 to this, which doubles each time
# One call of a client: its own limits are of single reads, and waiting for a server's leave to send
# (`Expect: 100-continue`) has none at all.
ANSWER_S = 120.0
BYTES_PER_S = 1 << 20  # and as much more as sending takes at this pace
SAID_AFTER_S = 10.0  # shorter troubles are not worth a line

T = TypeVar("T")
log = logging.getLogger(__name__)


class Patience:
    """How many seconds calls may go on failing, altogether."""

    def __init__(self, left_s: float) -> None:
        self.left_s = left_s

    def call(self, do: Callable[[], T], recover: Callable[[BaseException, float], None]) -> T:
        """`do()`, again and again while it fails in a way that passes; before each new try,
        `recover` is given the error and the seconds since the first try. Raises what the last try
        raised.
        """
        started = time.monotonic()

        def before(state: State) -> None:
            error = state.outcome and state.outcome.exception()
            if error is not None:
                recover(error, time.monotonic() - started)

        tries = Retrying(
            retry=retry_if_exception(is_transient),
            wait=wait_random_exponential(multiplier=FIRST_WAIT_S, max=MOST_WAIT_S),
            stop=stop_before_delay(self.left_s),
            before_sleep=before,
            reraise=True,
        )
        try:
            return tries(do)
        finally:
            if tries.statistics.get("attempt_number", 1) > 1:
                self.left_s = max(0.0, self.left_s - (time.monotonic() - started))


class RemoteFileSystem:
    """An fsspec filesystem (`raw`) with its methods, each repeated for up to `retry_s`. They raise
    OSErrors only, and ValueError or TypeError for wrong arguments: see `pipeline.transient.plain`.
    """

    def __init__(self, protocol: str, options: Mapping[str, Any], retry_s: float) -> None:
        """Raises what fsspec raises for a protocol or for options that it does not know."""
        self.protocol, self.options, self.retry_s = protocol, options, retry_s
        self.raw = _client(protocol, options)
        self._secrets = secrets_of(options)
        self._said_s = 0.0

    def __reduce__(self) -> Any:
        return type(self), (self.protocol, self.options, self.retry_s)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "raw":
            raise AttributeError(name)
        value = getattr(self.raw, name)
        if not callable(value):
            return value
        return lambda *args, **more: self.call(lambda raw: _call(raw, name, args, more))

    def call(self, do: Callable[[Any], T], patience: Patience | None = None) -> T:
        """`do(raw)`, repeated as `patience` allows."""
        patience = patience or Patience(self.retry_s)
        allowed_s, started = patience.left_s, time.monotonic()
        try:
            return patience.call(lambda: do(self.raw), self._recover)
        except Exception as error:
            final = plain(error, self._secrets)
            if isinstance(final, StorageUnavailableError) and allowed_s:
                waited = f"(tried again for {time.monotonic() - started:.0f} s)"
                final = StorageUnavailableError(f"{final} {waited}")
            raise final from None  # what the client raised may name secrets, or not pickle

    def open(
        self, path: str, patience: Patience | None = None, block_bytes: int = BLOCK_BYTES
    ) -> "RemoteFile":
        """For reading. Its reads share `patience`; without one, each has that of any call."""
        return RemoteFile(self, path, patience, block_bytes)

    def _recover(self, error: BaseException, failing_s: float) -> None:
        if has_expired(error):  # clients and sessions keep credentials: make new ones
            self.raw = _client(self.protocol, self.options, skip_instance_cache=True)
        if failing_s > SAID_AFTER_S and time.monotonic() - self._said_s > self.retry_s / 4:
            self._said_s = time.monotonic()
            said = plain(cast(Exception, error), self._secrets)
            log.warning("storage fails, trying again for up to %.0f s: %s", self.retry_s, said)


def _call(raw: Any, name: str, args: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """A method of a client, for a limited time where fsspec can limit it."""
    coroutine = getattr(raw, f"_{name}", None)
    if not inspect.iscoroutinefunction(coroutine):
        return getattr(raw, name)(*args, **more)
    num_bytes = sum(len(arg) for arg in args if isinstance(arg, bytes))
    limit_s, take = ANSWER_S + num_bytes / BYTES_PER_S, cast(Any, sync)
    return take(raw.loop, coroutine, *args, timeout=limit_s, **more)


def _client(protocol: str, options: Mapping[str, Any], **more: Any) -> Any:
    """A client that does not repeat by itself, and does not wait for ever."""
    given = dict(options)
    if protocol in ("s3", "s3a"):
        config = given.get("config_kwargs", {})
        given["config_kwargs"] = {"retries": {"total_max_attempts": 1}, **config}
    if protocol in ("http", "https"):
        import aiohttp  # noqa: PLC0415  # what fsspec reads the web with

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=30)
        given["client_kwargs"] = {"timeout": timeout, **given.get("client_kwargs", {})}
    # Listings are never cached: the driver looks at folders that workers write to.
    client: Any = cast(Any, fsspec).filesystem(
        protocol, **{"use_listings_cache": False, **given, **more}
    )
    if hasattr(client, "call_s3"):
        client.retries = 1
    return client


class RemoteFile(io.RawIOBase):
    """A remote file for reading, in blocks that are cached. A read that failed, or brought less
    than it should, is done again from a file that is opened anew.
    """

    def __init__(
        self, fs: RemoteFileSystem, path: str, patience: Patience | None, block_bytes: int
    ) -> None:
        self._fs, self._path, self._patience, self._at = fs, path, patience, 0
        self._block_bytes = block_bytes
        self.failure: OSError | None = None  # what ended the reading, whatever a decoder made of it
        self._file: Any = fs.call(self._open, patience)
        self._is_seekable: bool = self._file.seekable()
        self.size: int | None = self._file.size if self._is_seekable else None
        self._state = self._version()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._is_seekable

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if not self._is_seekable:
            raise io.UnsupportedOperation("a web server that sends files only as a whole")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size or 0}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self.read(-1)

    def read(self, size: int | None = -1) -> bytes:
        wanted = -1 if size is None or size < 0 else size
        if self.size is not None:
            left = max(0, self.size - self._at)
            wanted = left if wanted < 0 else min(wanted, left)
        if wanted == 0:
            return b""
        try:
            data = self._fs.call(lambda raw: self._read(raw, wanted), self._patience)
        except OSError as error:
            self.failure = error
            raise
        self._at += len(data)
        return data

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()

    def _read(self, raw: Any, wanted: int) -> bytes:
        try:
            if self._file is None:
                self._file = self._open(raw)
                self._go_on()
            if self._is_seekable:
                self._file.seek(self._at)
            data: bytes = self._file.read(wanted)
            if self.size is not None and len(data) < wanted:
                raise ShortReadError(f"{len(data)} bytes came of {wanted}")
        except BaseException:
            self._file = None  # its cache may hold what was cut off, its session be of no use
            raise
        return data

    def _open(self, raw: Any) -> Any:
        blocks = {"cache_type": "blockcache", "cache_options": {"maxblocks": MAX_BLOCKS}}
        return raw.open(self._path, "rb", block_size=self._block_bytes, **blocks)

    def _go_on(self) -> None:
        """Take a file that was opened anew to where the last one was."""
        if self._version() != self._state:
            raise OSError(f"{self._path} was replaced while it was read")
        left = 0 if self._is_seekable else self._at
        while left and (data := self._file.read(min(left, BLOCK_BYTES))):
            left -= len(data)
        if left:
            raise ShortReadError("the file ends before where it was read to")

    def _version(self) -> tuple[Any, ...]:
        details: Mapping[str, Any] = getattr(self._file, "details", None) or {}
        return getattr(self._file, "size", None), details.get("ETag")
