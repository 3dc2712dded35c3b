"""Planning: ids, what is held, duplicates."""

import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import SourceError
from pipeline.schema import MANIFEST
from pipeline.sources import VideoRef
from pipeline.stages import plan
from pipeline.stages.plan import Held, PlanCounts, clip_id, plan_clips

SPANS = st.one_of(st.none(), st.integers(0, 10**7).map(lambda ms: ms / 1000))


def run(refs: list[VideoRef], held: Held | None = None) -> tuple[PlanCounts, pa.Table]:
    tables: list[pa.Table] = []
    counts = plan_clips(refs, held or Held(), tables.append)
    return counts, pa.concat_tables([MANIFEST.empty_table(), *tables])


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
    held = Held()
    for uri in "abc":
        held.add(clip_id(uri, None, None), "v1", None)
    counts, table = run([same, changed, asked_otherwise, new], held)
    assert counts == PlanCounts(listed=4, held=1, planned=3, replacing=2)
    assert table["uri"].to_pylist() == ["b", "c", "d"]


def test_duplicates_are_an_error_that_names_them() -> None:
    refs = [VideoRef("a", "a"), VideoRef("b", "b", 1.0, 2.0), VideoRef("a", "x", 0.0)]
    refs.append(VideoRef("b", "b", 1.0004, 2.0))
    with pytest.raises(SourceError) as caught:
        run(refs)
    assert str(caught.value) == (
        "the source lists 2 clip(s) more than once: a [0 s to end]; b [1.0004 s to 2.0 s]"
    )


def test_tables_are_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "ROWS_PER_FILE", 2)
    sizes: list[int] = []
    refs = [VideoRef(str(i), str(i)) for i in range(5)]
    plan_clips(refs, Held(), lambda table: sizes.append(table.num_rows))
    assert sizes == [2, 2, 1]


def test_a_held_clip_whose_file_cannot_be_seen_keeps_its_rows() -> None:
    """An outage of the storage while planning must not replace captions by errors."""
    held = Held()
    held.add(clip_id("a", None, None), "v1", None)
    gone, never_seen = VideoRef("a", "a"), VideoRef("b", "b")
    counts, table = run([gone, never_seen], held)
    assert counts == PlanCounts(listed=2, held=1, planned=1, replacing=0)
    assert table["uri"].to_pylist() == ["b"]
