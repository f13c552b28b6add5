"""Jobs that wait for checks: all three programs, the example's, and the Job controller.

The test plays the autoscaler, and the users that have to approve something.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.cluster.kueue_objects import (
    CHECK,
    CHECK_CONTROLLER,
    activity,
    create,
    create_check_for_nodes,
    install_check_kinds,
    path_of,
)
from tests.cluster.played_autoscaler import (
    ATOMIC_SCALE_UP,
    CHECK_CAPACITY,
    NODE_POOL,
    QUEUED,
    PlayedAutoscaler,
)
from tests.cluster.program_metrics import counted
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import MERGE, UNITS, QueueWorld, let_the_second_of_the_release_pass
from tests.cluster.rbac_objects import RBAC, binding
from tests.controlplane.api_client import ApiError
from tests.object_states import condition_of
from tests.waiting import STILL_SECONDS, until

Json = dict[str, Any]

EXAMPLE: Final = "examples/opening_hours_check.py"
EXAMPLE_ACCOUNT: Final = "hours-account"
EXAMPLE_RULES: Final[list[Json]] = [
    {
        "apiGroups": ["scheduling.x-k8s.io"],
        "resources": ["queueunits"],
        "verbs": ["get", "list", "watch"],
    },
    {
        "apiGroups": ["scheduling.x-k8s.io"],
        "resources": ["queueunits/status"],
        "verbs": ["patch"],
    },
    {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["admissionchecks"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["admissionchecks/status"], "verbs": ["patch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]
"""The rights that a custom check needs by the docs of `serving`; without its Lease."""
HOURS: Final = "example.com/open-hours"

CONSUME: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"
POOL_LABEL: Final = "cloud.google.com/gke-nodepool"
POOL: Final = "flex-pool"
TIMEOUT: Final = "koord-queue/admission-check-timeout"
FAILURES: Final = "koord_queue_admission_check_failures_total"
PODS: Final = 2

CONFIGS: Final[dict[str, Json]] = {
    "capacity": {
        "provisioningClassName": CHECK_CAPACITY,
        "parameters": {"noRetry": "true"},
        "managedResources": ["cpu"],
    },
    "atomic": {
        "provisioningClassName": ATOMIC_SCALE_UP,
        "parameters": {"ValidUntilSeconds": "3600"},
    },
    "queued": {
        "provisioningClassName": QUEUED,
        "parameters": {"maxRunDurationSeconds": "604800"},
        "podSetUpdates": {
            "nodeSelector": [{"key": POOL_LABEL, "valueFromProvisioningClassDetail": NODE_POOL}]
        },
    },
    # Of a class, and the same for the rest: the first failure is final.
    "once": {
        "provisioningClassName": ATOMIC_SCALE_UP,
        "retryStrategy": {"backoffLimitCount": 0},
    },
}
"""Configs of provisioning checks; a check has the name of its config."""

RETRY: Final = {"backoffLimitCount": 3, "backoffBaseSeconds": 1, "backoffMaxSeconds": 5}


class Town(NamedTuple):
    """The programs and objects of these tests."""

    world: QueueWorld
    scheduler: ProgramProcess
    autoscaler: PlayedAutoscaler

    def request_of(self, job: str, *, after: Json | None = None) -> Json:
        """Return the only request for a Job, once it exists and is not the one before."""
        gone = after["metadata"]["uid"] if after else ""

        def look() -> list[Json]:
            found = self.autoscaler.requests_of(self.world.unit_of(job))
            return [] if any(each["metadata"]["uid"] == gone for each in found) else found

        (request,) = until(look)
        return request

    def check(self, job: str, name: str) -> Json:
        """Return the state of a check in a Job's unit, {} while the unit does not need it."""
        entries = self.world.unit_of(job).get("status", {}).get("admissionChecks", [])
        return next((each for each in entries if each["name"] == name), {})

    def says(self, job: str, name: str) -> str:
        """Return the state of a check in a Job's unit, as a word."""
        return str(self.check(job, name).get("state", ""))

    def answer(self, job: str, name: str, state: str) -> None:
        """Set the state of a check that has no program, as its controller would."""
        while True:
            unit = self.world.unit_of(job)
            checks = [
                {**each, "state": state} if each["name"] == name else each
                for each in unit["status"]["admissionChecks"]
            ]
            version = {"resourceVersion": unit["metadata"]["resourceVersion"]}
            path = f"{UNITS.format('default')}/{unit['metadata']['name']}/status"
            body = {"metadata": version, "status": {"admissionChecks": checks}}
            try:
                self.world.api.request("PATCH", path, body, content_type=MERGE)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
            else:
                return

    def failures(self, check: str, result: str) -> float:
        """Return how often a unit has been put back by a check."""
        return counted(self.scheduler, FAILURES, check=check, result=result)

    def wait_for(self, job: str, phase: str) -> None:
        """Wait until a Job's unit is in a phase."""
        until(lambda: self.world.phase_of_job(job) == phase)

    def wait_until_ready(self, job: str, check: str) -> None:
        """Wait until a check of a Job's unit is Ready."""
        until(lambda: self.says(job, check) == "Ready")

    def event_note(self, job: str, reason: str) -> str:
        """Return the message of the event with this reason on a Job's unit, once it exists."""
        unit = self.world.unit_of(job)["metadata"]["name"]
        return until(lambda: self.world.event_notes(unit).get(reason, ""))


