"""Dashboards and alerts of the chart: what is rendered, and that what they ask for exists."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any, Final

import pytest
import yaml

from tests.charts.monitoring_files import (
    RULES_ON,
    alerts,
    dashboards,
    named_metrics,
    panels,
    queries,
    rules,
    variable_metrics,
)
from tests.charts.render import CHART, HelmFailed, of_kind, render
from tests.charts.values_table import values_with
from tests.tidy.source_tree import ROOT, shipped_files
from tests.tidy.user_pages import metric_names

Json = Any

NOT_OURS: Final = {"ALERTS", "process_cpu_seconds_total", "process_resident_memory_bytes"}
"""Metrics of Prometheus itself, and of the library."""
SUFFIXES: Final = ("_bucket", "_sum", "_count")
PANELS: Final = {"bargauge", "heatmap", "stat", "table", "timeseries"}
"""Panels of today's Grafana; `graph`, `singlestat` and `table-old` are gone."""
OLDEST_SCHEMA: Final = 41
WIDTH: Final = 24
MAX_MODE: Final = {"pluginConfigs": {"pluginConfigs": {"ElasticQuotaV2": {"mode": "max"}}}}
DASHBOARDS_ON: Final = {"monitoring": {"dashboards": {"enabled": True}}}

every_dashboard = pytest.mark.parametrize("name", dashboards())


def unknown_metrics(named: set[str]) -> set[str]:
    """Return those that no program has."""
    known = metric_names(shipped_files())
    known |= {f"{name}{suffix}" for name in known for suffix in SUFFIXES}
    return named - known - NOT_OURS


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ('sum by (queue) (rate(a_total{b="c_d"}[5m])) / on (x) group_left (y) z', "a_total z"),
        ('max(a{q=~"$queue"}) > 1 or absent(b{c="}"}) unless d offset 5m', "a b d"),
        ("histogram_quantile(0.9, sum by (le) (rate(a_bucket[$__rate_interval])))", "a_bucket"),
        ("topk(10, max without (a, b) (c)) * 3600 or vector(0)", "c"),
    ],
)
def test_the_metrics_of_an_expression_are_found(expression: str, want: str) -> None:
    assert named_metrics(expression) == set(want.split())


@every_dashboard
def test_a_dashboard_asks_for_metrics_that_exist(name: str) -> None:
    board = dashboards()[name]
    asked = {metric for query in queries(board) for metric in named_metrics(query.expression)}
    assert unknown_metrics(asked | variable_metrics(board)) == set()


def test_alerts_ask_for_metrics_that_exist() -> None:
    asked = {metric for rule in alerts().values() for metric in named_metrics(rule["expr"])}
    assert unknown_metrics(asked) == set()


def test_a_metric_that_does_not_exist_is_found() -> None:
    assert unknown_metrics({"koord_queue_leader", "koord_queue_lead"}) == {"koord_queue_lead"}


# --- dashboards ---------------------------------------------------------------------------------


def test_there_are_four_dashboards() -> None:
    boards = dashboards()
    assert sorted(boards) == ["health", "overview", "queue", "quota"]
    for name, board in boards.items():
        assert (board["uid"], board["title"]) == (
            f"koord-queue-{name}",
            f"Koord-Queue / {name.title()}",
        )


