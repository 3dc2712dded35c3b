"""The judge over real HTTP, with an endpoint that fails in every way."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pipeline.errors import ConfigError, StoppedError
from pipeline.evaluation.judge import Case, JudgeCache, UnreadableError, estimate, judge, read_score
from pipeline.evaluation.settings import JudgeSettings
from tests.pipeline.servers import serving

KEY = {"OPENAI_API_KEY": "of the test"}
CASES = [Case("detail", "What?", "A red ring.", f"answer {number}") for number in range(12)]


class Endpoint(BaseHTTPRequestHandler):
    """Fails each answer in one way before it judges it: 429, 500, broken JSON, no choices, words
    for a score, silence.
    """

    protocol_version = "HTTP/1.1"
    asked: ClassVar[Counter[str]] = Counter()
    judged: ClassVar[Counter[str]] = Counter()
    refuses: ClassVar[int] = 0

    def do_POST(self) -> None:
        assert self.headers["Authorization"] == "Bearer of the test"
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = body["messages"][1]["content"].split("Predicted Answer: ")[1].split("\n")[0]
        self.asked[text] += 1
        if self.refuses:
            self.send(self.refuses, b'{"error": {"message": "no"}}')
        elif self.asked[text] == 1:
            self.fail(int(text.split()[1]) % 6)
        else:
            self.judged[text] += 1
            self.send(200, reply("{'score': 4.8}"))

    def fail(self, way: int) -> None:
        if way == 5:
            time.sleep(1.5)  # longer than the client waits
            self.close_connection = True
            return
        answers = [
            (429, b'{"error": {"message": "slow down"}}'),
            (500, b"no JSON at all"),
            (200, b'{"choices": [{"mess'),
            (200, b'{"object": "chat.completion"}'),
            (200, reply("I would rather not say.")),
        ]
        self.send(*answers[way])

    def send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def reply(content: str) -> bytes:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    whole = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
    return json.dumps({**whole, "choices": [choice]}).encode()


@pytest.fixture
def settings() -> Iterator[JudgeSettings]:
    Endpoint.asked.clear()
    Endpoint.judged.clear()
    Endpoint.refuses = 0
    with serving(Endpoint) as address:
        yield JudgeSettings(f"{address}/v1", "m", timeout_s=0.7, concurrency=12)


def test_no_answer_is_lost_and_none_judged_twice(settings: JudgeSettings, tmp_path: Path) -> None:
    cache = JudgeCache(tmp_path, "m")
    judge(settings, CASES * 2, cache, KEY)
    assert [cache.get(case) for case in CASES] == [4] * 12
    assert set(Endpoint.judged.values()) == {1}
    assert len(Endpoint.judged) == 12
    judge(
        settings, CASES, JudgeCache(tmp_path, "m"), {}
    )  # a later run asks nothing, not even a key
    assert Endpoint.judged.total() == 12


def test_what_failed_for_good_is_asked_again_by_the_next_run(
    settings: JudgeSettings, tmp_path: Path
) -> None:
    cache = JudgeCache(tmp_path, "m")
    Endpoint.refuses = 401
    with pytest.raises(StoppedError, match=r"12 of 12 answers could not be judged.*401"):
        judge(settings, CASES, cache, KEY)
    assert set(Endpoint.asked.values()) == {1}  # a wrong key is not tried again
    Endpoint.refuses = 0
    judge(settings, CASES, cache, KEY)
    assert not cache.missing(CASES)


def test_the_cost_is_said_first_and_bounded(tmp_path: Path) -> None:
    settings = JudgeSettings("http://127.0.0.1:9/v1", "m", 2.5, 10.0, max_dollars=0.001)
    cache = JudgeCache(tmp_path, "m")
    cost = estimate(settings, CASES * 3, cache)
    characters = sum(len(m["content"]) for case in CASES for m in case.messages())
    assert (cost.cases, cost.tokens_in) == (12, characters // 4)
    assert cost.dollars == pytest.approx((cost.tokens_in * 2.5 + 12 * 64 * 10) / 1e6)
    lines: list[str] = []
    with pytest.raises(ConfigError, match=r"judge\.max_dollars = 0\.001: judging costs about"):
        judge(settings, CASES, cache, KEY, lines.append)
    assert lines[0].startswith("judge m: 12 answers to judge, about")


def test_a_key_is_needed_and_named(tmp_path: Path) -> None:
    settings = JudgeSettings("http://127.0.0.1:9/v1", "m")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        judge(settings, CASES, JudgeCache(tmp_path, "m"), {})


def test_scores_are_read_as_the_benchmark_reads_them() -> None:
    assert [read_score(t) for t in ("{'score': 4.8}", '{"pred": "no", "score": 0}')] == [4, 0]
    for text in ("5", "{'score': 7}", "{'score': 'high'}"):
        with pytest.raises(UnreadableError):
            read_score(text)


def test_every_word_decides_which_judgement_it_is() -> None:
    case = CASES[0]
    others = [Case("match", "What?", "A red ring.", "answer 0"), CASES[1]]
    assert len({case.digest("m"), case.digest("n"), *(c.digest("m") for c in others)}) == 4
