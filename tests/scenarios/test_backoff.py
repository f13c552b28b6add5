"""A job whose pods do not come: evicted, put off, tried again; both programs over one server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queue_controllers.configuration import read_configuration
from queue_controllers.jobframework.unit_status import WAITED_FOR_SECONDS
from shared_api.process.clock import parse_time
from tests.queue_controllers.conftest import World
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, condition_of

pytestmark = pytest.mark.scenario

RUNNING_TIMEOUT = 30.0
FIRST_BACKOFF = 10.0
JITTER = 1.1
"""Backoffs are spread by a tenth."""


class Town:
    """One cluster with both programs."""

    def __init__(self, scheduling: SchedulerWorld) -> None:
        self.scheduling = scheduling
        self.jobs = World(quotas=False, beside=(scheduling.server, scheduling.clock))
        self.start()
        scheduling.add_quota("gold", cpu=2)
        self.pass_time(1.0)

    def start(self, running_timeout: float = RUNNING_TIMEOUT) -> None:
        """Start both programs, in place of those before."""
        options = {"job": {"runningTimeout": f"{running_timeout:g}s"}}
        self.scheduling.start()
        self.jobs.start(configuration=read_configuration(options, {"job"}))

    def pass_time(self, seconds: float) -> None:
        """Let both programs work while so much time passes."""
        until = self.scheduling.clock.monotonic() + seconds
        while self.scheduling.clock.monotonic() < until:
            self.scheduling.settle(0.1)
            self.jobs.settle(0.1)

    def pass_until(self, phase: str, within: float) -> None:
        """Let time pass until the unit has a phase."""
        until = self.scheduling.clock.monotonic() + within
        while self.jobs.phase() != phase:
            assert self.scheduling.clock.monotonic() < until, self.jobs.get_unit()["status"]
            self.pass_time(0.2)

    def create_job(self) -> None:
        """Create the job, and let it have its unit."""
        self.jobs.job()
        self.pass_time(0.2)

    def annotate(self, key: str, text: str) -> None:
        """Do what the job's owner does."""
        self.jobs.patch_job({"metadata": {"annotations": {key: text}}})

    def let_pods_time_out(self, ends: str = "TimeoutBackoff") -> None:
        """Let the job's pods stay Pending until it is evicted, and then end."""
        self.pass_until("Dequeued", 2 * FIRST_BACKOFF)
        self.pass_time(1.0)
        assert not self.jobs.is_suspended()
        self.jobs.run_pods(phase="Pending")
        self.pass_time(RUNNING_TIMEOUT + 1.0)
        assert self.jobs.is_suspended()
        assert self.jobs.phase() == "Dequeued", "booked until its pods are gone"
        self.jobs.end_pods()
        self.pass_until(ends, 2.0)


@pytest.fixture
def town() -> Iterator[Town]:
    with running_world() as scheduling:
        yield Town(scheduling)


def test_a_job_that_times_out_is_put_off_and_tried_again(town: Town) -> None:
    town.create_job()
    town.let_pods_time_out()
    town.pass_time(5.0)
    unit = town.jobs.get_unit()
    until = unit["status"]["requeueState"]["requeueAt"]
    assert until in condition_of(unit, "QuotaReserved")["message"]
    town.pass_until("Dequeued", FIRST_BACKOFF * JITTER)
    assert parse_time(until) <= town.scheduling.clock.now()
    town.pass_time(1.0)
    assert not town.jobs.is_suspended()
    assert town.jobs.get_unit()["status"]["requeueState"]["count"] == 1
    town.jobs.run_pods()
    town.pass_time(2.0)
    assert town.jobs.phase() == "Running"
    assert "requeueState" not in town.jobs.get_unit()["status"]


def test_a_second_time_out_waits_twice_as_long(town: Town) -> None:
    town.create_job()
    town.let_pods_time_out()
    town.let_pods_time_out()
    assert town.jobs.get_unit()["status"]["requeueState"]["count"] == 2
    town.pass_time(2 * FIRST_BACKOFF / JITTER - 2.0)
    assert town.jobs.phase() == "TimeoutBackoff"
    town.pass_until("Dequeued", 2 * FIRST_BACKOFF)


def test_a_backoff_outlives_both_programs(town: Town) -> None:
    town.create_job()
    town.let_pods_time_out()
    town.start()
    town.pass_until("Dequeued", 2 * FIRST_BACKOFF)


def test_a_job_without_pods_does_not_hold_a_line_that_waits_for_them(town: Town) -> None:
    town.start(running_timeout=0.0)
    waits = {"metadata": {"annotations": {"koord-queue/wait-for-pods-running": "true"}}}
    town.scheduling.direct.patch("queues", "gold", waits, namespace=QUEUE_NAMESPACE)
    town.scheduling.direct.patch(
        "elasticquotas", "gold", {"spec": {"max": {"cpu": 4}}}, namespace="default"
    )
    town.create_job()
    town.pass_until("Dequeued", 5.0)
    town.jobs.job("next")
    town.pass_time(WAITED_FOR_SECONDS - 10.0)
    assert (town.jobs.phase(), town.jobs.phase("next")) == ("Dequeued", "Enqueued")
    town.pass_time(15.0)
    town.jobs.end_pods(0)
    town.pass_time(1.0)
    assert (town.jobs.phase(), town.jobs.phase("next")) == ("TimeoutBackoff", "Dequeued")


def test_after_as_many_as_its_limit_it_rests_until_its_owner_wants_it(town: Town) -> None:
    town.start(running_timeout=0.0)
    town.jobs.job(
        annotations={
            "koord-queue/running-timeout": f"{RUNNING_TIMEOUT:g}s",
            "kube-queue/backoff-limit": "2",
        }
    )
    town.pass_time(0.2)
    for turn in ("first", "after its owner wanted it"):
        town.let_pods_time_out()
        town.let_pods_time_out(ends="Enqueued")
        town.pass_time(10 * FIRST_BACKOFF)
        unit = town.jobs.get_unit()
        assert unit["spec"]["active"] is False, turn
        assert unit["status"]["phase"] == "Enqueued"
        assert unit["status"]["requeueState"] == {"count": 2}
        assert "put back 2 times" in condition_of(unit, "BackoffLimitReached")["message"]
        assert condition_of(unit, "QuotaReserved")["reason"] == "Inactive"
        assert "backoff limit is reached" in unit["status"]["message"]
        assert town.jobs.is_suspended()
        for said in ("false", "true"):
            town.annotate("scheduling.x-k8s.io/active", said)
            town.pass_time(0.5)
    town.pass_until("Dequeued", 5.0)
    town.jobs.run_pods()
    town.pass_time(5.0)
    unit = town.jobs.get_unit()
    assert (unit["status"]["phase"], unit["spec"]["active"]) == ("Running", True)
    assert condition_of(unit, "BackoffLimitReached")["status"] == "False"
    assert {"BackoffLimitReached", "Activated"} <= town.jobs.events()
