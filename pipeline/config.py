"""The settings of a captioning job: frozen, typed, and loaded from one whole YAML file plus
`--set`.

A key that does not exist, or a value that is not allowed, is one `ConfigError` that names the key,
the value, what is allowed and the nearest known key. Add a setting by adding a field here (and a
reader of it): the loader, `--set`, `--print-config` and the fingerprint follow from the class.
"""

import difflib
import importlib.util
import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import TypeAdapter, ValidationError

from lvspec.config import (
    POLICY_SETTINGS,
    DecodeSettings,
    FrameSettings,
    ModelSettings,
    SettingError,
)
from pipeline.clips import ClipSettings
from pipeline.errors import ConfigError
from pipeline.secrets import has_password, scrub, shown, unsigned
from pipeline.setting_errors import explain, explain_unknown, paths_of, redacted, sections_of
from pipeline.storage import RETRY, RETRY_S

VIDEO_SUFFIXES = (
    *("mp4", "m4v", "mov", "mkv", "webm", "avi", "ts", "mpg", "mpeg", "flv", "wmv", "3gp", "ogv"),
)
VIDEO_GLOBS = tuple(f"**/*.{suffix}" for suffix in VIDEO_SUFFIXES)
PROTOCOLS = ("file", "s3", "gs", "gcs", "az", "abfs", "abfss", "http", "https")

MOST_SAMPLES = 2000  # what one page shows without a wait

S = typing.TypeVar("S")
StorageOptions = Mapping[str, Any]  # a mapping of fsspec options per protocol, and `retry_s`


def refuse_password(key: str, uri: str) -> None:
    if has_password(uri):
        allowed = "an address without a password, which belongs into `storage`"
        raise SettingError(key, scrub(uri), allowed)


@dataclass(frozen=True)
class SourceSettings:
    """What to caption: every matching file below `prefix`, or the rows of `manifest`; exactly one
    of them. A file whose name ends in .tar is a WebDataset shard: the videos in it are the clips.

    prefix: a folder, or a URI of any of the protocols.
    glob: patterns of the files below `prefix` to take; a single one may be a text.
    manifest: a JSONL, CSV or Parquet file, or a plain list of URIs (`.txt`), also gzipped.
    protocols: how files may be reached; a manifest that names another is refused, because through
        some (`ssh`, `zip`, chained ones) a row could make the job open anything.
    """

    prefix: str | None = None
    glob: tuple[str, ...] = VIDEO_GLOBS
    manifest: str | None = None
    protocols: tuple[str, ...] = PROTOCOLS

    def __post_init__(self) -> None:
        if (self.prefix is None) == (self.manifest is None):
            given = (
                "neither is"
                if self.prefix is None
                else f"manifest is {scrub(self.manifest or '')!r}"
            )
            allowed = f"one of prefix and manifest, and {given}: set or unset (`null`) one of them"
            raise SettingError("prefix", self.prefix, allowed)
        for key in ("prefix", "manifest"):
            refuse_password(key, getattr(self, key) or "")
        if unsigned(self.prefix or "")[1] is not None:
            allowed = "an address without a signature; a manifest may hold signed ones"
            raise SettingError("prefix", scrub(self.prefix or ""), allowed)


@dataclass(frozen=True)
class VideoSettings:
    """How files become frames.

    decoder: the library; what each reads right stands in docs/decoders.md.
    num_cpus: what Ray reserves per decoding task; a decoder uses one thread.
    timeout_s, memory_mb: what one clip may take, reading from storage included, before its decoder
    process is killed and its row is an error (Linux only for memory).
    """

    decoder: Literal["pyav", "decord"] = "pyav"
    num_cpus: float = 1.0
    timeout_s: float = 120.0
    memory_mb: int = 4096

    def __post_init__(self) -> None:
        for key in ("num_cpus", "timeout_s", "memory_mb"):
            if getattr(self, key) <= 0:
                raise SettingError(key, getattr(self, key), "a number above 0")
        if self.decoder == "decord" and importlib.util.find_spec("decord") is None:
            raise SettingError("decoder", "decord", "pyav, until  pip install 'lvspec[decord]'")


@dataclass(frozen=True)
class CaptionSettings:
    """The pool of actors that each hold target and draft.

    num_gpus: of each actor; a part of one is allowed, 0 captions on the CPU.
    num_cpus: of each actor. 0 by default, so that a plan of two actors (Ray's checkpoint filter is
        one) fits two CPUs.
    actors: a number, or [least, most].
    """

    num_gpus: float = 0.0
    num_cpus: float = 0.0
    actors: int | tuple[int, int] = 1

    def __post_init__(self) -> None:
        least, most = self.pool
        if not 1 <= least <= most:
            raise SettingError("actors", self.actors, "a number from 1, or [least, most]")
        for key in ("num_gpus", "num_cpus"):
            if getattr(self, key) < 0:
                raise SettingError(key, getattr(self, key), "0 or more")

    @property
    def pool(self) -> tuple[int, int]:
        """Least and most actors."""
        return (self.actors, self.actors) if isinstance(self.actors, int) else self.actors


