"""The benchmarks' own judge of open captions, behind any OpenAI-compatible endpoint.

A judgement is a file named by the hash of all that was asked, so the same question is paid for
once: by methods that say the same, and by runs that come later. What fails is asked again, with
growing pauses; what fails in all attempts is listed, and asked again by the next run.
The questions are those of Video-ChatGPT's evaluation (arXiv 2306.05424), which the benchmarks use
in LMMs-Eval; their words are part of the benchmark.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import tenacity

from pipeline.errors import ConfigError, StoppedError
from pipeline.evaluation.settings import JudgeSettings

KEY = "OPENAI_API_KEY"
ANSWER_TOKENS = 64
_SYSTEM = {
    "detail": (
        "You are an intelligent chatbot designed for evaluating the detail orientation of "
        "generative outputs for video-based question-answer pairs. Your task is to compare the "
        "predicted answer with the correct answer and determine its level of detail, considering "
        "both completeness and specificity. Here's how you can accomplish the task:------"
        "##INSTRUCTIONS: "
        "- Check if the predicted answer covers all major points from the video. The response "
        "should not leave out any key aspects.\n"
        "- Evaluate whether the predicted answer includes specific details rather than just "
        "generic points. It should provide comprehensive information that is tied to specific "
        "elements of the video.\n"
        "- Consider synonyms or paraphrases as valid matches.\n"
        "- Provide a single evaluation score that reflects the level of detail orientation of the "
        "prediction, considering both completeness and specificity."
    ),
    "match": (
        "You are an intelligent chatbot designed for evaluating the correctness of generative "
        "outputs for question-answer pairs. Your task is to compare the predicted answer with the "
        "correct answer and determine if they match meaningfully. Here's how you can accomplish "
        "the task:------##INSTRUCTIONS: "
        "- Focus on the meaningful match between the predicted answer and the correct answer.\n"
        "- Consider synonyms or paraphrases as valid matches.\n"
        "- Evaluate the correctness of the prediction compared to the answer."
    ),
}
_ASK = {
    "detail": (
        "Provide your evaluation only as a detail orientation score where the detail orientation "
        "score is an integer value between 0 and 5, with 5 indicating the highest level of detail "
        "orientation. Please generate the response in the form of a Python dictionary string with "
        "keys 'score', where its value is the detail orientation score in INTEGER, not STRING."
        "DO NOT PROVIDE ANY OTHER OUTPUT TEXT OR EXPLANATION. Only provide the Python dictionary "
        "string. For example, your response should look like this: {'score': 4.8}."
    ),
    "match": (
        "Provide your evaluation only as a yes/no and score where the score is an integer value "
        "between 0 and 5, with 5 indicating the highest meaningful match. Please generate the "
        "response in the form of a Python dictionary string with keys 'pred' and 'score', where "
        "value of 'pred' is  a string of 'yes' or 'no' and value of 'score' is in INTEGER, not "
        "STRING.DO NOT PROVIDE ANY OTHER OUTPUT TEXT OR EXPLANATION. Only provide the Python "
        "dictionary string. For example, your response should look like this: "
        "{'pred': 'yes', 'score': 4.8}."
    ),
}
_SCORE = re.compile(r"""['"]?score['"]?\s*:\s*['"]?(\d+(?:\.\d+)?)""")


class UnreadableError(Exception):
    """The endpoint answered, but not with a score."""


@dataclass(frozen=True)
class Case:
    """One thing to judge. kind: "detail" or "match"."""

    kind: str
    question: str
    reference: str
    answer: str

    def messages(self) -> list[dict[str, str]]:
        """What the judge is sent."""
        pair = (
            "Please evaluate the following video-based question-answer pair:\n\n"
            f"Question: {self.question}\nCorrect Answer: {self.reference}\n"
            f"Predicted Answer: {self.answer}\n\n"
        )
        return [
            {"role": "system", "content": _SYSTEM[self.kind]},
            {"role": "user", "content": pair + _ASK[self.kind]},
        ]

    def digest(self, model: str) -> str:
        """The name of its judgement: a hash of the judge and of every word it is sent."""
        text = json.dumps([model, self.messages()], ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Estimate:
    """What judging would cost. cases: distinct ones that are not judged yet."""

    cases: int
    tokens_in: int
    tokens_out: int
    dollars: float


def read_score(content: str) -> int:
    """The score in a judge's answer, 0..5, cut to a whole number as LMMs-Eval cuts it. Raises
    `UnreadableError`.

    >>> read_score("{'pred': 'yes', 'score': 4.8}")
    4
    """
    match = _SCORE.search(content)
    if not match or float(match.group(1)) > 5:
        raise UnreadableError(f"no score from 0 to 5 in {content[:200]!r}")
    return int(float(match.group(1)))


class JudgeCache:
    """Judgements on disk, one small file each."""

    def __init__(self, folder: Path, model: str) -> None:
        self.folder, self.model = folder, model
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, case: Case) -> int | None:
        """The score, where the case was judged before."""
        path = self._path(case)
        return int(json.loads(path.read_text())["score"]) if path.exists() else None

    def put(self, case: Case, score: int, content: str) -> None:
        """Keep a judgement; it is whole or not there, whenever a kill comes."""
        path = self._path(case)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"score": score, "said": content, "judge": self.model}))
        temporary.rename(path)

    def missing(self, cases: Iterable[Case]) -> list[Case]:
        """The distinct cases that have no judgement."""
        distinct = {case.digest(self.model): case for case in cases}
        return [case for case in distinct.values() if self.get(case) is None]

    def _path(self, case: Case) -> Path:
        return self.folder / f"{case.digest(self.model)}.json"


def estimate(settings: JudgeSettings, cases: Iterable[Case], cache: JudgeCache) -> Estimate:
    """Cost at four characters a token, answers at their limit: rather too much than too little."""
    missing = cache.missing(cases)
    characters = sum(len(m["content"]) for case in missing for m in case.messages())
    tokens_in, tokens_out = characters // 4, len(missing) * ANSWER_TOKENS
    dollars = (tokens_in * settings.dollars_in + tokens_out * settings.dollars_out) / 1e6
    return Estimate(len(missing), tokens_in, tokens_out, dollars)


def judge(
    settings: JudgeSettings,
    cases: Iterable[Case],
    cache: JudgeCache,
    environment: Mapping[str, str] = os.environ,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Fill `cache` with a judgement of every case.

    Raises `ConfigError` where the estimate is above `max_dollars` or no key is set, and
    `StoppedError` for cases that failed in all attempts, after every other one was judged.
    """
    missing = cache.missing(cases)
    cost = estimate(settings, missing, cache)
    say(
        f"judge {settings.model}: {cost.cases} answers to judge, about {cost.tokens_in} tokens in "
        f"and {cost.tokens_out} out, {cost.dollars:.2f} dollars"
    )
    if not missing:
        return
    if cost.dollars > settings.max_dollars:
        raise ConfigError(
            f"judge.max_dollars = {settings.max_dollars}: judging costs about {cost.dollars:.2f}; "
            "raise it, or lower the benchmarks' limit"
        )
    key = environment.get(KEY)
    if not key:
        raise ConfigError(
            f"judge: the environment variable {KEY} is not set; any text does for "
            "an endpoint that wants no key"
        )
    client = openai.OpenAI(
        base_url=settings.url, api_key=key, timeout=settings.timeout_s, max_retries=0
    )
    failed: list[str] = []
    with client, ThreadPoolExecutor(settings.concurrency) as pool:
        running = {pool.submit(_ask, client, settings, case): case for case in missing}
        for done in as_completed(running):
            try:
                cache.put(running[done], *done.result())
            except (openai.OpenAIError, UnreadableError, ValueError) as error:
                failed.append(f"{type(error).__name__}: {error}")
    if failed:
        raise StoppedError(
            f"judge: {len(failed)} of {len(missing)} answers could not be judged (the first: "
            f"{failed[0][:300]}); the others are kept, run it again to ask for these alone"
        )


def _worth_another_try(error: BaseException) -> bool:
    """Not what the endpoint refuses for good: a wrong key, an unknown model, a bad request."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code in (408, 409, 429) or error.status_code >= 500
    return isinstance(error, openai.OpenAIError | UnreadableError | ValueError)


def _ask(client: openai.OpenAI, settings: JudgeSettings, case: Case) -> tuple[int, str]:
    """The score of one case and the judge's words."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_worth_another_try),
        wait=tenacity.wait_random_exponential(multiplier=0.5, max=30),
        stop=tenacity.stop_after_attempt(settings.attempts),
        reraise=True,
    )
    messages: Any = case.messages()
    for attempt in retrying:
        with attempt:
            reply = client.chat.completions.create(
                model=settings.model, messages=messages, temperature=0, max_tokens=ANSWER_TOKENS
            )
            # an endpoint's JSON may lack anything: the client does not check it
            choices = getattr(reply, "choices", None)
            content = choices[0].message.content if choices else None
            if not content:
                raise UnreadableError(f"the endpoint's answer holds no text: {str(reply)[:200]}")
            return read_score(content), content
    raise AssertionError("tenacity raises the last error")