@pytest.fixture(scope="module")
def town(controlplane_binaries: Path) -> Iterator[Town]:
    """Three programs; a check per config, and a check that no program implements."""
    with QueueWorld(controlplane_binaries, jobs=True, users={EXAMPLE_ACCOUNT: ()}) as world:
        install_check_kinds(world)
        for name, spec in CONFIGS.items():
            create_check_for_nodes(world, name, {"retryStrategy": RETRY, **spec})
        create(world, CHECK, "approval", {"controllerName": "example.com/approval"})
        world.api.request(
            "PATCH",
            "/api/v1/nodes/node-0",
            {"metadata": {"labels": {POOL_LABEL: POOL}}},
            content_type=MERGE,
        )
        world.start(CHECK_CONTROLLER, "--leader-elect=false")
        scheduler = world.start_scheduler("--leader-elect=false")
        world.start_controllers("--leader-elect=false")
        yield Town(world, scheduler, PlayedAutoscaler(world.api))


def create_hours(world: QueueWorld, name: str, hours: str) -> None:
    spec = {"controllerName": "example.com/opening-hours"}
    create(world, CHECK, name, spec, **{HOURS: hours})


def set_hours(world: QueueWorld, name: str, hours: str) -> None:
    body = {"metadata": {"annotations": {HOURS: hours}}}
    world.api.request("PATCH", path_of(CHECK, name), body, content_type=MERGE)


def submit(town: Town, name: str, *checks: str, room_for: int = 1, timeout: str = "") -> None:
    """Create a queue with checks and a quota for some Jobs, and the first of these."""
    world = town.world
    annotations = {TIMEOUT: timeout} if timeout else {}
    asked = [{"name": check} for check in checks]
    world.create_queue(name, "Priority", annotations, admissionChecks=asked)
    world.create_quota(name, cpu_max=PODS * room_for)
    until(lambda: condition_of(world.queue(name), "Ready"))
    submit_to(town, name, name)


def submit_to(town: Town, quota: str, name: str) -> None:
    town.world.create_job(name, quota, parallelism=PODS, completions=PODS, run_seconds=600)


def put_back(town: Town, job: str) -> Json:
    """Return a Job's unit once its quota is released; its backoff is ten seconds."""

    def look() -> Json:
        unit = town.world.unit_of(job)
        return unit if unit["status"]["phase"] == "TimeoutBackoff" else {}

    return until(look)


def start(town: Town, job: str) -> Json:
    """Provision nodes for a Job and wait until it runs; return its request."""
    request = town.request_of(job)
    town.autoscaler.take_up(request, **{NODE_POOL: POOL})
    town.autoscaler.provision(request)
    town.world.await_running(job, PODS)
    town.wait_for(job, "Running")
    return request


@pytest.mark.parametrize("check", ["capacity", "atomic", "queued"])
def test_a_job_starts_on_the_nodes_of_its_class(town: Town, check: str) -> None:
    job, world = f"starts-{check}", town.world
    class_name = CONFIGS[check]["provisioningClassName"]
    submit(town, job, check)
    request = town.request_of(job)
    assert (world.phase_of_job(job), world.is_suspended(job), world.pods(job)) == (
        "Reserved",
        True,
        [],
    )
    assert request["spec"]["provisioningClassName"] == class_name
    assert request["spec"]["parameters"] == CONFIGS[check]["parameters"]
    assert [each["count"] for each in request["spec"]["podSets"]] == [PODS]
    (template,) = town.autoscaler.templates_of(request)
    (container,) = template["template"]["spec"]["containers"]
    assert (container["image"], container["resources"]["requests"]) == ("none", {"cpu": "1"})

    town.autoscaler.take_up(request, **{NODE_POOL: POOL})
    if check == "atomic":
        town.autoscaler.find_nothing_yet(request)
        time.sleep(STILL_SECONDS)
    assert town.says(job, check) == "Pending"
    assert world.is_suspended(job)

    town.autoscaler.provision(request)
    world.await_running(job, PODS)
    town.wait_for(job, "Running")
    assert not world.is_suspended(job)
    for pod in world.running_pods(job):
        annotations = pod["metadata"]["annotations"]
        assert annotations[CONSUME] == request["metadata"]["name"]
        assert annotations[CLASS_NAME] == class_name
        if check == "queued":
            assert pod["spec"]["nodeSelector"] == {POOL_LABEL: POOL}
            assert pod["spec"]["nodeName"] == "node-0"