@dataclass(frozen=True)
class RunSettings:
    """How work is committed and judged.

    rows_per_commit: clips that one staged file holds: what a kill costs at most, beside those that
        actors hold. A caption call gets as many, or fewer where that shares work better.
    max_error_share: share of failed clips above which the job ends with exit code 3.
    part_bytes: largest size of a published Parquet file.
    audit_share: share of a run's clips, at least four, that are decoded plainly as well, to measure
        what the policy changes and whether estimated speedups are true; 0 is none. Each costs about
        what plain decoding of it takes.
    samples: clips of a run that keep a strip of frames and their tokens, for people; 0 is none.
    """

    rows_per_commit: int = 32
    max_error_share: float = 0.05
    part_bytes: int = 128 * 1024 * 1024
    audit_share: float = 0.01
    samples: int = 200

    def __post_init__(self) -> None:
        for key in ("rows_per_commit", "part_bytes"):
            if getattr(self, key) < 1:
                raise SettingError(key, getattr(self, key), "at least 1")
        for key in ("max_error_share", "audit_share"):
            if not 0 <= getattr(self, key) <= 1:
                raise SettingError(key, getattr(self, key), "0 to 1")
        if not 0 <= self.samples <= MOST_SAMPLES:
            raise SettingError("samples", self.samples, f"0 to {MOST_SAMPLES}")


@dataclass(frozen=True)
class JobSettings:
    """Everything that the captioning job needs.

    output: the dataset, a folder or a URI.
    storage: fsspec options per protocol, such as  s3: {anon: true, endpoint_url: ...}, and
        `retry_s`: for how many seconds a call to storage is tried again while it fails in a way
        that passes (0: not at all). Reading one clip tries again for at most half of
        `video.timeout_s`.
    """

    source: SourceSettings
    output: str
    models: ModelSettings = field(default_factory=ModelSettings)
    frames: FrameSettings = field(default_factory=FrameSettings)
    decoding: DecodeSettings = field(default_factory=DecodeSettings)
    clips: ClipSettings = field(default_factory=ClipSettings)
    video: VideoSettings = field(default_factory=VideoSettings)
    caption: CaptionSettings = field(default_factory=CaptionSettings)
    run: RunSettings = field(default_factory=RunSettings)
    storage: StorageOptions = field(default_factory=lambda: {RETRY: RETRY_S})

    def __post_init__(self) -> None:
        refuse_password("output", self.output)
        retry_s = self.storage.get(RETRY)
        is_number = isinstance(retry_s, int | float) and not isinstance(retry_s, bool)
        if retry_s is not None and not (is_number and 0 <= retry_s < math.inf):
            raise SettingError(f"storage.{RETRY}", retry_s, "a number of seconds from 0")
        for protocol, options in self.storage.items():
            if protocol != RETRY and not isinstance(options, Mapping):
                allowed = "a section of options, such as  {anon: true}"
                raise SettingError(f"storage.{protocol}", options, allowed)


def load_config(path: str | Path, assignments: Sequence[str] = ()) -> JobSettings:
    """Read a YAML file and apply `key.path=value` assignments. Raises `ConfigError`."""
    return parse_config(read_tree(path, assignments))


