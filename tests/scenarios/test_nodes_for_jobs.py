"""A job whose queue requests nodes; with all three programs, and the test as the autoscaler."""

from __future__ import annotations

from typing import Any

import pytest

from queue_admission_checks.provisioning_judge import ProvisioningJudge
from shared_api.admission_check_kit.check_controller import CheckController
from shared_api.leader_election import SoleLeader
from shared_api.timestamps import parse_time
from tests.queue_admission_checks.autoscaler import Autoscaler
from tests.queue_admission_checks.provisioning_world import (
    CLASS,
    CONSUME,
    CONTROLLER,
    KINDS,
    REFERENCE,
)
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE
from tests.sample_jobs import crd
from tests.scenarios.town import Town
from tests.stepped_host import SteppedHost, exhaust

pytestmark = pytest.mark.scenario

Json = dict[str, Any]
KUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta2"}


class GrowingTown:
    """A town with the third program and an autoscaler; its queue requests nodes."""

    def __init__(self, town: Town) -> None:
        self.town = town
        direct = town.scheduling.direct
        for kind in KINDS:
            direct.create(crd(kind))
        retry = {"backoffLimitCount": 1, "backoffBaseSeconds": 40}
        spec: Json = {"provisioningClassName": CLASS, "retryStrategy": retry}
        config = {"kind": "ProvisioningRequestConfig", "metadata": {"name": "c"}, "spec": spec}
        direct.create({**KUEUE, **config})
        spec = {"controllerName": CONTROLLER, "parameters": REFERENCE}
        direct.create({**KUEUE, "kind": "AdmissionCheck", "metadata": {"name": "n"}, "spec": spec})
        checks = {"spec": {"admissionChecks": [{"name": "n"}]}}
        direct.patch("queues", "gold", checks, namespace=QUEUE_NAMESPACE)
        self.autoscaler = Autoscaler(town.jobs)
        self._start()
        town.create_job()
        self.pass_time(2.0)

    def _start(self) -> None:
        scheduling = self.town.scheduling
        host = SteppedHost(scheduling.server, scheduling.clock, SoleLeader("test"))
        judge = ProvisioningJudge(CONTROLLER)
        self.checks = CheckController(host, CONTROLLER, judge, informer_wait_seconds=0.0)

    def pass_time(self, seconds: float) -> None:
        """Let all three programs work for this long."""
        until = self.town.scheduling.clock.monotonic() + seconds
        while self.town.scheduling.clock.monotonic() < until:
            for step in self.checks.steps():
                exhaust(step)
            self.town.pass_time(0.2)

    def unit(self) -> Json:
        return self.town.jobs.get_unit()

    def phase(self) -> str:
        return self.town.jobs.phase()

    def made(self) -> int:
        kinds = ("provisioningrequests", "podtemplates")
        return sum(len(self.town.scheduling.direct.list(kind)) for kind in kinds)

    def run_job(self) -> None:
        """Provide the nodes, and let the job's pods run there."""
        self.autoscaler.provision()
        self.pass_time(2.0)
        assert (self.phase(), self.town.jobs.is_suspended()) == ("Dequeued", False)
        self.town.jobs.run_pods()
        self.pass_time(2.0)
        assert self.phase() == "Running"

    def put_back_seconds(self) -> float:
        """Return how long the unit waits in total after it was requeued."""
        status = self.unit()["status"]
        assert status["phase"] == "TimeoutBackoff"
        since, until = status["lastUpdateTime"], status["requeueState"]["requeueAt"]
        return (parse_time(until) - parse_time(since)).total_seconds()


@pytest.fixture
def growing(town: Town) -> GrowingTown:
    return GrowingTown(town)


def test_a_job_starts_on_the_requested_nodes(growing: GrowingTown) -> None:
    assert (growing.phase(), growing.town.jobs.is_suspended()) == ("Reserved", True)
    request = growing.autoscaler.the_request()
    assert [each["count"] for each in request["spec"]["podSets"]] == [2]
    growing.run_job()
    template = growing.town.jobs.get_job()["spec"]["template"]
    assert template["metadata"]["annotations"][CONSUME] == request["metadata"]["name"]
    growing.autoscaler.expire()
    growing.pass_time(2.0)
    assert growing.phase() == "Running", "its pods are running"
    growing.town.jobs.complete()
    growing.pass_time(2.0)
    assert (growing.phase(), growing.made()) == ("Succeed", 0)


def test_without_nodes_it_waits_for_the_configured_time_and_retries(
    growing: GrowingTown,
) -> None:
    first = growing.autoscaler.the_request()["metadata"]["name"]
    growing.autoscaler.fail()
    growing.pass_time(2.0)
    assert growing.put_back_seconds() == 40.0
    assert growing.made() == 0
    growing.pass_time(42.0)
    assert growing.phase() == "Reserved"
    assert growing.autoscaler.the_request()["metadata"]["name"] != first
    growing.run_job()


def test_at_the_limit_it_is_rejected_and_still_requeued(growing: GrowingTown) -> None:
    growing.autoscaler.fail()
    growing.pass_time(44.0)
    growing.autoscaler.fail()
    growing.pass_time(2.0)
    (state,) = growing.unit()["status"]["admissionChecks"]
    assert (growing.phase(), state["state"]) == ("TimeoutBackoff", "Rejected")
    growing.pass_time(growing.put_back_seconds() + 2.0)
    assert growing.phase() == "Reserved"


def test_a_job_is_requeued_when_its_nodes_are_removed(growing: GrowingTown) -> None:
    growing.run_job()
    growing.autoscaler.revoke()
    growing.pass_time(2.0)
    assert growing.town.jobs.is_suspended()
    growing.town.jobs.end_pods()
    growing.pass_time(2.0)
    assert growing.put_back_seconds() >= 40.0
    assert growing.made() == 0
    growing.pass_time(44.0)
    growing.run_job()


def test_a_deleted_job_leaves_nothing_behind(growing: GrowingTown) -> None:
    assert growing.made() == 2
    growing.town.scheduling.direct.delete("jobs", "main", "team", propagation="Background")
    growing.pass_time(10.0)
    assert growing.made() == 0
