"""SIGTERM (preemption, `ray job stop`, `kubectl delete`) and SIGINT end a job in order: the commit
in hand is dropped, Ray's workers and their decoders end, the lock is released.
"""

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pipeline.errors import SignalError

ENDING = (signal.SIGTERM, signal.SIGINT)
AGAIN_S = 0.05


@contextmanager
def ending_on_signals() -> Generator[None]:
    """Let the first such signal leave the block as `SignalError`; those that follow change nothing,
    as some senders (timeout, Slurm, a terminal) reach a process twice. For the main thread.

    In between it is a KeyboardInterrupt, which Ray's core and all libraries let through. SystemExit
    is what Ray's own handler makes of a SIGTERM while it starts. Where Python has to drop it (it
    met a finalizer, or the import of a C module), the signal is sent again.
    """
    first: list[int] = []
    resent: list[threading.Timer] = []

    def end(number: int, frame: FrameType | None) -> None:
        if not first:
            first.append(number)
            raise KeyboardInterrupt

    def again(dropped: Any) -> None:
        if dropped.exc_type is not KeyboardInterrupt or not first:
            hook(dropped)
            return
        timer = threading.Timer(AGAIN_S, os.kill, (os.getpid(), first.pop()))
        timer.daemon = True
        resent.append(timer)
        timer.start()

    hook, sys.unraisablehook = sys.unraisablehook, again
    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        raise SignalError(first[0] if first else signal.SIGTERM) from error
    finally:
        sys.unraisablehook = hook
        for timer in resent:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
