"""The settings of an evaluation: frozen, typed, from one whole YAML file plus `--set`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lvspec.benchmark.methods import methods
from lvspec.config import DecodeSettings, FrameSettings, ModelSettings, SettingError
from pipeline.config import build, read_tree, with_policy
from pipeline.errors import ConfigError


@dataclass(frozen=True)
class BenchmarkSettings:
    """One benchmark.

    name: as it stands in the table. kind: "caption" (open text, scored by a judge or by agreement
        with plain decoding) or "multiple_choice" (one letter).
    items: its questions, JSON lines or Parquet, with the fields that the benchmark's own data set
        has (see `pipeline.evaluation.items`). videos: the folder of its video files.
    frames: what the models see of a video. max_new_tokens: the longest answer.
    judge: which question the judge is asked: "detail" (VideoDetailCaption, VideoDetailDescription)
        or "match" (MovieChat).
    limit: only the first so many items; null is all.
    """

    name: str
    kind: Literal["caption", "multiple_choice"]
    items: str
    videos: str
    frames: FrameSettings = field(default_factory=FrameSettings)
    max_new_tokens: int = 128
    judge: Literal["detail", "match"] = "detail"
    limit: int | None = None

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise SettingError("name", self.name, "a name without slashes")
        if self.max_new_tokens < 1:
            raise SettingError("max_new_tokens", self.max_new_tokens, "at least 1")
        if self.limit is not None and self.limit < 1:
            raise SettingError("limit", self.limit, "at least 1, or null for all")


@dataclass(frozen=True)
class JudgeSettings:
    """A judge of open captions behind any OpenAI-compatible endpoint. Its key is taken from the
    environment variable OPENAI_API_KEY and from nowhere else.

    url: the endpoint up to and including its version, such as https://api.openai.com/v1.
    dollars_in, dollars_out: price of a million tokens. max_dollars: an estimate above it ends the
        evaluation before the first question to the judge.
    timeout_s, attempts: per question; what fails in all attempts is asked again by the next run.
    """

    url: str
    model: str
    dollars_in: float = 0.0
    dollars_out: float = 0.0
    max_dollars: float = 5.0
    timeout_s: float = 60.0
    attempts: int = 6
    concurrency: int = 4

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise SettingError("url", self.url, "an address that begins with http:// or https://")
        for key in ("dollars_in", "dollars_out", "max_dollars"):
            if getattr(self, key) < 0:
                raise SettingError(key, getattr(self, key), "0 or more")
        for key in ("timeout_s", "attempts", "concurrency"):
            if getattr(self, key) <= 0:
                raise SettingError(key, getattr(self, key), "above 0")


@dataclass(frozen=True)
class EvalSettings:
    """Everything that an evaluation needs.

    decoding: the paper's rule and its numbers; every method is made from them. Its `slots` is the
        batch (the paper: 1).
    methods: names that `lvspec.benchmark` knows; "plain" is measured beside them in any case.
    group: items that one method decodes before the next method's turn.
    judge: null scores open captions by agreement with plain decoding.
    """

    benchmarks: tuple[BenchmarkSettings, ...]
    output: str
    models: ModelSettings = field(default_factory=ModelSettings)
    decoding: DecodeSettings = field(default_factory=lambda: DecodeSettings(slots=1))
    methods: tuple[str, ...] = ("plain", "exact", "specvlm", "fly", "lvspec")
    group: int = 8
    judge: JudgeSettings | None = None

    def __post_init__(self) -> None:
        known = [name for name, m in methods(self.decoding).items() if m.stock is None]
        for name in self.methods:
            if name not in known:
                raise SettingError("methods", name, "names among " + ", ".join(known))
        names = [b.name for b in self.benchmarks]
        if not names or len(set(names)) < len(names):
            raise SettingError("benchmarks", names, "at least one, each with its own name")
        if self.group < 1:
            raise SettingError("group", self.group, "at least 1")


def load_eval_config(path: str | Path, assignments: Sequence[str] = ()) -> EvalSettings:
    """Read a YAML file and apply `key.path=value` assignments. Raises `ConfigError`."""
    tree: dict[str, Any] = read_tree(path, assignments)
    given = tree.get("benchmarks")
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        raise ConfigError(f"benchmarks = {given!r}: expected a list of sections")
    tree["benchmarks"] = [
        build(BenchmarkSettings, entry, f"benchmarks.{place}.") for place, entry in enumerate(given)
    ]
    return build(EvalSettings, with_policy(tree), "")