def test_a_running_job_survives_an_expired_booking_but_not_revoked_capacity(town: Town) -> None:
    """The nodes of three running Jobs: two bookings expire, then the third's nodes are taken."""
    world = town.world
    stays, goes = ("runs-on-capacity", "runs-on-atomic"), "runs-on-queued"
    for job in (*stays, goes):
        submit(town, job, job.removeprefix("runs-on-"))
    requests = {job: start(town, job) for job in (*stays, goes)}
    submit_to(town, goes, "next")
    before = {job: sorted(pod["metadata"]["uid"] for pod in world.pods(job)) for job in stays}
    revoked = town.failures("queued", "retry")
    let_the_second_of_the_release_pass()
    for job in stays:
        town.autoscaler.expire(requests[job])
    town.autoscaler.revoke(requests[goes])
    unit = put_back(town, goes)
    evicted = condition_of(unit, "Evicted")
    assert evicted["reason"] == "AdmissionCheck"
    assert "CapacityRevoked" in evicted["message"]
    assert world.is_suspended(goes)
    assert not world.living_pods(goes)
    assert town.failures("queued", "retry") == revoked + 1
    # Its quota is free, and its request goes.
    town.wait_for("next", "Reserved")
    until(lambda: not town.autoscaler.requests_of(unit))
    for job in stays:
        assert (world.phase_of_job(job), world.is_suspended(job)) == ("Running", False)
        assert sorted(pod["metadata"]["uid"] for pod in world.running_pods(job)) == before[job]
        assert town.says(job, job.removeprefix("runs-on-")) == "Ready"


def test_nodes_that_are_lost_before_the_start_are_requested_again(town: Town) -> None:
    """Each waits for an approval as well, and meanwhile loses its nodes."""
    world, autoscaler = town.world, town.autoscaler
    lost = {"lost-capacity": "Retry", "lost-queued": "Retry", "lost-once": "Rejected"}
    for job in lost:
        submit(town, job, job.removeprefix("lost-"), "approval")
    first = {job: town.request_of(job) for job in lost}
    submit_to(town, "lost-capacity", "next-in-line")
    for job, request in first.items():
        autoscaler.take_up(request, **{NODE_POOL: POOL})
        autoscaler.provision(request)
        town.wait_until_ready(job, job.removeprefix("lost-"))
        assert (world.phase_of_job(job), world.is_suspended(job)) == ("Reserved", True)
    autoscaler.expire(first["lost-capacity"])
    autoscaler.revoke(first["lost-queued"])
    autoscaler.expire(first["lost-once"])
    for job, state in lost.items():
        unit, check = put_back(town, job), job.removeprefix("lost-")
        assert town.says(job, check) == state
        evicted = condition_of(unit, "Evicted")["message"]
        assert evicted.startswith(f"admission check failed: {check} says {state}")
        assert ("CapacityRevoked" if job == "lost-queued" else "BookingExpired") in evicted
        assert unit["status"]["requeueState"]["count"] == 1
    assert town.failures("once", "rejected") == 1
    # Its quota is free meanwhile.
    town.wait_for("next-in-line", "Reserved")
    world.delete_job("next-in-line")
    # The backoff is over: requeued, reserved, and requested again.
    again = {job: town.request_of(job, after=before) for job, before in first.items()}
    for job in lost:
        assert (world.phase_of_job(job), world.is_suspended(job)) == ("Reserved", True)
    request = again["lost-capacity"]
    autoscaler.take_up(request)
    autoscaler.provision(request)
    town.wait_until_ready("lost-capacity", "capacity")
    town.answer("lost-capacity", "approval", "Ready")
    pods = until(lambda: world.running_pods("lost-capacity"))
    assert pods[0]["metadata"]["annotations"][CONSUME] == request["metadata"]["name"]


