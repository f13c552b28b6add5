"""Dashboards and alerts with a real Prometheus, which scrapes the real programs.

Each query of each dashboard is run, and faults are made until an alert fires, and fixed until it
stops. Times are shortened by values of the chart, the expressions are the chart's. What the
scheduler never does by itself is planted in a second replica (`faulty_scheduler`).
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from queue_insight.forecast.calibration import FEW
from tests.charts.monitoring_files import alerts, dashboards, filled, queries, rules
from tests.cluster.kueue_objects import (
    CHECK,
    CHECK_CONTROLLER,
    create,
    install_check_kinds,
    path_of,
)
from tests.cluster.program_process import CONTROLLERS, SCHEDULER, ProgramProcess
from tests.cluster.prometheus_process import PrometheusProcess
from tests.cluster.queue_world import (
    JOBS,
    MERGE,
    OWN_TIMES_SECONDS,
    QUEUE_NAMESPACE,
    QUOTAS,
    UNITS,
    QueueWorld,
    unit_view,
)
from tests.conftest import CLUSTER_TEST_SECONDS
from tests.controlplane.api_client import ApiError
from tests.controlplane.binaries import BUILD_SECONDS
from tests.controlplane.control_plane import free_port
from tests.controlplane.prometheus import HOW_TO_GET, require_prometheus
from tests.required_tools import require
from tests.waiting import until, within

pytestmark = pytest.mark.timeout(CLUSTER_TEST_SECONDS + BUILD_SECONDS)  # it is built once

Json = dict[str, Any]

FAULTY: Final = "faulty"
WITHOUT_ELECTION: Final = "--leader-elect=false"
"""On a busy machine a program loses its Lease now and then, and nothing here starts it again."""
WITH_ELECTION: Final = "--leader-elect=true"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{QUEUE_NAMESPACE}/leases"
SCHEDULER_LEASE: Final = f"{LEASES}/koord-queue-scheduler"
PROGRAMS: Final = ("scheduler", "controllers", "insight", "admission-checks", FAULTY)
LONG: Final = 600
FORECASTS: Final = ("--forecast-interval=5", "--forecast-least-runs=0")
MANY: Final = 80
SLOW: Final = ("--kube-api-qps=2", "--kube-api-burst=1")

SHORT: Final[dict[str, Json]] = {
    "KoordQueueFittingUnitWaits": {"threshold": 0},
    "KoordQueueWritesRefused": {"threshold": 0, "window": "20s"},
    "KoordQueueCacheBehind": {"threshold": 15},
    "KoordQueueBooksDrifted": {"window": "20s"},
    "KoordQueueErrors": {"window": "20s"},
    "KoordQueueChecksSilent": {"threshold": 0},
    "KoordQueueApiThrottles": {"window": "10s"},
    "KoordQueueUnitWithoutPods": {"threshold": 3},
}
"""Settings of the alerts that are waited for, besides that all fire at once."""

VALUES: Final = {
    "monitoring": {
        "rules": {
            "enabled": True,
            "alerts": {name: {"for": "0s", **SHORT.get(name, {})} for name in alerts()},
        }
    }
}

MAY_BE_EMPTY: Final = {
    "Above their max",
    "Caches that are not complete, and objects that cannot be read",
    "Coverage of forecasts",
    "Evicted units by reason",
    "Evictions for its units",
    "Units that lost their reservation by a check",
    "Verdicts of the check controllers",
    "Errors of threads and handlers",
    "Watches that ended",
}
"""Panels about what did not happen here."""


class Watched(NamedTuple):
    """A world with all four programs, and the Prometheus that scrapes them."""

    world: QueueWorld
    scheduler: ProgramProcess
    controllers: ProgramProcess
    insight: ProgramProcess
    prometheus: PrometheusProcess
    ports: dict[str, int]

    def await_firing(self, alert: str, **labels: str) -> None:
        """Wait until an alert fires; its texts have all that they name."""
        found = until(lambda: self.prometheus.firing(alert, **labels), OWN_TIMES_SECONDS)
        said = " ".join(found["annotations"].values())
        assert "<" not in said, said

    def await_quiet(self, alert: str, **labels: str) -> None:
        """Wait until it does not fire any more."""
        until(lambda: not self.prometheus.firing(alert, **labels), OWN_TIMES_SECONDS)


@pytest.fixture(scope="module")
def prometheus_program() -> Path:
    """The real Prometheus; skips without it, or fails in CI."""
    return require(require_prometheus, "prometheus", HOW_TO_GET) / "prometheus"


@pytest.fixture(scope="module")
def watched(controlplane_binaries: Path, prometheus_program: Path) -> Iterator[Watched]:
    ports = {job: free_port() for job in PROGRAMS}
    metrics = {job: f"--metrics-address=127.0.0.1:{port}" for job, port in ports.items()}
    with (
        tempfile.TemporaryDirectory() as folder,
        QueueWorld(controlplane_binaries, jobs=True) as world,
    ):
        install_check_kinds(world)
        sockets = f"--socket-dir={folder}", f"--record-dir={folder}"
        insight = world.start_insight(*sockets, metrics["insight"], *FORECASTS)
        scheduler = world.start(
            SCHEDULER,
            f"--insight-socket-dir={folder}",
            "--metrics-queue-labels=team",
            WITHOUT_ELECTION,
            metrics["scheduler"],
        )
        controllers = world.start(
            CONTROLLERS, "--enabled-extensions=job", WITHOUT_ELECTION, metrics["controllers"]
        )
        world.start(CHECK_CONTROLLER, WITHOUT_ELECTION, metrics["admission-checks"])
        groups = rules(VALUES)
        prometheus = PrometheusProcess(
            prometheus_program, world.folder / "prometheus", groups, ports
        )
        try:
            prometheus.start()
            yield Watched(world, scheduler, controllers, insight, prometheus, ports)
        finally:
            prometheus.stop()


def restart(program: ProgramProcess, *flags: str) -> None:
    """Start a program again, whether or not it has ended, with these flags besides."""
    program.stop()
    program.start(*flags)
    program.wait_until_ready()


def remove(world: QueueWorld, quota: str, units: int) -> None:
    """Delete a large quota and its units: next to its min, that of the others would be nothing."""
    for number in range(units):
        world.api.request("DELETE", f"{UNITS.format('default')}/{quota}-{number}")
    world.api.request("DELETE", f"{QUOTAS.format('default')}/{quota}")


def deny(world: QueueWorld, name: str, resource: Json, expression: str) -> None:
    """Have the API server refuse what breaks an expression."""
    rule = {"apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], **resource}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": "not now"}],
    }
    meta = {"name": name}
    world.api.request("POST", f"{POLICIES}ies", {"metadata": meta, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    world.api.request("POST", f"{POLICIES}ybindings", {"metadata": meta, "spec": binding})


def allow(world: QueueWorld, name: str) -> None:
    """Take it back."""
    world.api.request("DELETE", f"{POLICIES}ybindings/{name}")
    world.api.request("DELETE", f"{POLICIES}ies/{name}")


# --- an alert that needs a world without other units that wait -----------------------------------


def test_forecasts_are_off(watched: Watched) -> None:
    """All wait for a unit that declares one second and does not end, until they are withdrawn."""
    world = watched.world
    world.create_quota("late", cpu_max=FEW)
    world.create_unit("late-0", "late", cpu=FEW, maximumExecutionTimeSeconds=1)
    until(lambda: world.phase("late-0") == "Dequeued")
    for number in range(1, FEW + 1):
        world.create_unit(f"late-{number}", "late", cpu=1, maximumExecutionTimeSeconds=1)
    # Forecasts are followed up anew, beginning with one that knows all of the units.
    restart(watched.insight)
    numbers = count()

    def look() -> Json:
        """Without a change in the scheduler, the next forecast would be made in ten minutes."""
        annotations = {"touched": str(next(numbers))}
        world.patch_unit("late-0", {"metadata": {"annotations": annotations}})
        return watched.prometheus.firing("KoordQueueForecastsOff")

    until(look, OWN_TIMES_SECONDS)
    watched.await_firing("KoordQueueForecastsOff")
    remove(world, "late", FEW + 1)
    watched.await_quiet("KoordQueueForecastsOff")


# --- queries ------------------------------------------------------------------------------------


def test_every_query_of_every_dashboard_is_answered(watched: Watched) -> None:
    """Some jobs have ended, one runs, one is refused, and one waits for a check."""
    world = watched.world
    world.create_quota("team", cpu_max=2)
    until(lambda: world.has_queue("team"))
    world.patch_queue("team", {"metadata": {"labels": {"team": "research"}}})
    for name in ("ends", "also-ends"):
        world.create_job(name, "team", run_seconds=2)
    until(lambda: all(world.job(name)["status"].get("succeeded") for name in ("ends", "also-ends")))
    world.create_job("runs", "team", run_seconds=LONG)
    until(lambda: world.running_pods("runs"))
    world.create_job("waits", "team", cpu="2", run_seconds=LONG)
    wait_for_check(world, "queried")
    asked = [(name, query) for name, board in dashboards().items() for query in queries(board)]
    assert len(asked) > 60

    def empty() -> list[str]:
        """Return the panels that show nothing; a panel may have several queries."""
        shown: dict[tuple[str, int, str], bool] = {}
        for name, query in asked:
            found = watched.prometheus.query(filled(query.expression, resource="cpu"))
            panel = (name, query.number, query.panel)
            shown[panel] = shown.get(panel, False) or bool(found)
        return [f"{name}: {title}" for (name, _, title), has in shown.items() if not has]

    def missing() -> list[str]:
        return [panel for panel in empty() if panel.partition(": ")[2] not in MAY_BE_EMPTY]

    within(OWN_TIMES_SECONDS, lambda: not missing())
    assert missing() == []


def test_every_rule_is_evaluated(watched: Watched) -> None:
    def state() -> dict[str, str]:
        return {rule["name"]: rule["health"] for rule in watched.prometheus.rules()}

    until(lambda: state() == dict.fromkeys(alerts(), "ok"))
    assert watched.prometheus.log() == ""


# --- alerts -------------------------------------------------------------------------------------


PLAYED_ALONE: Final = frozenset({"KoordQueueKeysFail"})
"""Alerts that only `tests/charts/test_monitoring_rules.py` plays: no object is known at which a
program fails again and again."""


def test_every_alert_is_made_to_fire_here() -> None:
    named = re.findall(r'await_firing\("(\w+)"', Path(__file__).read_text(encoding="utf-8"))
    assert {*named, *PLAYED_ALONE} == set(alerts())


def hold_lease(world: QueueWorld) -> None:
    """Have another client hold the scheduler's Lease."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    held = {"holderIdentity": "somebody-else", "leaseDurationSeconds": 3600, "renewTime": now}
    body = {"metadata": {"name": "koord-queue-scheduler"}, "spec": held}
    world.api.request("POST", LEASES, body)


