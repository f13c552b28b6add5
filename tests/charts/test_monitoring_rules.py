"""Each alert fires and stops, by promtool's unit tests of the rendered rules.

Series are samples of one minute each: "0x5" is six zeros, "0+1x5" counts up, "_x5" is missing.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from tests.charts.monitoring_files import alerts, rules
from tests.controlplane.binaries import BUILD_SECONDS
from tests.controlplane.prometheus import HOW_TO_GET, require_prometheus
from tests.required_tools import require

pytestmark = pytest.mark.timeout(2 * BUILD_SECONDS)  # the first time it is built

PROMTOOL_SECONDS: Final = 60.0
SCHEDULER: Final = 'namespace="koord-queue",job="scheduler",instance="10.0.0.1:10259"'
FOLLOWER: Final = 'namespace="koord-queue",job="scheduler",instance="10.0.0.2:10259"'
CONTROLLERS: Final = 'namespace="koord-queue",job="controllers",instance="10.0.0.1:8080"'
INSIGHT: Final = 'namespace="koord-queue",job="insight",instance="10.0.0.1:8085"'
QUOTA: Final = f'{SCHEDULER},quota="team",resource="cpu"'


def runs(target: str, component: str, values: str = "1x90") -> tuple[str, str]:
    """Return the series that says what a target is."""
    return f'koord_queue_build_info{{{target},component="koord-queue-{component}"}}', values


THERE: Final = (
    runs(SCHEDULER, "scheduler"),
    (f"koord_queue_leader{{{SCHEDULER}}}", "1x90"),
    runs(INSIGHT, "insight"),
    (f"koord_queue_leader{{{INSIGHT}}}", "0x90"),
)
"""A scheduler that leads, and an insight program, which has no Lease."""


class Case(NamedTuple):
    """Series, and when an alert fires: at the second of three minutes only.

    `labels` are those that its receivers route by.
    """

    alert: str
    series: Sequence[tuple[str, str]]
    minutes: tuple[int, int, int]
    labels: str = ""


CASES: Final = {
    "no replica leads": Case(
        "KoordQueueNobodyLeads",
        [
            runs(SCHEDULER, "scheduler"),
            runs(FOLLOWER, "scheduler"),
            (f"koord_queue_leader{{{SCHEDULER}}}", "1x9 0x80"),
            (f"koord_queue_leader{{{FOLLOWER}}}", "0x29 1x60"),
        ],
        (11, 13, 31),
        'component="koord-queue-scheduler"',
    ),
    "a program is gone": Case(
        "KoordQueueNobodyLeads",
        [
            *THERE,
            runs(CONTROLLERS, "controllers", "1x9 _x29 1x30"),
            (f"koord_queue_leader{{{CONTROLLERS}}}", "1x9 _x29 1x30"),
        ],
        (9, 20, 45),
        'component="koord-queue-controllers"',
    ),
    "the scheduler was never there": Case(
        "KoordQueueNobodyLeads",
        [
            runs(SCHEDULER, "scheduler", "_x10 1x60"),
            (f"koord_queue_leader{{{SCHEDULER}}}", "_x10 1x60"),
        ],
        (1, 3, 15),
        'component="koord-queue-scheduler"',
    ),
    "a unit fits and waits": Case(
        "KoordQueueFittingUnitWaits",
        [(f"koord_queue_insight_fitting_seconds{{{INSIGHT}}}", "0x9 0+60x9 0x30")],
        (11, 15, 25),
    ),
    "writes are refused": Case(
        "KoordQueueWritesRefused",
        [
            *THERE,
            (
                f'koord_queue_writes_refused_total{{{SCHEDULER},reason="forbidden"}}',
                "0x9 0+1x5 5x70",
            ),
        ],
        (10, 20, 60),
        'component="koord-queue-scheduler", reason="forbidden"',
    ),
    "a watch is silent": Case(
        "KoordQueueCacheBehind",
        [
            *THERE,
            (
                f'koord_queue_informer_watch_age_seconds{{{SCHEDULER},resource="pods"}}',
                "30x9 0+60x15 10x30",
            ),
        ],
        (18, 23, 30),
        'component="koord-queue-scheduler", resource="pods"',
    ),
    "the audit finds a difference": Case(
        "KoordQueueBooksDrifted",
        [(f'koord_queue_audit_differences_total{{{SCHEDULER},kind="charge"}}', "0x9 1x80")],
        (9, 12, 30),
        'kind="charge"',
    ),
    "a check gives no verdict": Case(
        "KoordQueueChecksSilent",
        [
            (
                f'koord_queue_admission_check_open_seconds{{{SCHEDULER},check="nodes"}}',
                "0+60x44 _x30",
            )
        ],
        (30, 40, 55),
        'check="nodes"',
    ),
    "the server answers with 429": Case(
        "KoordQueueApiThrottles",
        [
            *THERE,
            (f"koord_queue_throttled_requests_total{{{SCHEDULER}}}", "0x9 0+60x29 1740x50"),
            (f"koord_queue_throttled_seconds_total{{{SCHEDULER}}}", "0x90"),
        ],
        (15, 30, 60),
        'component="koord-queue-scheduler"',
    ),
    "requests wait for the own limit": Case(
        "KoordQueueApiThrottles",
        [
            *THERE,
            (f"koord_queue_throttled_requests_total{{{SCHEDULER}}}", "0x90"),
            (f"koord_queue_throttled_seconds_total{{{SCHEDULER}}}", "0x9 0+90x29 2610x50"),
        ],
        (15, 30, 60),
        'component="koord-queue-scheduler"',
    ),
    "forecasts are too early": Case(
        "KoordQueueForecastsOff",
        [(f"koord_queue_forecast_coverage_day{{{INSIGHT}}}", "0.9x9 0.7x79 0.8x20")],
        (60, 75, 95),
    ),
    "a max is lowered": Case(
        "KoordQueueQuotaAboveMax",
        [
            (f"dequeued_quota_usage_by_quota{{{QUOTA}}}", "4000x90"),
            (f"koord_queue_quota_max{{{QUOTA}}}", "4000x9 2000x20 4000x60"),
        ],
        (13, 20, 35),
        'quota="team", resource="cpu"',
    ),
    "a job has no pods": Case(
        "KoordQueueUnitWithoutPods",
        [(f"koord_queue_units_without_pods_seconds{{{SCHEDULER}}}", "0x9 0+60x9 0x30")],
        (13, 17, 25),
    ),
    "a step fails": Case(
        "KoordQueueErrors",
        [(f'koord_queue_loop_errors_total{{{SCHEDULER},thread="queue"}}', "1x9 1+1x3 4x60")],
        (9, 13, 40),
        'thread="queue"',
    ),
    "a job fails again and again": Case(
        "KoordQueueKeysFail",
        [(f'koord_queue_failing_keys{{{SCHEDULER},name="job"}}', "0x9 1x20 0x30")],
        (13, 20, 35),
        'name="job"',
    ),
}


@pytest.fixture(scope="module")
def promtool() -> Path:
    """The real promtool; skips without it, or fails in CI."""
    return require(require_prometheus, "promtool", HOW_TO_GET) / "promtool"


@pytest.fixture(scope="module")
def rule_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules that the chart installs, as a file for Prometheus."""
    path = tmp_path_factory.mktemp("rules") / "rules.yml"
    path.write_text(yaml.safe_dump(rules()), encoding="utf-8")
    return path


