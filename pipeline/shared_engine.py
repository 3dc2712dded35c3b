"""One engine that serves several caption calls at once, so that its slots never drain between two
of them: what one call no longer fills, the next call's clips do.

The engine runs on one thread of its own (CUDA graphs and compiled passes stay with the thread that
made them); calls hand it their requests and wait for their answers.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from queue import SimpleQueue

from lvspec.types import Generation, Refusal, Request
from pipeline.backend import Captioner

Answers = SimpleQueue[Generation | Refusal | BaseException]


class SharedEngine:
    """A `Captioner` whose `run` may be called by several threads at once."""

    def __init__(self, captioner: Captioner) -> None:
        self._captioner = captioner
        self._waiting: deque[Request] = deque()
        self._callers: dict[str, Answers] = {}  # by request id
        self._changed = threading.Condition()
        threading.Thread(target=self._serve, name="engine", daemon=True).start()

    def run(self, requests: Iterable[Request]) -> Iterator[Generation | Refusal]:
        """Results of these requests, as they finish.

        Raises what the engine raised, in every call that was waiting then.
        """
        answers: Answers = SimpleQueue()
        asked = list(requests)
        with self._changed:
            self._callers |= {request.id: answers for request in asked}
            self._waiting.extend(asked)
            self._changed.notify()
        for _ in asked:
            answer = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            yield answer

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
            try:
                for answer in self._captioner.run(_Arrivals(self._waiting)):
                    self._hand_over(answer)
                with self._changed:
                    if not self._waiting and self._callers:
                        raise RuntimeError(f"the engine lost clips: {sorted(self._callers)}")
            except BaseException as error:  # it goes to those who wait: whatever it is, they end
                self._fail(error)

    def _hand_over(self, answer: Generation | Refusal) -> None:
        caller = self._callers.pop(answer.request_id, None)
        if caller is None:
            raise RuntimeError(
                f"the engine answered clip {answer.request_id}, which is not waiting for it"
            )
        caller.put(answer)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._waiting.clear()
            callers = {id(answers): answers for answers in self._callers.values()}
            self._callers.clear()
        for answers in callers.values():
            answers.put(error)


class _Arrivals:
    """Requests as they come. It stops when none is waiting *now*: an engine asks again whenever a
    slot is free, and gets what has come since.
    """

    def __init__(self, waiting: deque[Request]) -> None:
        self._waiting = waiting

    def __iter__(self) -> "_Arrivals":
        return self

    def __next__(self) -> Request:
        try:
            return self._waiting.popleft()
        except IndexError:
            raise StopIteration from None
