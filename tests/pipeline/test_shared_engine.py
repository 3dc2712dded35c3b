"""One engine, several calls at once: each gets its own answers, slots are shared."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lvspec.config import DecodeSettings, ModelSettings
from lvspec.types import Generation, Request
from pipeline.benchmark.engine import FakeEngine, ServiceTimes, service_of
from pipeline.shared_engine import SharedEngine
from tests.pipeline.fakes import STATS

PIXEL = np.zeros((1, 1, 1, 3), np.uint8)


def requests(*ids: str) -> list[Request]:
    return [Request(name, PIXEL, np.zeros(1)) for name in ids]


class Script:
    """Answers in the order of arrival; `fail` names a clip at which it raises, `lose` one that it
    forgets. `gate` is waited for before each answer.
    """

    def __init__(self, fail: str = "", lose: str = "", gate: threading.Event | None = None) -> None:
        self.fail, self.lose, self.gate = fail, lose, gate
        self.threads: set[int] = set()
        self.runs = 0
        self.asked: list[dict[str, bool]] = []

    def token_texts(self, token_ids: Sequence[int]) -> list[str]:
        return [f"word{token}" for token in token_ids]

    def run(self, requests: Iterable[Request], **asked: bool) -> Iterator[Generation]:
        self.runs += 1
        self.asked.append(asked)
        self.threads.add(threading.get_ident())
        while (request := next(iter(requests), None)) is not None:
            if self.gate is not None:
                assert self.gate.wait(30)
            if request.id == self.fail:
                raise RuntimeError("device lost")
            if request.id != self.lose:
                yield Generation(request.id, request.id, (1,), "stop", STATS)


def answered(engine: SharedEngine, *ids: str) -> list[str]:
    return [answer.request_id for answer in engine.run(requests(*ids))]


def test_calls_at_once_get_their_own_answers_from_one_thread() -> None:
    script = Script()
    engine = SharedEngine(script)
    calls = [[f"{call}-{number}" for number in range(20)] for call in range(8)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda ids: answered(engine, *ids), calls))
    assert results == calls
    assert len(script.threads) == 1
    assert threading.get_ident() not in script.threads


def test_a_later_call_joins_the_run_of_an_earlier_one() -> None:
    gate = threading.Event()
    script = Script(gate=gate)
    engine = SharedEngine(script)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(answered, engine, "a", "b")
        while script.runs == 0:
            time.sleep(0.001)
        second = pool.submit(answered, engine, "c")
        while len(engine._callers) < 3:
            time.sleep(0.001)
        gate.set()
        assert (first.result(30), second.result(30)) == (["a", "b"], ["c"])
    assert script.runs == 1
    assert answered(engine, "d") == ["d"]  # and it starts again after running dry
    assert script.runs == 2


def test_slots_do_not_wait_for_the_end_of_a_call() -> None:
    """Two slots, clips of 0.3 s: 3 + 3 clips take three turns, and two calls in turn four."""
    decoding = DecodeSettings(slots=2)
    engine = SharedEngine(FakeEngine(ModelSettings(), decoding, times=ServiceTimes(0.3, 1.0)))
    with ThreadPoolExecutor(2) as pool:
        calls = [list("abc"), list("def")]
        results = list(pool.map(lambda ids: list(engine.run(requests(*ids))), calls))
    services = [service_of({"caption": answer.text}) for call in results for answer in call]
    window_s = max(s.end_s for s in services) - min(s.start_s for s in services)
    assert 0.9 <= window_s < 1.15


def test_an_engine_that_raises_ends_every_waiting_call_and_serves_the_next() -> None:
    gate = threading.Event()
    engine = SharedEngine(Script(fail="b", gate=gate))
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(answered, engine, *ids) for ids in (("a", "b"), ("c",))]
        while len(engine._callers) < 3:
            time.sleep(0.001)
        gate.set()
        failed = [isinstance(call.exception(30), RuntimeError) for call in calls]
    assert failed[0]
    assert answered(engine, "d") == ["d"]


def test_an_engine_that_loses_a_clip_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"the engine lost clips: \['b'\]"):
        answered(SharedEngine(Script(lose="b")), "a", "b")


def test_an_empty_call_ends_at_once() -> None:
    assert answered(SharedEngine(Script())) == []


def test_plain_requests_wait_for_a_run_of_their_own() -> None:
    gate = threading.Event()
    script = Script(gate=gate)
    engine = SharedEngine(script)
    with ThreadPoolExecutor(2) as pool:
        drafted = pool.submit(lambda: list(engine.run(requests("a", "b"), reasons=True)))
        while not script.runs:
            time.sleep(0.01)
        plain = pool.submit(lambda: list(engine.run(requests("a"), plain=True)))
        time.sleep(0.1)
        gate.set()
        assert [answer.request_id for answer in drafted.result(30)] == ["a", "b"]
        assert [answer.request_id for answer in plain.result(30)] == ["a"]
    modes = [(asked["reasons"], asked["plain"]) for asked in script.asked]
    assert modes == [(True, False), (False, True)]
