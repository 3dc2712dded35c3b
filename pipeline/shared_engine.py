"""One engine that serves several caption calls at once, so that its slots never drain between two
of them: what one call no longer fills, the next call's clips do.

The engine runs on one thread of its own (CUDA graphs and compiled passes stay with the thread that
made them); calls hand it their requests and wait for their answers.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from queue import SimpleQueue

from lvspec.types import Generation, Refusal, Request
from pipeline.backend import Captioner

Answers = SimpleQueue[Generation | Refusal | BaseException]


@dataclass(frozen=True)
class Mode:
    """What a run of the engine is asked for; requests of one mode share a run."""

    reasons: bool
    relevance: bool
    plain: bool


class SharedEngine:
    """A `Captioner` whose `run` may be called by several threads at once."""

    def __init__(self, captioner: Captioner) -> None:
        self._captioner = captioner
        self._waiting: dict[Mode, deque[Request]] = {}
        self._callers: dict[tuple[Mode, str], Answers] = {}  # by request id, in each mode
        self._changed = threading.Condition()
        threading.Thread(target=self._serve, name="engine", daemon=True).start()

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        return self._captioner.token_texts(token_ids)

    def run(
        self,
        requests: Iterable[Request],
        *,
        reasons: bool = False,
        relevance: bool = False,
        plain: bool = False,
    ) -> Iterator[Generation | Refusal]:
        """Results of these requests, as they finish. Those of another mode wait until the engine
        has none left of the mode it is in.

        Raises what the engine raised, in every call that was waiting then.
        """
        mode = Mode(reasons, relevance, plain)
        answers: Answers = SimpleQueue()
        asked = list(requests)
        with self._changed:
            self._callers |= {(mode, request.id): answers for request in asked}
            self._waiting.setdefault(mode, deque()).extend(asked)
            self._changed.notify()
        for _ in asked:
            answer = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            yield answer

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._next_mode)
                mode = self._next_mode()
                assert mode is not None
            try:
                for answer in self._captioner.run(_Arrivals(self._waiting[mode]), **asdict(mode)):
                    self._hand_over(mode, answer)
                with self._changed:
                    if not self._next_mode() and self._callers:
                        lost = sorted(name for _, name in self._callers)
                        raise RuntimeError(f"the engine lost clips: {lost}")
            except BaseException as error:  # it goes to those who wait: whatever it is, they end
                self._fail(error)

    def _next_mode(self) -> Mode | None:
        return next((mode for mode, waiting in self._waiting.items() if waiting), None)

    def _hand_over(self, mode: Mode, answer: Generation | Refusal) -> None:
        caller = self._callers.pop((mode, answer.request_id), None)
        if caller is None:
            raise RuntimeError(
                f"the engine answered clip {answer.request_id}, which is not waiting for it"
            )
        caller.put(answer)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            for waiting in self._waiting.values():
                waiting.clear()
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
