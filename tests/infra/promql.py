"""What the queries of the dashboard and the alerts ask for."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import promql_parser
import yaml

INFRA = Path(__file__).resolve().parents[2] / "infra"
DASHBOARD = INFRA / "grafana" / "lvspec.json"
ALERTS = INFRA / "prometheus" / "alerts.yaml"
LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


@dataclass(frozen=True)
class Selector:
    """A metric, the conditions on its labels (name, operator, value), and the labels that what
    stands around it groups or joins by.
    """

    name: str
    matchers: tuple[tuple[str, str, str], ...] = ()
    grouping: frozenset[str] = frozenset()

    def takes(self, labels: dict[str, str]) -> bool:
        found = {
            "=": str.__eq__,
            "!=": str.__ne__,
            "=~": _match,
            "!~": lambda a, b: not _match(a, b),
        }
        return all(found[op](labels.get(name, ""), value) for name, op, value in self.matchers)


def _match(text: str, pattern: str) -> bool:
    return re.fullmatch(pattern, text) is not None


def selectors(query: str) -> list[Selector]:
    """Raises ValueError for what is no PromQL."""
    return list(_selectors(promql_parser.parse(query), frozenset()))


_OPS = (  # not hashable
    (promql_parser.MatchOp.Equal, "="),
    (promql_parser.MatchOp.NotEqual, "!="),
    (promql_parser.MatchOp.Re, "=~"),
    (promql_parser.MatchOp.NotRe, "!~"),
)


def _selectors(node: Any, grouping: frozenset[str]) -> Iterator[Selector]:
    if isinstance(node, promql_parser.VectorSelector):
        matchers = tuple(
            (m.name, next(text for op, text in _OPS if op == m.op), m.value)
            for m in node.matchers.matchers
        )
        yield Selector(node.name, matchers, grouping)
        return
    if isinstance(node, promql_parser.AggregateExpr):
        grouping = frozenset(node.modifier.labels if node.modifier else ())
    children = [getattr(node, name, None) for name in ("lhs", "rhs", "expr", "vector_selector")]
    for child in (*children, *getattr(node, "args", ())):
        if child is not None:
            yield from _selectors(child, grouping)


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def asked() -> list[tuple[str, Selector]]:
    """Everything that the dashboard and the alerts ask for, with where it stands."""
    found: list[tuple[str, Selector]] = []
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            shown = frozenset(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            query = target["expr"].replace("$__rate_interval", "5m").replace("$run", ".*")
            for selector in selectors(query):
                found.append(
                    (panel["title"], replace(selector, grouping=selector.grouping | shown))
                )
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            call = LABEL_VALUES.fullmatch(variable["query"]["query"])
            assert call, variable["query"]
            for selector in selectors(call[1]):
                found.append((variable["name"], replace(selector, grouping=frozenset({call[2]}))))
    for rule in alerts():
        found += [(rule["alert"], selector) for selector in selectors(rule["expr"])]
    return found
