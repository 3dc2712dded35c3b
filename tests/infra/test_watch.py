"""Dashboard and alerts as files; that their metrics exist, tests/pipeline/test_metrics.py says."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.infra.promql import Selector, alerts, asked, dashboard, selectors

RULE_TESTS = Path(__file__).with_name("alerts_test.yaml")


def test_a_query_is_read_as_what_it_selects_and_groups_by() -> None:
    query = 'sum by (le, run) (rate(a_bucket{run=~"x.*", s!="e"}[5m])) / on (run) max(b) unless c'
    assert selectors(query) == [
        Selector("a_bucket", (("run", "=~", "x.*"), ("s", "!=", "e")), frozenset({"le", "run"})),
        Selector("b"),
        Selector("c"),
    ]


def test_a_selector_takes_what_its_matchers_say() -> None:
    (one,) = selectors('a{run=~"x.*", s!="e"}')
    assert one.takes({"run": "x1", "s": "ok"})
    assert one.takes({"run": "x1"})
    assert not one.takes({"run": "ax", "s": "ok"})
    assert not one.takes({"run": "x1", "s": "e"})


def test_no_query_is_wrong_promql() -> None:
    assert len(asked()) > 30
    with pytest.raises(ValueError, match="unclosed"):
        selectors("sum by (run (a)")


def test_no_panel_lies_on_another() -> None:
    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for a, b in itertools.combinations(places, 2):
        apart_x = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        apart_y = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert apart_x or apart_y, (a, b)


def test_every_panel_asks_the_chosen_prometheus() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_there_is_an_alert_for_each_way_a_run_goes_wrong() -> None:
    assert {rule["alert"] for rule in alerts()} == {
        "LvspecThroughputCollapse", "LvspecErrorShare", "LvspecTauCollapse", "LvspecStalledRun",
    }  # fmt: skip
    for rule in alerts():
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "description"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_the_alerts_fire_when_they_should() -> None:
    found = subprocess.run(
        ["promtool", "test", "rules", RULE_TESTS], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
