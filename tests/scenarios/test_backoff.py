"""A job whose pods do not start: evicted, requeued with backoff, retried; with both programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared_api.evictions import RUNNING_TIMEOUT_SECONDS
from shared_api.timestamps import parse_time
from tests.object_states import condition_of
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE
from tests.scenarios.town import FIRST_BACKOFF, RUNNING_TIMEOUT

if TYPE_CHECKING:
    from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario

JITTER = 1.1
"""Backoffs are spread by a tenth."""


def test_a_job_that_times_out_is_retried_after_a_backoff(town: Town) -> None:
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


def test_the_backoff_after_a_second_timeout_is_twice_as_long(town: Town) -> None:
    town.create_job()
    town.let_pods_time_out()
    town.let_pods_time_out()
    assert town.jobs.get_unit()["status"]["requeueState"]["count"] == 2
    town.pass_time(2 * FIRST_BACKOFF / JITTER - 2.0)
    assert town.jobs.phase() == "TimeoutBackoff"
    town.pass_until("Dequeued", 2 * FIRST_BACKOFF)


def test_a_backoff_survives_a_restart_of_both_programs(town: Town) -> None:
    town.create_job()
    town.let_pods_time_out()
    town.start()
    town.pass_until("Dequeued", 2 * FIRST_BACKOFF)


def test_a_job_without_pods_does_not_block_a_queue_that_waits_for_pods(town: Town) -> None:
    town.start(running_timeout=0.0)
    waits = {"metadata": {"annotations": {"koord-queue/wait-for-pods-running": "true"}}}
    town.scheduling.direct.patch("queues", "gold", waits, namespace=QUEUE_NAMESPACE)
    town.scheduling.direct.patch(
        "elasticquotas", "gold", {"spec": {"max": {"cpu": 4}}}, namespace="default"
    )
    town.create_job()
    for_ever = {"koord-queue/pod-creation-timeout": "0"}
    town.jobs.patch_job({"metadata": {"annotations": for_ever}})
    town.pass_until("Dequeued", 5.0)
    town.jobs.job("next")
    town.pass_time(RUNNING_TIMEOUT_SECONDS - 10.0)
    assert (town.jobs.phase(), town.jobs.phase("next")) == ("Dequeued", "Enqueued")
    town.pass_time(15.0)
    town.jobs.end_pods(0)
    town.pass_time(1.0)
    assert (town.jobs.phase(), town.jobs.phase("next")) == ("TimeoutBackoff", "Dequeued")


def test_at_the_backoff_limit_it_is_held_until_its_owner_resumes_it(town: Town) -> None:
    town.start(running_timeout=0.0)
    town.jobs.job(
        annotations={
            "koord-queue/running-timeout": f"{RUNNING_TIMEOUT:g}s",
            "kube-queue/backoff-limit": "2",
        }
    )
    town.pass_time(0.2)
    for turn in ("first", "after its owner resumed it"):
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