def read_tree(path: str | Path, assignments: Sequence[str] = ()) -> dict[str, Any]:
    """The plain values of a YAML file with `key.path=value` assignments. Raises `ConfigError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--config {path}: cannot be read: {error}") from error
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = getattr(
            error, "problem_mark", None
        )  # the error itself quotes the line, secrets too
        line = f" in line {where.line + 1}" if where else ""
        said = getattr(error, "problem", None) or type(error).__name__
        raise ConfigError(f"--config {path}: not valid YAML{line}: {said}") from None
    tree = {} if tree is None else tree
    if not isinstance(tree, dict):
        raise ConfigError(
            f"--config {path}: expected `key: value` lines at the top, got {type(tree).__name__}"
        )
    return apply_assignments(tree, assignments)


def apply_assignments(tree: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """A copy of `tree` with each `a.b=value` set; the value is read as YAML."""
    result: dict[str, Any] = {key: _copy(value) for key, value in tree.items()}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise ConfigError(
                f"--set {path if equals else redacted(path, path)}: expected key.path=value, "
                "such as decoding.draft_length=8"
            )
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:  # `*.mp4` is an alias to YAML; a person means the text
            value = text
        node = result
        for key in keys[:-1]:
            child = node.get(key)
            if child is None:
                child = node[key] = {}
            if not isinstance(child, dict):
                said = f"{path}={redacted(value, path)}: {key} = {redacted(child, path)!r}"
                raise ConfigError(f"--set {said} has no keys below it")
            node = typing.cast(dict[str, Any], child)
        if keys == ["decoding", "policy", "name"] and node.get("name") != value:
            node.clear()  # the options of the policy that stood there are not this one's
        node[keys[-1]] = value
    return result


def _copy(value: Any) -> Any:
    return {key: _copy(child) for key, child in value.items()} if isinstance(value, dict) else value


def parse_config(tree: Mapping[str, Any]) -> JobSettings:
    """Build the settings from plain values. Raises `ConfigError` for the first wrong one."""
    return build(JobSettings, with_policy(_with_lists(_with_retry(tree))), "")


def _with_retry(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let `storage` without `retry_s` have its default, so that it shows."""
    storage = tree.get("storage")
    return {**tree, "storage": {RETRY: RETRY_S, **storage}} if isinstance(storage, dict) else tree


def _with_lists(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Let `glob: "*.mp4"` stand for a list of one."""
    source = tree.get("source")
    if not isinstance(source, dict):
        return tree
    texts = {key: source[key] for key in ("glob", "protocols") if isinstance(source.get(key), str)}
    return {**tree, "source": {**source, **{key: [text] for key, text in texts.items()}}}


def with_policy(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """Build `decoding.policy`, whose class hangs on its `name`; `policy: exact` is short for
    `{name: exact}`.
    """
    decoding = tree.get("decoding")
    if not isinstance(decoding, dict) or "policy" not in decoding:
        return tree
    given: Any = decoding["policy"]
    options = {"name": given} if isinstance(given, str) else given
    if not isinstance(options, dict) or options.get("name", "lvspec") not in POLICY_SETTINGS:
        allowed = f"{' or '.join(POLICY_SETTINGS)}, or a section with that `name`"
        name = str(options.get("name") if isinstance(options, dict) else options)
        nearest = difflib.get_close_matches(name, POLICY_SETTINGS, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        raise ConfigError(f"decoding.policy = {given!r}: expected {allowed}{hint}")
    cls = POLICY_SETTINGS[options.get("name", "lvspec")]
    own = {key: value for key, value in options.items() if key != "name"}
    policy = build(cls, own, "decoding.policy.")
    return {**tree, "decoding": {**decoding, "policy": policy}}


def build(cls: type[S], tree: Mapping[str, Any], prefix: str) -> S:
    """Validate plain values into a settings class; `prefix` is where it stands, for messages."""
    _reject_unknown_keys(cls, tree, prefix)
    try:
        return TypeAdapter(cls).validate_python(tree)
    except ValidationError as error:
        raise ConfigError(explain(error, cls, tree, prefix)) from error


def _reject_unknown_keys(cls: type, tree: Mapping[str, Any], prefix: str) -> None:
    hints = {item.name: typing.get_type_hints(cls)[item.name] for item in fields(cls)}
    for key, value in tree.items():
        if key not in hints:
            here = [prefix + name for name in hints]
            raise ConfigError(explain_unknown(f"{prefix}{key}", value, here, setting_paths()))
        for section in sections_of(hints[key]):
            if isinstance(value, dict):
                _reject_unknown_keys(section, typing.cast(Any, value), f"{prefix}{key}.")


def setting_paths() -> list[str]:
    """Every setting as a dotted path."""
    return paths_of(JobSettings)


def as_tree(settings: Any) -> dict[str, Any]:
    """Settings as plain values for YAML or JSON, with secrets as `***` (see `pipeline.secrets`)."""
    kind = getattr(settings, "name", None)  # settings that come in kinds (a policy) name theirs
    tree: dict[str, Any] = {} if kind is None else {"name": kind}
    for item in fields(settings):
        value = getattr(settings, item.name)
        if is_dataclass(value) and not isinstance(value, type):
            value = as_tree(value)
        elif isinstance(value, tuple):
            value = list(typing.cast(tuple[Any, ...], value))
        elif item.name == "storage":
            value = shown(value)
        elif isinstance(value, str):
            value = scrub(value)
        tree[item.name] = value
    return tree


def to_yaml(settings: JobSettings) -> str:
    """The whole configuration as YAML that loads again (but for redacted secrets)."""
    return yaml.safe_dump(as_tree(settings), sort_keys=False, allow_unicode=True)
