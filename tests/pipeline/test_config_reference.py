"""The page of settings is made from the classes, and every key is explained there."""

from pathlib import Path

from pipeline.config import setting_paths
from pipeline.config_reference import to_markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "config.md"


def test_the_page_is_up_to_date() -> None:
    stale = "run: python -m pipeline.config_reference > docs/config.md"
    assert PAGE.read_text(encoding="utf-8") == to_markdown(), stale


def test_every_setting_has_a_row_with_a_meaning() -> None:
    rows = {
        line.split("`")[1]: line for line in to_markdown().splitlines() if line.startswith("| `")
    }
    assert rows.keys() == set(setting_paths())
    assert [key for key, row in rows.items() if row.endswith("|  |")] == []


def test_defaults_are_written_as_yaml() -> None:
    page = to_markdown()
    assert "| `decoding.adaptive` | true or false | `false` |" in page
    assert "| `caption.actors` | a whole number or a list of 2 whole numbers | `1` |" in page
    assert "| `output` | a text | must be set |" in page
