"""This engine as a model of LMMs-Eval: `lmms-eval --model lvspec --model_args ...`.

LMMs-Eval finds `manifest` by its entry point (pyproject.toml). Its `--model_args` are our settings
by their own names, dots included: `models.target=...,decoding.policy.name=exact,frames.count=64`.
Only LMMs-Eval imports this file; docs/evaluate.md says how to install the two together.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lmms_eval.api.instance import (  # pyright: ignore[reportMissingImports]
    GenerationResult,
    TokenCounts,
)
from lmms_eval.api.model import lmms  # pyright: ignore[reportMissingImports]
from lmms_eval.models.registry_v2 import ModelManifest  # pyright: ignore[reportMissingImports]
from loguru import logger  # pyright: ignore[reportMissingImports]

import lvspec
from lvspec import DecodeSettings, Engine, FrameSettings, ModelSettings, Refusal, Request, Sampling
from lvspec.types import Generation
from lvspec.video import read_clip
from pipeline.config import apply_assignments, build, with_policy


def manifest() -> Any:
    """What the entry point returns."""
    return ModelManifest("lvspec", simple_class_path=f"{__name__}.LvspecModel")


@dataclass(frozen=True)
class LmmsSettings:
    """What `--model_args` may set. statistics: a file that gains one JSON line per answer: how it
    was decoded, or why it could not be.
    """

    models: ModelSettings = field(default_factory=ModelSettings)
    decoding: DecodeSettings = field(default_factory=lambda: DecodeSettings(slots=1))
    frames: FrameSettings = field(default_factory=FrameSettings)
    statistics: str = "lvspec_statistics.jsonl"


def parse(arguments: dict[str, Any], slots: int) -> LmmsSettings:
    """Settings of LMMs-Eval's arguments. `slots` is its --batch_size. Raises `ConfigError`."""
    tree = apply_assignments(
        {"decoding": {"slots": slots}}, [f"{key}={value}" for key, value in arguments.items()]
    )
    return build(LmmsSettings, with_policy(tree), "")


class LvspecModel(lmms):  # pyright: ignore[reportUntypedBaseClass]  # not installed beside us
    """`generate_until` over tasks that show one video each."""

    def __init__(
        self,
        batch_size: int | str = 1,
        device: str | None = None,
        max_batch_size: int | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__()
        if device and "models.device" not in arguments:
            arguments["models.device"] = device
        self.settings = parse(arguments, int(batch_size))
        self.pair = lvspec.load(self.settings.models)
        self.engine = Engine(self.pair, self.settings.decoding)

    def generate_until(self, requests: Sequence[Any]) -> list[Any]:
        """One answer per request, in their order; "" where an error is logged."""
        unread: list[Refusal] = []
        answers: dict[int, Any] = {}
        for result in self._results(requests, unread):
            place = int(result.request_id)
            asked = requests[place].args
            if isinstance(result, Refusal):
                logger.error(f"{asked[4]} {asked[3]}: {result.code}: {result.message}")
                answers[place] = GenerationResult("")
            else:
                stats = result.stats
                counts = TokenCounts(stats.num_prompt_tokens, stats.num_generated_tokens)
                answers[place] = GenerationResult(_until(result.text, asked[1]), counts)
            self._log(asked, result)
        return [answers[place] for place in range(len(requests))]

    def _results(
        self, requests: Sequence[Any], unread: list[Refusal]
    ) -> Iterator[Generation | Refusal]:
        def read() -> Iterator[Request]:
            for place, request in enumerate(requests):
                try:
                    yield self._request(str(place), *request.args)
                except lvspec.VideoError as error:
                    unread.append(Refusal(str(place), error.code, str(error)))

        yield from self.engine.run(read())
        yield from unread

    def _request(
        self, name: str, context: str, options: Any, to_visual: Any, doc: Any, task: str, split: str
    ) -> Request:
        visuals = to_visual(self.task_dict[task][split][doc])
        if len(visuals) != 1 or not isinstance(visuals[0], str):
            raise ValueError(
                f"task {task}, item {doc}: shows {len(visuals)} things; lvspec takes tasks that "
                "show one video file each"
            )
        frames, target = self.settings.frames, self.pair.target
        spec = target.frame_spec(
            target.processor, frames.count, frames.min_pixels, frames.max_pixels
        )
        clip = read_clip(visuals[0], spec)
        longest = options.get("max_new_tokens")
        return Request(name, clip.frames, clip.times_s, context, longest, _sampling(options))

    def _log(self, asked: Any, result: Generation | Refusal) -> None:
        line: dict[str, Any] = {"task": asked[4], "split": asked[5], "doc_id": asked[3]}
        if isinstance(result, Refusal):
            line |= {"error": result.code, "message": result.message}
        else:
            stats = result.stats
            line |= {"text": result.text, **asdict(stats)}
            line |= {
                "mean_accepted_length": stats.mean_accepted_length,
                "draft_acceptance_rate": stats.draft_acceptance_rate,
                "speedup": stats.speedup,
            }
        with Path(self.settings.statistics).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def loglikelihood(self, requests: Any) -> Any:
        """Not offered: the engine generates."""
        raise NotImplementedError("lvspec generates; choose a task with output_type generate_until")

    def generate_until_multi_round(self, requests: Any) -> Any:
        """Not offered: every request is one question."""
        raise NotImplementedError("lvspec answers one question at a time; choose another task")


def _sampling(options: Any) -> Sampling | None:
    """A task's own sampling; None (our setting) where it is greedy, as nearly all are."""
    if options.get("num_beams", 1) not in (None, 1):
        raise ValueError(f"num_beams = {options['num_beams']}: lvspec has no beam search, only 1")
    temperature = float(options.get("temperature") or 0)
    if not temperature or options.get("do_sample") is False:
        return None
    return Sampling(temperature, top_p=float(options.get("top_p") or 1.0))


def _until(text: str, options: Any) -> str:
    """A text up to the first of the task's stop strings."""
    stops = options.get("until") or []
    for stop in [stops] if isinstance(stops, str) else stops:
        text = text.split(stop, maxsplit=1)[0] if stop else text
    return text