@every_dashboard
def test_a_dashboard_is_of_todays_grafana(name: str) -> None:
    board = dashboards()[name]
    assert board["schemaVersion"] >= OLDEST_SCHEMA
    variables = {each["name"]: each for each in board["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert {each["type"] for each in panels(board)} <= PANELS
    for each in [*panels(board), *(each for each in variables.values() if "datasource" in each)]:
        assert each["datasource"] == source
    for panel in panels(board):
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert all(target["datasource"] == source for target in panel["targets"]), panel["title"]
        assert [each for each in panel["targets"] if 'namespace=~"$namespace"' in each["expr"]] or (
            panel["title"] == "Alerts"
        )


@every_dashboard
def test_the_panels_of_a_dashboard_do_not_overlap(name: str) -> None:
    board = dashboards()[name]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= WIDTH
        cells = {
            (at["x"] + column, at["y"] + row) for column in range(at["w"]) for row in range(at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_dashboards_are_config_maps_that_the_sidecar_finds() -> None:
    found = {
        name: one
        for name, one in of_kind(render(DASHBOARDS_ON), "ConfigMap").items()
        if "-dashboard-" in name
    }
    assert sorted(found) == [f"koord-queue-dashboard-{name}" for name in sorted(dashboards())]
    for one in found.values():
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "Koord-Queue"}
        assert one["metadata"]["namespace"] == "koord-queue"
    read = {name: json.loads(*one["data"].values()) for name, one in found.items()}
    assert read == {f"koord-queue-dashboard-{name}": each for name, each in dashboards().items()}


def test_labels_folder_and_namespace_of_dashboards_are_values() -> None:
    settings = {
        "enabled": True,
        "namespace": "grafana",
        "labels": {"grafana_dashboard": None, "team-dashboards": "yes"},
        "annotations": {"grafana_folder": None, "folder": "Batch"},
    }
    maps = of_kind(render({"monitoring": {"dashboards": settings}}), "ConfigMap")
    one = maps["koord-queue-dashboard-overview"]["metadata"]
    assert one["namespace"] == "grafana"
    assert one["labels"]["team-dashboards"] == "yes"
    assert "grafana_dashboard" not in one["labels"]
    assert one["annotations"] == {"folder": "Batch"}


def test_nothing_is_rendered_unless_it_is_asked_for() -> None:
    objects = render()
    assert of_kind(objects, "PrometheusRule") == {}
    assert [name for name in of_kind(objects, "ConfigMap") if "dashboard" in name] == []


# --- rules --------------------------------------------------------------------------------------


def test_by_default_the_rules_are_those_of_the_file() -> None:
    text = (CHART / "files" / "rules" / "koord-queue.yaml").read_text(encoding="utf-8")
    want = yaml.safe_load(text)
    for rule in want["groups"][0]["rules"]:
        page = rule["annotations"]["runbook_url"]
        rule["annotations"]["runbook_url"] = f"docs/runbooks/{page}.md"
    assert rules() == want


def test_each_alert_says_what_to_do() -> None:
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}, name
        said = rule["annotations"]
        assert said.keys() == {"summary", "description", "runbook_url"}, name
        assert (ROOT / PurePosixPath(said["runbook_url"])).is_file(), name


def test_each_alert_is_in_the_table_of_the_page() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    for name, rule in alerts().items():
        link = rule["annotations"]["runbook_url"].removeprefix("docs/")
        assert f"| [`{name}`]({link}) | {rule['labels']['severity']} |" in page


def test_settings_of_single_alerts() -> None:
    settings = {
        "KoordQueueChecksSilent": {"threshold": 7200, "severity": "info", "for": "1h"},
        "KoordQueueErrors": {"window": "1h"},
        "KoordQueueForecastsOff": {"enabled": False},
    }
    given = {
        "enabled": True,
        "alerts": settings,
        "alertLabels": {"team": "platform"},
        "runbookUrl": "https://wiki.example.com/{name}",
    }
    got, before = alerts({"monitoring": {"rules": given}}), alerts()
    silent = got["KoordQueueChecksSilent"]
    assert silent["expr"].endswith("(koord_queue_admission_check_open_seconds) > 7200")
    assert (silent["for"], silent["labels"]) == ("1h", {"severity": "info", "team": "platform"})
    assert silent["annotations"]["runbook_url"] == "https://wiki.example.com/checks-silent"
    assert "[1h]" in got["KoordQueueErrors"]["expr"]
    assert before.keys() - got.keys() == {"KoordQueueForecastsOff"}
    unchanged = "KoordQueueCacheBehind"
    assert (got[unchanged]["expr"], got[unchanged]["for"]) == (
        before[unchanged]["expr"],
        before[unchanged]["for"],
    )


def test_an_oversold_quota_may_use_more_than_its_max() -> None:
    values = {**RULES_ON, "oversellrate": 1.5, **MAX_MODE}
    assert alerts(values)["KoordQueueQuotaAboveMax"]["expr"].endswith("> 1.5")


def test_the_program_of_shadow_mode_is_the_one_that_leads() -> None:
    expression = alerts({**RULES_ON, "shadow": {"enabled": True}})["KoordQueueNobodyLeads"]["expr"]
    assert 'absent(koord_queue_build_info{component="koord-queue-shadow"})' in expression
    assert "koord-queue-scheduler" not in expression


@pytest.mark.parametrize(
    ("alert", "says"),
    [
        pytest.param({"KoordQueueNobodyLead": {}}, "KoordQueueNobodyLead", id="an unknown alert"),
        pytest.param({"KoordQueueErrors": {"to": "1m"}}, "'to' not allowed", id="a typo"),
        pytest.param({"KoordQueueErrors": {"for": "soon"}}, "KoordQueueErrors/for", id="a time"),
    ],
)
def test_a_typo_in_the_settings_of_an_alert_is_refused(alert: Json, says: str) -> None:
    with pytest.raises(HelmFailed, match=says):
        render({"monitoring": {"rules": {"enabled": True, "alerts": alert}}})


def test_labels_of_queues_are_a_flag_of_the_scheduler() -> None:
    labels = ["team", "example.com/cost-center"]
    values = values_with("batchjob", metrics={"queueLabels": labels})
    (pod,) = (
        one["spec"]["template"]["spec"]
        for name, one in of_kind(render(values), "Deployment").items()
        if name == "koord-queue"
    )
    assert f"--metrics-queue-labels={','.join(labels)}" in pod["containers"][0]["args"]
