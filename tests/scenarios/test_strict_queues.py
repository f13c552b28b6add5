"""Nodes are reserved before jobs start; with both programs, and the test as koord-scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared_api.fake_api_server.faults import Match

if TYPE_CHECKING:
    from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario

Json = dict[str, Any]


def begin(town: Town, *names: str, cpu: int = 4) -> None:
    """Create quota gold, and Jobs of two pods each in it."""
    town.scheduling.add_quota("gold", cpu=cpu)
    town.pass_time(5.0)
    for name in names:
        town.jobs.job(name)
    town.pass_time(5.0)


def phases(town: Town, *names: str) -> list[str]:
    return [town.jobs.phase(name) for name in names]


def status_of(town: Town, name: str) -> Json:
    found: Json = town.jobs.get_unit(name)["status"]
    return found


def of_job(town: Town, name: str) -> list[str]:
    """Return the reservations of one job."""
    found = town.koord_scheduler.reservations()
    return [key for key, r in found.items() if r["metadata"]["labels"]["reserved-job-name"] == name]


def test_a_job_runs_on_nodes_that_were_reserved_for_it(strict_town: Town) -> None:
    town = strict_town
    begin(town, "train")
    assert phases(town, "train") == ["SchedReady"]
    assert town.jobs.is_suspended("train")
    assert status_of(town, "train")["attempts"] == 1
    town.koord_scheduler.grant()
    town.pass_time(3.0)
    assert not town.jobs.is_suspended("train")
    town.jobs.run_pods(name="train")
    town.pass_time(5.0)
    assert phases(town, "train") == ["Running"]
    assert town.koord_scheduler.reservations() == {}
    town.jobs.complete("train")
    town.pass_time(3.0)
    assert phases(town, "train") == ["Succeed"]


def test_after_a_refusal_others_use_the_quota_and_the_job_is_requeued(strict_town: Town) -> None:
    town = strict_town
    begin(town, "large", "small", cpu=2)
    first, second = sorted(["large", "small"], key=town.jobs.phase, reverse=True)
    assert phases(town, first, second) == ["SchedReady", "Enqueued"]
    town.koord_scheduler.refuse()
    town.pass_time(3.0)
    assert phases(town, first, second) == ["TimeoutBackoff", "SchedReady"]
    assert of_job(town, first) == []
    assert status_of(town, first)["requeueState"]["count"] == 1
    town.koord_scheduler.grant(*of_job(town, second))
    town.pass_time(3.0)
    town.jobs.run_pods(name=second)
    town.pass_time(15.0)
    assert phases(town, first, second) == ["Enqueued", "Running"], "the quota is in use"
    town.jobs.complete(second)
    for number in range(2):
        town.jobs.direct.delete("pods", f"{second}-{number}", "team")
    town.pass_time(5.0)
    assert phases(town, first) == ["SchedReady"]
    assert status_of(town, first)["attempts"] == 2
    assert len(of_job(town, first)) == 2


def test_no_job_of_lower_priority_takes_the_nodes_meanwhile(strict_town: Town) -> None:
    town = strict_town
    begin(town)
    town.jobs.job("high", annotations={"scheduling.x-k8s.io/priority": "5"})
    town.pass_time(5.0)
    town.jobs.job("low")
    town.pass_time(5.0)
    assert phases(town, "high", "low") == ["SchedReady", "Enqueued"]
    waits = town.scheduling.direct.get("queueunits", "low", "team")["status"]
    assert waits["message"] == "job is block by others with high priority"
    (reason,) = [c["reason"] for c in waits["conditions"] if c["type"] == "QuotaReserved"]
    assert reason == "WaitingForNodesOfOthers"
    town.koord_scheduler.grant()
    town.pass_time(3.0)
    assert phases(town, "high", "low") == ["SchedSucceed", "SchedReady"]


def test_a_job_stopped_while_its_nodes_are_requested_releases_everything(strict_town: Town) -> None:
    town = strict_town
    begin(town, "train", "next", cpu=2)
    (asking,) = [n for n in ("train", "next") if town.jobs.phase(n) == "SchedReady"]
    (other,) = {"train", "next"} - {asking}
    stop = {"metadata": {"annotations": {"scheduling.x-k8s.io/active": "false"}}}
    town.jobs.patch_job(stop, name=asking)
    town.pass_time(5.0)
    assert phases(town, asking, other) == ["Enqueued", "SchedReady"]
    assert of_job(town, asking) == []


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_in_a_stopped_queue_no_job_that_requests_nodes_starts(
    strict_town: Town, policy: str
) -> None:
    town = strict_town
    begin(town, "train")
    assert phases(town, "train") == ["SchedReady"]
    stop_queue(town, policy)
    town.pass_time(5.0)
    assert phases(town, "train") == ["Enqueued"]
    assert town.koord_scheduler.reservations() == {}
    assert town.jobs.is_suspended("train")
    stop_queue(town, None)
    town.pass_time(5.0)
    assert phases(town, "train") == ["SchedReady"]
    assert status_of(town, "train")["attempts"] == 2
    assert len(of_job(town, "train")) == 2
    town.koord_scheduler.grant()
    town.pass_time(3.0)
    assert not town.jobs.is_suspended("train")


def stop_queue(town: Town, policy: str | None) -> None:
    """Write the stop policy of queue gold, or remove it."""
    body = {"metadata": {"annotations": {"koord-queue/stop-policy": policy}}}
    town.scheduling.direct.patch("queues", "gold", body, namespace="koord-queue")


def test_a_deleted_job_leaves_no_reservation(strict_town: Town) -> None:
    town = strict_town
    begin(town, "train", "next", cpu=2)
    (asking,) = [n for n in ("train", "next") if town.jobs.phase(n) == "SchedReady"]
    (other,) = {"train", "next"} - {asking}
    town.jobs.direct.delete("jobs", asking, "team")
    town.pass_time(10.0)
    assert phases(town, other) == ["SchedReady"]
    assert set(town.koord_scheduler.reservations()) == set(of_job(town, other))


def test_without_an_answer_its_quota_is_released_after_half_an_hour(strict_town: Town) -> None:
    town = strict_town
    begin(town, "train")
    town.scheduling.clock.advance(30 * 60)
    town.pass_time(35.0)
    assert phases(town, "train") in (["TimeoutBackoff"], ["SchedReady"])
    assert status_of(town, "train")["requeueState"]["count"] == 1
    assert "SchedulingFailed" in {reason for _, reason in town.scheduling.events()}


def test_a_crash_at_any_step_loses_nothing(strict_town: Town) -> None:
    town = strict_town
    begin(town, "train")
    town.jobs.server.faults.fail(500, times=3, match=Match(verb="patch", subresource="status"))
    town.koord_scheduler.refuse()
    town.scheduling.start("--strictDequeueMode")
    town.jobs.start("--enable-reservation")
    town.pass_time(20.0)
    assert status_of(town, "train")["attempts"] == 2
    town.scheduling.start("--strictDequeueMode")
    town.koord_scheduler.grant()
    town.jobs.start("--enable-reservation")
    town.pass_time(10.0)
    assert phases(town, "train") == ["SchedSucceed"]
    assert not town.jobs.is_suspended("train")