def test_nobody_leads(watched: Watched) -> None:
    world, leads = watched.world, {"component": "koord-queue-scheduler"}
    watched.await_quiet("KoordQueueNobodyLeads", **leads)
    hold_lease(world)
    restart(watched.scheduler, WITH_ELECTION)
    watched.await_firing("KoordQueueNobodyLeads", **leads)
    world.api.request("DELETE", SCHEDULER_LEASE)
    watched.await_quiet("KoordQueueNobodyLeads", **leads)
    restart(watched.scheduler)
    world.api.request("DELETE", SCHEDULER_LEASE)


def test_a_program_is_gone(watched: Watched) -> None:
    gone = {"component": "koord-queue-controllers"}
    watched.await_quiet("KoordQueueNobodyLeads", **gone)
    watched.controllers.stop()
    watched.await_firing("KoordQueueNobodyLeads", **gone)
    restart(watched.controllers)
    watched.await_quiet("KoordQueueNobodyLeads", **gone)


def test_writes_are_refused(watched: Watched) -> None:
    """A policy denies admissions of some units."""
    world = watched.world
    world.create_quota("denied", cpu_max=1000)
    units = {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["queueunits/status"]}
    is_other = "!object.metadata.name.startsWith('denied-') || object.status.phase != 'Dequeued'"
    refused = {"component": "koord-queue-scheduler", "reason": "invalid"}
    watched.await_quiet("KoordQueueWritesRefused", **refused)
    deny(world, "no-admissions", units, is_other)
    numbers = count()

    def try_another() -> Json:
        """Until the policy is in effect, which takes a moment, units are admitted."""
        world.create_unit(f"denied-{next(numbers)}", "denied", cpu=1)
        return watched.prometheus.firing("KoordQueueWritesRefused", **refused)

    until(try_another, OWN_TIMES_SECONDS)
    watched.await_firing("KoordQueueWritesRefused", **refused)
    allow(world, "no-admissions")
    watched.await_quiet("KoordQueueWritesRefused", **refused)
    remove(world, "denied", next(numbers))