def run(promtool: Path, *arguments: str) -> str:
    """Return what promtool says; it must find nothing wrong."""
    done = subprocess.run(
        [promtool, *arguments],
        capture_output=True,
        text=True,
        timeout=PROMTOOL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def firing(case: Case, minute: int, count: int) -> dict[str, Any]:
    """Return promtool's test of how many alerts with the case's labels fire at a minute."""
    labels = ", ".join(filter(None, (f'alertname="{case.alert}"', case.labels)))
    return {
        "expr": f'count(ALERTS{{{labels}, alertstate="firing"}}) or vector(0)',
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": "{}", "value": count}],
    }


def write_test(
    folder: Path,
    rule_file: Path,
    series: Sequence[tuple[str, str]],
    expected: list[dict[str, Any]],
) -> Path:
    """Write a unit test for promtool."""
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "promql_expr_test": expected,
    }
    content = {"rule_files": [str(rule_file)], "evaluation_interval": "1m", "tests": [test]}
    file = folder / "test.yml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def test_promtool_finds_nothing_wrong_with_the_rules(promtool: Path, rule_file: Path) -> None:
    assert f"{len(alerts())} rules found" in run(
        promtool, "check", "rules", "--lint=all", "--lint-fatal", str(rule_file)
    )


def test_each_alert_has_a_case() -> None:
    assert {case.alert for case in CASES.values()} == alerts().keys()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_alert_fires_and_stops(
    promtool: Path, rule_file: Path, tmp_path: Path, case: Case
) -> None:
    before, during, after = case.minutes
    expected = [firing(case, before, 0), firing(case, during, 1), firing(case, after, 0)]
    file = write_test(tmp_path, rule_file, case.series, expected)
    run(promtool, "test", "rules", str(file))


def test_a_follower_raises_no_alert(promtool: Path, rule_file: Path, tmp_path: Path) -> None:
    """Nothing fires while one replica of each program leads."""
    series = [
        *THERE,
        runs(FOLLOWER, "scheduler"),
        (f"koord_queue_leader{{{FOLLOWER}}}", "0x90"),
        (f"koord_queue_units_without_pods_seconds{{{FOLLOWER}}}", "0x90"),
    ]
    quiet = {"expr": "count(ALERTS) or vector(0)", "eval_time": "60m"}
    expected = [{**quiet, "exp_samples": [{"labels": "{}", "value": 0}]}]
    file = write_test(tmp_path, rule_file, series, expected)
    run(promtool, "test", "rules", str(file))
