"""The decoder process as seen from the process that asks: one child, started on first use, reused
for every clip, killed and replaced when a clip hangs, crashes or eats memory.

The pool, its queues and the killing are pebble's. Memory is watched here, by what the child holds
for itself, and not limited by RLIMIT_AS or RLIMIT_DATA: a limit makes malloc fail somewhere inside
a decoder, which then takes the file for damaged, or aborts, or does not look; and address space
that is only reserved is no memory.
"""

import multiprocessing
import os
import signal
import time
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, overload

from pebble import ProcessExpired, ProcessFuture, ProcessPool
from pebble.pool.process import WORKERS_NAME

from pipeline.decoding.child import prepare, work
from pipeline.decoding.cut import CutJob, Cuts
from pipeline.decoding.types import Decoded, Failed, Job

WATCH_S: Final = 0.05  # between looks at the child: at 2 GB/s it passes its limit by 100 MB
START_S: Final = 60.0  # a child starts in half a second; a machine that swaps takes longer
STARTS: Final = 3
KEPT_BYTES: Final = 256 << 20  # a child that holds more between two clips is leaking

Result = Decoded | Cuts | Failed


class _LostError(Exception):
    """The child died of a clip. `failed` is what the clip's row says."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed)
        self.failed = failed


class DecoderProcess:
    """One child process that decodes. For one thread: Linux ends the child when the thread that
    started it ends.
    """

    def __init__(self) -> None:
        self._pool: ProcessPool | None = None
        self._num_served = 0  # clips that the child of now has answered

    @overload
    def run(self, job: Job, timeout_s: float, memory_mb: int) -> Decoded | Failed: ...
    @overload
    def run(self, job: CutJob, timeout_s: float, memory_mb: int) -> Cuts | Failed: ...
    def run(self, job: Job | CutJob, timeout_s: float, memory_mb: int) -> Result:
        """Decode one clip, or cut one video.

        Raises RuntimeError if no decoder process starts: no clip's fault.
        """
        is_used = self._num_served > 0
        try:
            return self._attempt(job, timeout_s, memory_mb)
        except _LostError as lost:
            if not is_used:
                return lost.failed
        try:  # in a new child: what an earlier clip leaked or overwrote must not cost this one
            return self._attempt(job, timeout_s, memory_mb)
        except _LostError as lost:
            return lost.failed

    def close(self) -> None:
        """End the child; the next `run` starts another."""
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()
        self._pool, self._num_served = None, 0

    def _attempt(self, job: Job | CutJob, timeout_s: float, memory_mb: int) -> Result:
        """Raises _LostError where another clip may be to blame."""
        future, is_over = self._serve(job, timeout_s, memory_mb << 20)
        error = future.exception()
        if error is None:
            return self._keep(future.result(), is_over)
        self._num_served = 0  # pebble has replaced the child
        if isinstance(error, TimeoutError):
            return Failed("decode_timeout", f"not done after {timeout_s:g} s")
        if not isinstance(error, ProcessExpired):
            raise error
        if is_over:
            raise _LostError(Failed("decode_memory", f"more than {memory_mb} MB")) from error
        death = _how_it_ended(error.exitcode)
        raise _LostError(Failed("decode_crashed", f"the decoder's process {death}")) from error

    def _serve(
        self, job: Job | CutJob, timeout_s: float, max_bytes: int
    ) -> tuple[ProcessFuture[Result], bool]:
        """The job's future once it is done, and whether the child was killed for its memory."""
        for _ in range(STARTS):
            if self._pool is None or not self._pool.active:  # a child that dies idle breaks it
                self.close()
                self._pool = _new_pool()
            pool, is_over = self._pool, False
            try:
                future = pool.schedule(work, args=(job,), timeout=timeout_s)
            except RuntimeError:  # it broke just now, or no process can be made
                self.close()
                continue
            until, has_begun = time.monotonic() + START_S, False
            while not wait((future,), WATCH_S).done and pool.active:
                if future.running():
                    has_begun = True
                    is_over = is_over or _kill_over(max_bytes)
                elif time.monotonic() > until:
                    break
            if future.done() and not isinstance(future.exception(), BrokenProcessPool):
                return future, is_over
            self.close()  # the child ended without the job in hand, or never came up
            if has_begun:  # or it ended in the job and broke the pool with it
                code = "decode_memory" if is_over else "decode_crashed"
                raise _LostError(Failed(code, "the decoder's process died and broke its pool"))
        raise RuntimeError(f"no decoder process starts in {STARTS} tries; see the worker's log")

    def _keep(self, result: Result, is_over: bool) -> Result:
        """`result`, after replacing a child that is no good for the next clip."""
        self._num_served += 1
        if isinstance(result, Failed) and result.code == "decode_memory":
            self.close()
            raise _LostError(result)
        if is_over or _kill_over(KEPT_BYTES):
            self.close()
        return result


@cache
def decoder_process() -> DecoderProcess:
    """The one of this process; it lives as long."""
    return DecoderProcess()


def _new_pool() -> ProcessPool:
    return ProcessPool(
        max_workers=1,
        initializer=prepare,
        initargs=(os.getpid(),),
        context=multiprocessing.get_context("spawn"),
    )


def _kill_over(max_bytes: int) -> bool:
    """Kill the child if it holds more than that; was it so?"""
    over = [child for child in _children() if private_bytes(child.pid) > max_bytes]
    for child in over:
        child.kill()
    return bool(over)


def _children() -> list[BaseProcess]:
    return [p for p in multiprocessing.active_children() if p.name == WORKERS_NAME]


def private_bytes(pid: int | None) -> int:
    """Memory that a process holds for itself; what it shares (libraries, frames) is not counted.

    0 for a process that has ended, and where the system does not tell (only Linux does).
    """
    try:
        pages = Path(f"/proc/{pid}/statm").read_bytes().split()
    except OSError:
        return 0
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


def _how_it_ended(exitcode: int) -> str:
    return f"died of {signal.Signals(-exitcode).name}" if exitcode < 0 else f"ended with {exitcode}"