def test_a_request_that_fails_puts_the_unit_back(town: Town) -> None:
    for job in ("fails-capacity", "fails-atomic"):
        submit(town, job, job.removeprefix("fails-"))
        request = town.request_of(job)
        town.autoscaler.take_up(request)
        town.autoscaler.give_up(request)
    for job, words in (
        ("fails-capacity", "could not find requested capacity"),
        ("fails-atomic", "is expired"),
    ):
        assert words in condition_of(put_back(town, job), "Evicted")["message"]
        assert town.world.is_suspended(job)


def test_a_check_that_never_answers_is_named_when_its_time_is_over(town: Town) -> None:
    """One unit has a second for one check; another for two, one of which is ready before."""
    world = town.world
    submit(town, "silent", "approval", timeout="1s")
    submit(town, "half-silent", "capacity", "approval")
    request = town.request_of("half-silent")
    town.autoscaler.take_up(request)
    town.autoscaler.provision(request)
    town.wait_until_ready("half-silent", "capacity")
    time.sleep(STILL_SECONDS)  # which is a second
    assert world.phase_of_job("half-silent") == "Reserved", "the setting is a day"
    shorter = {"metadata": {"annotations": {TIMEOUT: "1s"}}}
    world.patch_queue("half-silent", shorter)
    got = "admission checks not Ready within 1 s of the reservation: approval"
    for job in ("silent", "half-silent"):
        unit = put_back(town, job)
        evicted = condition_of(unit, "Evicted")
        assert (evicted["status"], evicted["message"]) == ("True", got)
        assert unit["status"].get("admissions", []) == []
        assert world.is_suspended(job)
        assert town.event_note(job, "AdmissionCheckTimeout") == got
    assert town.failures("approval", "timeout") == 2
    assert town.failures("capacity", "timeout") == 0


def event_of(world: QueueWorld, check: str, reason: str) -> str:
    """Return the message of the example's event with this reason on a check, "" for none."""
    events = world.api.request("GET", "/apis/events.k8s.io/v1/events")["items"]
    return next(
        (
            str(each["note"])
            for each in events
            if (each["regarding"]["name"], each["reason"]) == (check, reason)
            and each["reportingController"] == "example.com/opening-hours"
        ),
        "",
    )


@pytest.fixture
def example(town: Town) -> Iterator[ProgramProcess]:
    """The example as a program, with exactly the rights that its docs name."""
    world, path = town.world, f"/apis/{RBAC}/v1"
    role = {"metadata": {"name": EXAMPLE_ACCOUNT}, "rules": EXAMPLE_RULES}
    world.api.request("POST", f"{path}/clusterroles", role)
    bound = binding(EXAMPLE_ACCOUNT, EXAMPLE_ACCOUNT)
    world.api.request("POST", f"{path}/clusterrolebindings", bound)
    program = world.start(EXAMPLE, "--leader-elect=false", user=EXAMPLE_ACCOUNT)
    yield program
    assert counted(program, "rest_client_requests_total", code="200") > 0
    assert counted(program, "rest_client_requests_total", code="403") == 0
    assert program.stop() == 0


@pytest.mark.usefixtures("example")
def test_the_example_of_a_check_works_as_a_program(town: Town) -> None:
    """One check is open all day, another opens in two hours, a third has no hours."""
    world = town.world
    later = (datetime.now(UTC).hour + 2) % 24
    create_hours(world, "all-day", "0-24")
    create_hours(world, "later", f"{later}-{(later + 1) % 24}")
    create_hours(world, "never", "always")
    for check in ("all-day", "later"):
        assert activity(world, check)["status"] == "True"
    never = activity(world, "never")
    assert (never["status"], never["reason"]) == ("False", "BadHours")
    assert never["message"].startswith("example.com/open-hours must be two hours")
    until(lambda: event_of(world, "never", "BadHours") == never["message"])

    for check in ("all-day", "later", "never"):
        submit(town, f"at-{check}", check)
    town.wait_for("at-all-day", "Running")
    assert town.says("at-all-day", "all-day") == "Ready"

    until(lambda: town.check("at-later", "later").get("message"))
    assert town.says("at-later", "later") == "Pending"
    assert town.check("at-later", "later")["message"] == f"opens at {later} h"
    assert (world.phase_of_job("at-later"), world.is_suspended("at-later")) == ("Reserved", True)

    held = until(lambda: condition_of(world.unit_of("at-never"), "QuotaReserved"))
    assert (held["status"], held["reason"]) == ("False", "AdmissionCheckInactive")
    assert never["message"] in held["message"]
    assert world.is_suspended("at-never")

    for check in ("later", "never"):
        set_hours(world, check, "0-24")
    for job in ("at-later", "at-never"):
        town.wait_for(job, "Running")
    assert activity(world, "never")["status"] == "True"
