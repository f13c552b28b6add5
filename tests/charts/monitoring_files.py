"""The chart's alerts and dashboards, and the queries in them.

rules(values)              the rendered PrometheusRule's groups, as Prometheus reads them
dashboards()               the files of the chart, by name
queries(dashboard)         what its panels ask
named_metrics(expression)  the metrics of a query
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tests.charts.render import CHART, Values, of_kind, render

Json = dict[str, Any]

RULES_ON: Final = {"monitoring": {"rules": {"enabled": True}}}

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_MATCHERS_AND_TIMES: Final = re.compile(r"\{[^}]*\}|\[[^\]]*\]")
_LABEL_LISTS: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_NAME: Final = re.compile(r"(?<![\w$.])[a-zA-Z_:][\w:]*(?!\w|\s*\()")
_WORDS: Final = frozenset({"or", "and", "unless", "offset", "bool", "by", "on", "group_left"})
_VARIABLE: Final = re.compile(r"label_values\(([\w:]+)")


class Query(NamedTuple):
    """An expression of a panel, with the panel's title, and its number in the dashboard."""

    panel: str
    number: int
    expression: str


def rules(values: Values = RULES_ON) -> Json:
    """Return the groups of the rendered PrometheusRule, as a rule file has them."""
    (rule,) = of_kind(render(values), "PrometheusRule").values()
    return dict(rule["spec"])


def alerts(values: Values = RULES_ON) -> dict[str, Json]:
    """Return the rendered alerts by name."""
    return {rule["alert"]: rule for group in rules(values)["groups"] for rule in group["rules"]}


def dashboards() -> dict[str, Json]:
    """Return the dashboards by the names of their files."""
    files = sorted((CHART / "files" / "dashboards").glob("*.json"))
    return {path.stem: json.loads(path.read_bytes()) for path in files}


def panels(dashboard: Json) -> list[Json]:
    """Return the panels of a dashboard that show something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: Json) -> Iterator[Query]:
    """Yield the expressions of its panels."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield Query(panel["title"], panel["id"], target["expr"])


def variable_metrics(dashboard: Json) -> set[str]:
    """Return the metrics that its variables take their values from."""
    asked = [each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    return {name for query in asked for name in _VARIABLE.findall(query["query"])}


def named_metrics(expression: str) -> set[str]:
    """Return the names of metrics in an expression."""
    bare = _MATCHERS_AND_TIMES.sub(" ", _QUOTED.sub('""', expression))
    return set(_NAME.findall(_LABEL_LISTS.sub(" ", bare))) - _WORDS


def filled(expression: str, **variables: str) -> str:
    """Return a query as Grafana sends it; each variable that is not given matches everything."""
    known = {"__rate_interval": "1m", **variables}
    return re.sub(r"\$(\w+)", lambda found: known.get(found[1], ".*"), expression)
