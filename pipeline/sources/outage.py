"""One file that cannot be reached, or a storage that cannot? The first costs a row, the second ends
the plan: it would take every file for one that cannot be read.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from pipeline.config import StorageOptions
from pipeline.storage import patience_of, with_patience
from pipeline.transient import StorageUnavailableError

MANY = 64  # files in a row that do not answer: no chance

T = TypeVar("T")


class Outage:
    """Waits for files that do not answer, but for all of them together no longer than for one."""

    def __init__(self, storage: StorageOptions) -> None:
        self._storage, self._left_s = storage, patience_of(storage)
        self._error: StorageUnavailableError | None = None
        self._has_answered = False

    def ask(self, do: Callable[[StorageOptions], T]) -> T | None:
        """`do(storage)`; None if it does not answer. From any thread."""
        started = time.monotonic()
        try:
            found = do(with_patience(self._storage, self._left_s))
        except StorageUnavailableError as error:
            self._left_s = max(0.0, self._left_s - (time.monotonic() - started))
            self._error = error
            return None
        self._has_answered = True
        return found

    def judge(self, found: Sequence[object]) -> None:
        """Raise `StorageUnavailableError` if what was just asked for says that nothing answers."""
        if self._error is None or any(one is not None for one in found):
            return
        if len(found) >= MANY or (len(found) > 1 and not self._has_answered):
            raise self._error
