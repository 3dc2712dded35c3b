"""Loading settings: what a person may write, and what a wrong line says."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lvspec import Exact, Gate, Lvspec
from lvspec.config import POLICY_SETTINGS
from pipeline.config import (
    JobSettings,
    apply_assignments,
    load_config,
    parse_config,
    setting_paths,
    to_yaml,
)
from pipeline.errors import ConfigError

BASE = {"source": {"prefix": "videos"}, "output": "out"}


def settings(*assignments: str) -> JobSettings:
    return parse_config(apply_assignments(BASE, assignments))


def message(*assignments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(*assignments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        (
            "decoding.draft_lenght=3",
            "decoding.draft_lenght = 3: there is no such setting; "
            "did you mean decoding.draft_length?",
        ),
        (
            "draft_length=3",
            "draft_length = 3: there is no such setting; did you mean decoding.draft_length?",
        ),
        (  # nearer to the section `decoding` in letters, not in meaning
            "decoder=decord",
            "decoder = 'decord': there is no such setting; did you mean video.decoder?",
        ),
        (
            "decoding.policy.loose_shar=1",
            "decoding.policy.loose_shar = 1: there is no such setting; "
            "did you mean decoding.policy.loose_share?",
        ),
        ("decoding.draft_length=0", "decoding.draft_length = 0: expected 1 to 64"),
        ("decoding.policy.loose_share=2", "decoding.policy.loose_share = 2.0: expected 0 to 1"),
        (
            "decoding.pruning=some",
            "decoding.pruning = 'some': expected 'uniform', 'frames', 'attention' or 'none'",
        ),
        ("run.max_error_share=2", "run.max_error_share = 2.0: expected 0 to 1"),
        (
            "caption.actors=[4, 1]",
            "caption.actors = (4, 1): expected a number from 1, or [least, most]",
        ),
        ("frames.count=many", "frames.count = 'many': expected a whole number"),
        ("frames.count=1.5", "frames.count = 1.5: expected a whole number"),
        ("decoding.keep=x", "decoding.keep = 'x': expected a number"),
        ("decoding.policy.loose_share=x", "decoding.policy.loose_share = 'x': expected a number"),
        ("decoding.prompt=[a, b]", "decoding.prompt = ['a', 'b']: expected a text"),
        ("source.glob=5", "source.glob = 5: expected a list of texts"),
        ("source.glob=[a, 1]", "source.glob = ['a', 1]: expected a list of texts"),
        (
            "caption.actors=[1, 2, 3]",
            "caption.actors = [1, 2, 3]: expected a whole number or a list of 2 whole numbers",
        ),
        (
            "storage=5",
            "storage = 5: expected a section per protocol, such as  s3: {anon: true}",
        ),
        (
            "storage={s3: {secret: hush}, gs: 5}",
            "storage.gs = 5: expected a section of options, such as  {anon: true}",
        ),
        (
            "storage=hush",
            "storage = '***': expected a section per protocol, such as  s3: {anon: true}",
        ),
        ("storage.retry_s=-1", "storage.retry_s = -1: expected a number of seconds from 0"),
        ("storage.retry_s=long", "storage.retry_s = '***': expected a number of seconds from 0"),
        ("storage.retry_s=.nan", "storage.retry_s = nan: expected a number of seconds from 0"),
        (
            "storag.s3.secret=hush",
            "storag = {'s3': {'secret': '***'}}: there is no such setting; did you mean storage?",
        ),
        ("output.token=hush", "--set output.token=***: output = '***' has no keys below it"),
        ("clips.stride_s=x", "clips.stride_s = 'x': expected a number or null"),
        ("clips.mode=cuts", "clips.mode = 'cuts': expected 'whole', 'windows' or 'scenes'"),
        ("clips.length_s=0", "clips.length_s = 0.0: expected a number above 0"),
        (
            "run=3",
            "run = 3: expected keys below it: rows_per_commit, max_error_share, part_bytes, "
            "audit_share, samples",
        ),
        (
            "source.manifest=a.csv",
            "source.prefix = 'videos': expected one of prefix and manifest, and manifest is "
            "'a.csv': set or unset (`null`) one of them",
        ),
        ("video.timeout_s=0", "video.timeout_s = 0.0: expected a number above 0"),
        ("video.memory_mb=-1", "video.memory_mb = -1: expected a number above 0"),
        ("output=null", "output = None: expected a text"),
        ("output.x=1", "--set output.x=1: output = 'out' has no keys below it"),
        ("nonsense", "--set nonsense: expected key.path=value, such as decoding.draft_length=8"),
    ],
)
def test_wrong_settings_say_key_value_and_what_is_allowed(assignment: str, expected: str) -> None:
    assert message(assignment) == expected


def test_a_missing_required_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="source is not set"):
        parse_config({"output": "x"})


def test_policies_are_chosen_by_name() -> None:
    assert settings().decoding.policy == Lvspec()
    assert settings("decoding.policy=exact").decoding.policy == Exact()
    gate = settings("decoding.policy.name=gate", "decoding.policy.min_probability=0.2")
    assert gate.decoding.policy == Gate(min_probability=0.2)
    assert "loose_share" in message("decoding.policy.name=gate", "decoding.policy.loose_share=1")


def test_an_unknown_policy_is_answered_with_those_there_are() -> None:
    said = message("decoding.policy=strict")
    assert said.startswith("decoding.policy = 'strict': expected exact or lvspec or ")
    assert all(name in said for name in POLICY_SETTINGS)
    assert message("decoding.policy.name=exat").endswith("did you mean exact?")


def test_a_glob_may_be_one_text_although_yaml_reads_a_star_as_an_alias() -> None:
    assert settings("source.glob=*.mp4").source.glob == ("*.mp4",)
    assert settings("source.protocols=s3").source.protocols == ("s3",)


@given(
    length=st.integers(1, 64),
    keep=st.floats(0.01, 1),
    prompt=st.text(st.characters(codec="ascii", categories=["L", "Zs"]), min_size=1).filter(
        str.strip
    ),
    actors=st.one_of(st.integers(1, 9), st.tuples(st.integers(1, 4), st.integers(4, 9))),
)
def test_printed_settings_load_again_as_the_same(
    length: int, keep: float, prompt: str, actors: int | tuple[int, int]
) -> None:
    import yaml

    tree = {
        **BASE,
        "decoding": {"draft_length": length, "keep": keep, "prompt": prompt},
        "caption": {"actors": list(actors) if isinstance(actors, tuple) else actors},
    }
    first = parse_config(tree)
    assert parse_config(yaml.safe_load(to_yaml(first))) == first
    assert first.decoding.draft_length == length


@given(st.sampled_from(setting_paths()), st.text("abcxyz", min_size=1, max_size=3))
def test_any_misspelt_key_is_refused(path: str, extra: str) -> None:
    assert "there is no such setting" in message(f"{path}{extra}_=1")


def test_secrets_are_not_printed() -> None:
    shown = to_yaml(settings("storage.s3={key: AKIA, secret: hush, anon: false}"))
    assert "hush" not in shown
    assert "AKIA" not in shown
    assert "anon: false" in shown


def test_unreadable_files_are_config_errors(tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("- a\n")
    (tmp_path / "bad.yaml").write_text("a: [\n")
    for name in ("none.yaml", "list.yaml", "bad.yaml"):
        with pytest.raises(ConfigError, match=name):
            load_config(tmp_path / name)


def test_naming_another_policy_drops_the_options_of_the_one_before() -> None:
    tree = {
        "source": {"prefix": "v"},
        "output": "o",
        "decoding": {"policy": {"name": "lvspec", "loose_share": 0.5}},
    }
    exact = parse_config(apply_assignments(tree, ["decoding.policy.name=exact"]))
    assert exact.decoding.policy == Exact()
    same = parse_config(apply_assignments(tree, ["decoding.policy.name=lvspec"]))
    assert same.decoding.policy == Lvspec(loose_share=0.5)


def test_a_line_of_yaml_that_cannot_be_read_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("storage:\n  s3: {key: AKIA, secret: hush: hush}\n")
    with pytest.raises(ConfigError, match="not valid YAML in line 2") as caught:
        load_config(path)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_secret_in_the_wrong_place_is_not_quoted() -> None:
    assert message("s3_secret=hush").startswith("s3_secret = '***': there is no such setting")
    assert "hush" not in message("source.manifest=https://ann:hush@host/m.csv")


def test_how_long_storage_is_asked_again_shows_and_can_be_set() -> None:
    assert settings().storage == {"retry_s": 300.0}
    assert settings("storage.s3.anon=true").storage == {"retry_s": 300.0, "s3": {"anon": True}}
    assert "retry_s: 5" in to_yaml(settings("storage.retry_s=5"))
