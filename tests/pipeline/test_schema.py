"""The schemas and the page made of them."""

from pathlib import Path

from pipeline.schema import CAPTIONS, ERRORS, MANIFEST, ROWS, to_markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "schema.md"


def test_the_page_is_not_stale() -> None:
    assert PAGE.read_text() == to_markdown(), "run: python -m pipeline.schema > docs/schema.md"


def test_published_tables_are_staged_rows_without_some_columns() -> None:
    for schema in (CAPTIONS, ERRORS):
        assert all(ROWS.field(field.name).equals(field) for field in schema)


def test_errors_are_a_manifest() -> None:
    assert all(ERRORS.field(field.name).equals(field) for field in MANIFEST)
