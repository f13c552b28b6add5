"""Between two writes of the controllers, and across restarts, on a real API server.

A unit is created, and its adoption is proved by a second write. A policy of the API server refuses
that second write here, which has the effect of a crash between the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import (
    MERGE,
    QUOTA_LABEL,
    UNITS,
    QueueWorld,
    label_pods,
    quota_view,
    refusal_of,
)
from tests.controlplane.api_client import ApiError
from tests.object_states import is_true
from tests.waiting import stays, until

Json = Any

ACCOUNT: Final = "jobs-account"
ONE_CPU: Final = {"cpu": "1"}
LONG: Final = "600"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
WINDOW: Final = "adoption-window"


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    users: dict[str, Sequence[str]] = {ACCOUNT: ["system:masters"]}
    with QueueWorld(controlplane_binaries, jobs=True, users=users) as running:
        yield running


@pytest.fixture(scope="module")
def scheduler(world: QueueWorld) -> ProgramProcess:
    return world.start_scheduler()


def keep_statuses_away(world: QueueWorld) -> None:
    """Refuse the controllers every write of a unit's status from now on."""
    rule = {
        "apiGroups": ["scheduling.x-k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["queueunits/status"],
    }
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": WINDOW},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": f"request.userInfo.username != '{ACCOUNT}'"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": WINDOW},
        "spec": {"policyName": WINDOW, "validationActions": ["Deny"]},
    }
    world.api.request("POST", POLICIES, policy)
    world.api.request("POST", BINDINGS, binding)
    world.create_unit("probe", "nobody", cpu=1)
    account = world.plane.client_for(ACCOUNT)
    path = f"{UNITS.format('default')}/probe/status"

    def is_refused() -> bool:
        try:
            account.request("PATCH", path, {"status": {"message": "probe"}}, content_type=MERGE)
        except ApiError as error:
            return "denied" in str(error)
        return False

    until(is_refused)


def let_statuses_through(world: QueueWorld) -> None:
    world.api.request("DELETE", f"{BINDINGS}/{WINDOW}")
    world.api.request("DELETE", f"{POLICIES}/{WINDOW}")


def run_unmanaged(world: QueueWorld, name: str) -> None:
    """Start a job of one cpu that no queue manages."""
    world.create_job(name, "", run_seconds=LONG, suspend=False)
    until(lambda: world.running_pods(name))


def label(world: QueueWorld, job: str, quota: str) -> None:
    world.patch_job(job, {"metadata": {"labels": {QUOTA_LABEL: quota}}})


def test_until_an_adoption_is_proved_its_pods_are_charged_once_and_nothing_starts_on_top(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """Controllers that restart in between find the unit without the proof, and write it."""
    world.create_quota("window", cpu_max=1)
    run_unmanaged(world, "window")
    keep_statuses_away(world)
    controllers = world.start_controllers(user=ACCOUNT)
    try:
        label(world, "window", "window")
        until(lambda: world.unit_of("window"))
        controllers.stop()
        assert not is_true(world.unit_of("window"), "Adopted")
        until(lambda: quota_view(scheduler, "window").get("used") == ONE_CPU)
        world.create_unit("window-rival", "window", cpu=1)
        until(lambda: refusal_of(scheduler, "window-rival"))
        stays(lambda: world.phase("window-rival") == "Enqueued")
        assert not world.is_suspended("window")
    finally:
        let_statuses_through(world)
    again = world.start_controllers(user=ACCOUNT)
    try:
        until(lambda: is_true(world.unit_of("window"), "Adopted"))
        until(lambda: world.phase_of_job("window") == "Running")
        assert quota_view(scheduler, "window")["used"] == ONE_CPU
        assert world.phase("window-rival") == "Enqueued"
        assert not world.is_suspended("window")
    finally:
        again.stop()


def test_a_job_that_may_not_use_the_quota_is_warned_and_runs_on(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    """With the controllers' flag: no unit is created, and its pods are charged to their quota."""
    world.create_quota("not-its-own", cpu_max=9)
    world.create_quota("of-its-pods", cpu_max=9)
    namespace = {"metadata": {"name": "strange"}}
    world.api.request("POST", "/api/v1/namespaces", namespace)
    where: dict[str, Any] = {"namespace": "strange", "parallelism": 2, "completions": 2}
    world.create_job("strange", "", run_seconds=LONG, **where, suspend=False)
    path = "/apis/batch/v1/namespaces/strange/jobs/strange"
    until(lambda: world.api.request("GET", path)["status"].get("active") == 2)
    pods = label_pods(world, "strange", "strange", "of-its-pods")
    controllers = world.start_controllers("--quota-namespaces=listed")
    try:
        body = {"metadata": {"labels": {QUOTA_LABEL: "not-its-own"}}}
        world.api.request("PATCH", path, body, content_type=MERGE)
        until(lambda: "NotAdopted" in reasons(world, "strange"))
        assert not world.api.request("GET", UNITS.format("strange"))["items"]
        assert not world.api.request("GET", path)["spec"].get("suspend")
        until(lambda: quota_view(scheduler, "of-its-pods").get("used") == {"cpu": "2"})
        ended = {"status": {"phase": "Succeeded"}}
        world.api.request("PATCH", f"{pods[0]}/status", ended, content_type=MERGE)
        until(lambda: quota_view(scheduler, "of-its-pods")["used"] == ONE_CPU)
        assert quota_view(scheduler, "not-its-own")["used"] == {}
    finally:
        controllers.stop()


def reasons(world: QueueWorld, namespace: str) -> set[str]:
    path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    return {each["reason"] for each in world.api.request("GET", path)["items"]}


def test_usage_stays_where_it_was_admitted_for_a_later_scheduler(
    world: QueueWorld, scheduler: ProgramProcess
) -> None:
    world.create_quota("moved-from", cpu_max=1)
    world.create_quota("moved-to", cpu_max=1)
    world.create_unit("moved", "moved-from", cpu=1)
    until(lambda: world.phase("moved") == "Dequeued")
    scheduler.stop()
    world.patch_unit("moved", {"metadata": {"labels": {QUOTA_LABEL: "moved-to"}}})
    later = world.start_scheduler()
    until(lambda: quota_view(later, "moved-from").get("used") == ONE_CPU)
    assert quota_view(later, "moved-to").get("used", {}).get("cpu", "0") == "0"
    world.create_unit("moved-rival", "moved-to", cpu=1)
    until(lambda: world.phase("moved-rival") == "Dequeued")
