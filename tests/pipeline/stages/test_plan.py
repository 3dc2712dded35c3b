"""Planning: ids, what is held, duplicates."""

import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SourceError
from pipeline.schema import MANIFEST
from pipeline.sources import VideoRef
from pipeline.sources.video_ref import MISSING_VERSION, UNKNOWN_VERSION
from pipeline.stages import plan
from pipeline.stages.plan import (
    Held,
    Ids,
    PlanCounts,
    Planned,
    as_ids,
    clip_id,
    clip_key,
    contains,
    plan_clips,
    raw_id,
)

SPANS = st.one_of(st.none(), st.integers(0, 10**7).map(lambda ms: ms / 1000))


def run(refs: list[VideoRef], held: Held | None = None) -> tuple[Planned, pa.Table]:
    tables: list[pa.Table] = []
    planned = plan_clips(lambda: refs, held or Held(), tables.append)
    return planned, pa.concat_tables([MANIFEST.empty_table(), *tables])


def held_of(*rows: tuple[str, str], again: str | None = None) -> Held:
    """Whole videos of these (uri, version), as a dataset holds them."""
    clips = [(clip_id(uri, None, None), version) for uri, version in rows]
    return Held(
        ids_of(*(uri for uri, _ in rows)),
        np.unique(as_ids(b"".join(clip_key(clip, version, None) for clip, version in clips))),
        None if again is None else ids_of(*again),
    )


def ids_of(*uris: str) -> Ids:
    return np.unique(as_ids(b"".join(raw_id(clip_id(uri, None, None)) for uri in uris)))


def test_an_id_is_the_uuid5_of_uri_and_milliseconds() -> None:
    expected = uuid.uuid5(uuid.NAMESPACE_URL, "s3://b/v.mp4\n1500\n2000")
    assert clip_id("s3://b/v.mp4", 1.5, 2.0) == str(expected)


def test_no_start_is_a_start_of_zero_but_no_end_is_not_an_end_of_zero() -> None:
    assert clip_id("v", None, None) == clip_id("v", 0.0, None)
    assert clip_id("v", None, None) != clip_id("v", None, 0.0)


@given(st.text(min_size=1), st.text(min_size=1), SPANS, SPANS, SPANS, SPANS)
def test_ids_are_equal_exactly_when_uri_and_span_are(
    uri_a: str,
    uri_b: str,
    s_a: float | None,
    s_b: float | None,
    e_a: float | None,
    e_b: float | None,
) -> None:
    same = (uri_a, s_a or 0, e_a) == (uri_b, s_b or 0, e_b)
    assert (clip_id(uri_a, s_a, e_a) == clip_id(uri_b, s_b, e_b)) == same


def test_what_is_held_in_the_same_version_is_not_planned_again() -> None:
    same = VideoRef("a", "a", source_version="v1")
    changed = VideoRef("b", "b", source_version="v2")
    asked_otherwise = VideoRef("c", "c", prompt="Count them.", source_version="v1")
    new = VideoRef("d", "d", source_version="v1")
    held = held_of(("a", "v1"), ("b", "v1"), ("c", "v1"))
    planned, table = run([same, changed, asked_otherwise, new], held)
    assert planned.counts == PlanCounts(listed=4, held=1, planned=3, replacing=2)
    assert table["uri"].to_pylist() == ["b", "c", "d"]


def test_duplicates_are_an_error_that_names_them_and_their_places() -> None:
    refs = [
        VideoRef("a", "a", place="m.csv:2"),
        VideoRef("b", "b", 1.0, 2.0),
        VideoRef("a", "x", 0.0, place="m.csv:9"),
        VideoRef("b", "b", 1.0004, 2.0),
        VideoRef("c", "c"),
    ]
    with pytest.raises(SourceError) as caught:
        run(refs)
    assert str(caught.value) == (
        "the source lists 2 clip(s) more than once: a (m.csv:2, m.csv:9); b [1 s to 2 s]"
    )


def test_duplicates_are_found_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "ROWS_PER_FILE", 2)
    refs = [VideoRef(uri, uri, place=str(n)) for n, uri in enumerate("abcda")]
    with pytest.raises(SourceError, match=r"1 clip\(s\) more than once: a \(0, 4\)$"):
        run(refs)


def test_tables_are_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "ROWS_PER_FILE", 2)
    sizes: list[int] = []
    refs = [VideoRef(str(i), str(i)) for i in range(5)]
    plan_clips(lambda: refs, Held(), lambda table: sizes.append(table.num_rows))
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize("unseen", [MISSING_VERSION, UNKNOWN_VERSION])
def test_a_held_clip_whose_file_cannot_be_seen_keeps_its_rows(unseen: str) -> None:
    """An outage of the storage while planning must not replace captions by errors."""
    refs = [VideoRef("a", "a", source_version=unseen), VideoRef("b", "b", source_version=unseen)]
    planned, table = run(refs, held_of(("a", "v1")))
    assert planned.counts == PlanCounts(listed=2, held=1, planned=1, replacing=0)
    assert table["uri"].to_pylist() == ["b"]
    assert planned.missing.tolist() == ids_of(*"a" if unseen == MISSING_VERSION else "").tolist()


def test_what_the_source_does_not_list_any_more_is_said() -> None:
    planned, _ = run([VideoRef("b", "b", source_version="v1")], held_of(("a", "v1"), ("b", "v1")))
    assert planned.unlisted.tolist() == ids_of("a").tolist()


def test_trying_again_plans_those_clips_only_whatever_their_version() -> None:
    refs = [VideoRef(uri, uri, source_version="v1") for uri in "abc"]
    held = held_of(("a", "v1"), ("b", "v1"), again="b")
    planned, table = run(refs, held)
    assert planned.counts == PlanCounts(listed=3, held=2, planned=1, replacing=1)
    assert table["uri"].to_pylist() == ["b"]


@given(st.sets(st.binary(min_size=16, max_size=16)), st.lists(st.binary(min_size=16, max_size=16)))
def test_ids_are_found_exactly_when_they_are_there(ids: set[bytes], wanted: list[bytes]) -> None:
    wanted += list(ids)[:3]
    found = contains(np.unique(as_ids(b"".join(ids))), as_ids(b"".join(wanted)))
    assert found.tolist() == [one in ids for one in wanted]