def test_a_quota_is_above_its_max(watched: Watched) -> None:
    world = watched.world
    world.create_quota("shrinks", cpu_max=2)
    world.create_job("keeps", "shrinks", cpu="2", run_seconds=LONG)
    until(lambda: world.running_pods("keeps"))
    world.resize_quota("shrinks", 1)
    watched.await_firing("KoordQueueQuotaAboveMax", quota="shrinks", resource="cpu")
    world.resize_quota("shrinks", 2)
    watched.await_quiet("KoordQueueQuotaAboveMax", quota="shrinks")


def wait_for_check(world: QueueWorld, name: str) -> None:
    """Have a unit wait for a check that nobody answers."""
    world.create_quota(name, cpu_max=1)
    until(lambda: world.has_queue(name))
    create(world, CHECK, name, {"controllerName": "example.com/nobody"})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    active["lastTransitionTime"] = "2026-11-01T00:00:00Z"
    status = {"status": {"conditions": [active]}}
    world.api.request("PATCH", f"{path_of(CHECK, name)}/status", status, content_type=MERGE)
    world.patch_queue(name, {"spec": {"admissionChecks": [{"name": name}]}})
    world.create_unit(f"{name}-unit", name, cpu=1)
    until(lambda: world.phase(f"{name}-unit") == "Reserved")


