"""What ends a job, and nothing else: one class per exit code of `jobs/caption_corpus.py`.

What goes wrong with a single clip is never one of these: it is a row with an error.
"""

import signal
from collections.abc import Generator
from contextlib import contextmanager

from pipeline.secrets import scrub
from pipeline.transient import StorageUnavailableError


class JobError(Exception):
    """A job that ends for a reason meant for people. `exit_code` is the process's."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(scrub(message))


class StoppedError(JobError):
    """Captioning stopped at something that is no clip's fault: models that do not load, a lost
    device, storage that cannot be written. What is committed stays.
    """


class SignalError(JobError):
    """A signal asked the job to end. The exit code is a shell's for it: 143 for SIGTERM, 130 for
    SIGINT.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextmanager
def stops_when_storage_fails() -> Generator[None]:
    """Storage that does not answer, however often it is asked, ends the job: no clip's fault."""
    try:
        yield
    except StorageUnavailableError as error:
        raise StoppedError(f"the storage does not answer: {error}") from None


class ConfigError(JobError):
    """The configuration is wrong: it names a key, its value, and what is allowed."""

    exit_code = 2


class SourceError(ConfigError):
    """The source itself is wrong or cannot be read (not: one of its videos)."""


class FingerprintError(ConfigError):
    """The output holds captions made with other settings."""


class BackendError(ConfigError):
    """The models cannot be used as configured: not found, or not supported."""


class ReconciliationError(JobError):
    """Staged rows are not the planned clips, each exactly once; nothing is published."""

    exit_code = 4


class LockedError(JobError):
    """Another driver works on this output."""

    exit_code = 5


class LockLostError(StoppedError):
    """Another driver has taken the output from this one, which it took for dead."""
