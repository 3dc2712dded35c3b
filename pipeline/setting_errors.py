"""What is said of a wrong setting: its key, its value, what is allowed, the nearest known key."""

import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal

from pydantic import ValidationError

from lvspec.config import SettingError
from pipeline.secrets import HIDDEN, is_secret_name, scrub, shown

WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    types.NoneType: "null",
}
MANY = {str: "texts", int: "whole numbers"}


def sections_of(annotation: Any) -> list[type]:
    """The settings classes that a field may hold (`X`, `X | None`, `X | Y`); none for a plain
    value.
    """
    union = isinstance(annotation, types.UnionType)
    options = typing.get_args(annotation) if union else (annotation,)
    return [o for o in options if isinstance(o, type) and is_dataclass(o)]


def paths_of(cls: type, prefix: str = "") -> list[str]:
    """Every setting of a class as a dotted path."""
    hints = typing.get_type_hints(cls)
    paths: dict[str, None] = {}
    for item in fields(cls):
        sections = sections_of(hints[item.name])
        if not sections:
            paths[f"{prefix}{item.name}"] = None
        for section in sections:
            paths.update(dict.fromkeys(paths_of(section, f"{prefix}{item.name}.")))
    return list(paths)


def explain_unknown(key: str, value: object, siblings: list[str], known: list[str]) -> str:
    """Of a key that does not exist; `siblings` do in its place, `known` anywhere."""
    leaf = key.rsplit(".", 1)[-1]
    everywhere = {path.rsplit(".", 1)[-1]: path for path in known}
    if leaf in everywhere:  # the right name in the wrong section
        nearest = [everywhere[leaf]]
    else:
        nearest = difflib.get_close_matches(key, siblings, n=1, cutoff=0.6) or [
            everywhere[name] for name in difflib.get_close_matches(leaf, everywhere, n=1)
        ]
    hint = f"did you mean {nearest[0]}?" if nearest else f"allowed here: {', '.join(siblings)}"
    return f"{key} = {redacted(value, key)!r}: there is no such setting; {hint}"


def explain(error: ValidationError, cls: type, tree: Mapping[str, Any], prefix: str) -> str:
    """One sentence for the first finding about `tree`, which is no `cls`. `prefix` is where it
    stands.
    """
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, SettingError):
        key = f"{where}.{cause.key}" if where else cause.key
        return f"{prefix}{key} = {redacted(cause.value, key)!r}: expected {cause.allowed}"
    annotation, value, keys = cls, tree, list[str]()
    for part in first["loc"]:  # down to the setting; what follows is inside its value
        hints = typing.get_type_hints(annotation) if is_dataclass(annotation) else {}
        if part not in hints:
            break
        keys.append(str(part))
        if part not in value:
            return f"{prefix}{'.'.join(keys)} is not set, and it has no default"
        annotation, value = hints[str(part)], value[str(part)]
    key = ".".join(keys)
    return f"{prefix}{key} = {redacted(value, key)!r}: expected {allowed(annotation)}"


def allowed(annotation: Any) -> str:
    """What a person may write for a setting of this type."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if is_dataclass(annotation):
        said = f"keys below it: {', '.join(item.name for item in fields(annotation))}"
    elif origin is Literal:
        said = _or([repr(value) for value in inner])
    elif origin is tuple:
        size = "" if inner[-1] is ... else f"{len(inner)} "
        said = f"a list of {size}{MANY.get(inner[0], 'values')}"
    elif isinstance(annotation, types.UnionType):
        said = _or([allowed(option) for option in inner])
    else:  # `storage` is the only mapping
        said = WORDS.get(annotation, "a section per protocol, such as  s3: {anon: true}")
    return said


def _or(words: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def redacted(value: Any, name: str = "") -> Any:
    """`value` of a setting of this name, as a message may show it."""
    if isinstance(value, Mapping) or name.startswith("storage"):
        return shown(value, name)
    if not isinstance(value, str):
        return value
    return HIDDEN if is_secret_name(name) else scrub(value)
