"""SIGTERM (preemption, `ray job stop`, `kubectl delete`) and SIGINT end a job in order: the commit
in hand is dropped, Ray's workers and their decoders end, the lock is released.
"""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from pipeline.errors import SignalError

ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def ending_on_signals() -> Generator[None]:
    """Let the first such signal leave the block as `SignalError`; those that follow change nothing,
    as some senders (timeout, Slurm, a terminal) reach a process twice. For the main thread.

    In between it is a KeyboardInterrupt, which Ray's core and all libraries let through. SystemExit
    is what Ray's own handler makes of a SIGTERM while it starts.
    """
    first: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        if not first:
            first.append(number)
            raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        raise SignalError(first[0] if first else signal.SIGTERM) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