def test_a_check_is_silent(watched: Watched) -> None:
    world = watched.world
    wait_for_check(world, "silent")
    watched.await_firing("KoordQueueChecksSilent", check="silent")
    answer = {"name": "silent", "state": "Ready", "message": "as you like"}
    answer["lastTransitionTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.patch_unit("silent-unit", {"status": {"admissionChecks": [answer]}})
    watched.await_quiet("KoordQueueChecksSilent", check="silent")
    world.finish_unit("silent-unit")


def refuses_pod(world: QueueWorld, spec: Json) -> bool:
    """Return whether a pod of this kind is denied: a policy takes a moment to be in effect."""
    container = {"name": "main", "image": "none"}
    body = {"metadata": {"name": "podless"}, "spec": {**spec, "containers": [container]}}
    try:
        world.api.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", body)
    except ApiError as error:
        return error.status == HTTPStatus.UNPROCESSABLE_ENTITY
    return False


def test_a_released_job_has_no_pods(watched: Watched) -> None:
    """A policy denies its pods."""
    world = watched.world
    deny(
        world,
        "no-pods",
        {"apiGroups": [""], "resources": ["pods"]},
        "object.spec.?hostname.orValue('') != 'podless'",
    )
    world.create_quota("podless", cpu_max=1)
    watched.await_quiet("KoordQueueUnitWithoutPods")
    refused = {"hostname": "podless"}
    until(partial(refuses_pod, world, refused))
    world.create_job("podless", "podless", pod_spec=refused, run_seconds=LONG)
    watched.await_firing("KoordQueueUnitWithoutPods")
    allow(world, "no-pods")
    world.api.request(
        "DELETE", f"{JOBS.format('default')}/podless", {"propagationPolicy": "Background"}
    )
    watched.await_quiet("KoordQueueUnitWithoutPods")


def test_the_scheduler_is_too_slow_for_units_that_fit(watched: Watched) -> None:
    """It may send two requests a second, so that units wait, although their quota is free."""
    world, scheduler = watched.world, watched.scheduler
    world.create_quota("many", cpu_max=1000)
    restart(scheduler, *SLOW)
    for number in range(MANY):
        world.create_unit(f"many-{number}", "many", cpu=1)
    watched.await_firing("KoordQueueApiThrottles", component="koord-queue-scheduler")
    watched.await_firing("KoordQueueFittingUnitWaits")
    restart(scheduler)
    watched.await_quiet("KoordQueueFittingUnitWaits")
    watched.await_quiet("KoordQueueApiThrottles", component="koord-queue-scheduler")
    remove(world, "many", MANY)


def test_a_cache_is_behind(watched: Watched) -> None:
    """The API server stops; before and afterwards there is always news of a unit."""
    world, numbers = watched.world, count()
    world.create_quota("touched", cpu_max=1)
    world.create_unit("touched", "touched", cpu=1)
    behind = {"component": "koord-queue-controllers", "resource": "queueunits"}

    def is_current() -> bool:
        world.patch_unit("touched", {"metadata": {"annotations": {"touched": str(next(numbers))}}})
        return not watched.prometheus.firing("KoordQueueCacheBehind", **behind)

    until(is_current, OWN_TIMES_SECONDS)
    api_server = world.plane.pids["kube-apiserver"]
    os.kill(api_server, signal.SIGSTOP)
    try:
        watched.await_firing("KoordQueueCacheBehind", **behind)
    finally:
        os.kill(api_server, signal.SIGCONT)
    until(is_current, OWN_TIMES_SECONDS)


def test_the_state_of_the_scheduler_drifts_and_a_step_fails(watched: Watched) -> None:
    world = watched.world
    metrics = f"--metrics-address=127.0.0.1:{watched.ports[FAULTY]}"
    hold_lease(world)  # one of the two replicas decides
    arguments = (metrics, "--debug-address=127.0.0.1:0")
    faulty = world.start("tests/cluster/faulty_scheduler.py", *arguments)
    world.create_quota("missed", cpu_max=1)
    world.create_unit("missed", "missed", cpu=1)
    until(lambda: world.phase("missed") == "Dequeued")
    until(lambda: unit_view(faulty, "missed").get("schedulerState") == "admitted")
    watched.await_quiet("KoordQueueBooksDrifted")
    world.patch_unit("missed", {"metadata": {"annotations": {"missed": "yes"}}})
    watched.await_firing("KoordQueueBooksDrifted", kind="outdated_unit")
    watched.await_quiet("KoordQueueBooksDrifted")
    assert not watched.prometheus.firing("KoordQueueErrors")
    os.kill(faulty.pid, signal.SIGUSR2)
    watched.await_firing("KoordQueueErrors", thread="self-audit")
    watched.await_quiet("KoordQueueErrors")
    faulty.stop()
