"""Jobs that change while they run, or must release their quota; with both programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.queue_scheduler.scheduler_world import running_world
from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario

MAX_EXEC = "scheduling.x-k8s.io/max-exec-time-seconds"


@pytest.fixture
def wide_town() -> Iterator[Town]:
    """A town whose quota is four pods."""
    with running_world() as scheduling:
        yield Town(scheduling, cpu=4)


def test_scaling_down_releases_quota_when_the_pods_are_gone(wide_town: Town) -> None:
    town, jobs = wide_town, wide_town.jobs
    run_elastic(town, pods=3)
    jobs.job("next")
    town.pass_time(5.0)
    assert jobs.phase("next") == "Enqueued", "two pods do not fit in addition to three"
    jobs.patch_job({"spec": {"parallelism": 1}})
    town.pass_time(5.0)
    assert jobs.get_unit()["status"]["reclaimablePods"] == [{"name": "main", "count": 2}]
    assert jobs.phase("next") == "Enqueued", "the pods still exist, and are charged"
    town.delete_pod(2)
    town.pass_time(5.0)
    assert jobs.phase("next") == "Dequeued", "two of four are free"
    town.delete_pod(1)
    jobs.job("last", parallelism=1, completions=1)
    town.pass_time(5.0)
    assert jobs.phase("last") == "Dequeued"


def test_growth_beyond_the_quota_is_charged_and_delays_others(wide_town: Town) -> None:
    town, jobs = wide_town, wide_town.jobs
    run_elastic(town, pods=2)
    jobs.patch_job({"spec": {"parallelism": 5}})
    town.pass_time(5.0)
    assert jobs.get_unit()["spec"]["podSet"][0]["count"] == 5
    assert jobs.get_unit()["status"]["admissions"][0]["replicas"] == 2
    assert not jobs.is_suspended()
    assert "Grown" in jobs.notes_on_jobs()
    for number in (2, 3, 4):
        town.add_pod(number)
    town.pass_time(2.0)
    jobs.job("next", parallelism=1, completions=1)
    town.pass_time(5.0)
    assert jobs.phase("next") == "Enqueued", "five pods exceed the quota"
    for number in (3, 4):
        town.delete_pod(number)
    town.pass_time(5.0)
    assert jobs.phase("next") == "Dequeued"


def test_a_preempted_job_starts_before_later_ones(town: Town) -> None:
    jobs = town.jobs
    run_elastic(town, pods=2)
    town.pass_time(2.0)
    jobs.job("later")
    town.pass_time(2.0)
    unit = jobs.get_unit()
    asked = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "for urgent"}
    asked["lastTransitionTime"] = jobs.now()
    others = [each for each in unit["status"]["conditions"] if each["type"] != "Evicted"]
    jobs.patch_unit_status({"conditions": [*others, asked]})
    town.pass_time(2.0)
    assert jobs.is_suspended()
    assert jobs.phase("later") == "Enqueued", "the pods still exist"
    jobs.end_pods()
    town.pass_time(3.0)
    assert (jobs.phase(), jobs.phase("later")) == ("Dequeued", "Enqueued")
    assert not jobs.is_suspended()


def test_a_job_at_its_maximum_execution_time_releases_its_quota(town: Town) -> None:
    jobs = town.jobs
    run_elastic(town, pods=2, annotations={MAX_EXEC: "20"})
    jobs.job("later")
    town.pass_time(25.0)
    assert jobs.is_suspended()
    jobs.end_pods()
    town.pass_time(5.0)
    assert (jobs.phase(), jobs.phase("later")) == ("Enqueued", "Dequeued")
    assert jobs.get_unit()["spec"]["active"] is False
    town.pass_time(30.0)
    assert jobs.is_suspended()


def run_elastic(town: Town, *, pods: int, **more: Any) -> None:
    """Run a job that has enough work for more pods."""
    town.jobs.job(parallelism=pods, completions=100, **more)
    town.pass_time(0.2)
    town.pass_until("Dequeued", 5.0)
    town.pass_time(1.0)
    assert not town.jobs.is_suspended()
    for number in range(pods):
        town.add_pod(number)
    town.jobs.patch_job_status({"startTime": town.jobs.now(), "active": pods})
    town.pass_until("Running", 5.0)
