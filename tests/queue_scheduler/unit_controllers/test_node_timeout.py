"""A unit that gets no nodes releases its quota, and is retried later."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.node_timeout import NodeTimeouts
from shared_api.client.errors import Conflict
from shared_api.client.resource_types import QUEUES
from shared_api.timestamps import parse_time, rfc3339
from shared_api.well_known_labels import STOP_POLICY
from tests.object_states import condition_of
from tests.properties.engine_kit import build_pod
from tests.queue_scheduler.shell_kit import (
    QUEUE_NAMESPACE,
    UNIT_STATUS,
    HeldWrites,
    Json,
    ShellKit,
    rejected,
)
from tests.queue_scheduler.unit_news import UnitNews, access_of
from tests.stepped_host import exhaust

TIMEOUT = 60.0

LATE_SECOND = 86_399
"""Second of the day of the tests: pods are younger than their units."""


class Agency:
    """A kit in which unit a, which needs all of its quota, asks for nodes."""

    def __init__(self, kit: ShellKit, writes: HeldWrites | None = None) -> None:
        self.kit = kit
        self.reported: list[Notice] = []
        self.counted: list[str] = []
        self.news = UnitNews(kit)
        kit.add_quota("strict", cpu=1)
        self.verdicts = self.restarted(writes)
        managed = {"annotations": {"koord-queue/managed-by": "koord-queue-controllers"}}
        kit.add_unit("a", "strict", metadata=managed)
        self.ask()

    def restarted(self, writes: HeldWrites | None = None) -> NodeTimeouts:
        self.verdicts = NodeTimeouts(
            access_of(self.kit, writes=writes, report=self.reported.append),
            self.counted.append,
            self.kit.clock,
            random.Random(1),
            timeout_seconds=TIMEOUT,
        )
        self.news.forget()
        return self.verdicts

    def write(self, **status: Any) -> None:
        self.kit.direct.patch(
            "queueunits", "a", {"status": status}, namespace="default", subresource="status"
        )

    def ask(self, **more: Any) -> None:
        """Do what the dequeue cycle does in a strict queue."""
        now = rfc3339(self.kit.clock.now())
        self.write(
            phase="SchedReady",
            attempts=1,
            lastAllocateTime=now,
            admissions=[{"name": "main", "replicas": 1, "running": 0, "resources": {"cpu": "1"}}],
            conditions=[condition("Admitted", "True", now)],
            **more,
        )

    def refuse(self, message: str = "r: 0/3 nodes are available") -> None:
        """Do what the controllers do with a unit whose reservations are refused."""
        self.write(phase="SchedFailed", message=message)

    def stop_queue(self, policy: str | None) -> None:
        """Write the queue's stop policy; the engine learns of it first."""
        old = self.kit.client.get(QUEUES, QUEUE_NAMESPACE, "strict")
        body = {"metadata": {"annotations": {STOP_POLICY: policy}}}
        self.kit.direct.patch("queues", "strict", body, namespace=QUEUE_NAMESPACE)
        self.kit.learn_queue("strict")
        self.verdicts.on_queue(old, self.kit.client.get(QUEUES, QUEUE_NAMESPACE, "strict"))

    def pass_time(self, seconds: float = 1.0, *, hears: bool = True) -> None:
        self.news.pass_time(self.verdicts, seconds, hears=hears)

    @property
    def status(self) -> Json:
        found: Json = self.kit.unit("a")["status"]
        return found

    def wait_of(self) -> float:
        """Return for how many seconds the unit is put off."""
        until = parse_time(self.status["requeueState"]["requeueAt"])
        return (until - parse_time(self.status["lastUpdateTime"])).total_seconds()


def condition(kind: str, status: str, at: str, reason: str = "x") -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": at,
    }


@pytest.fixture
def agency(kit: ShellKit) -> Agency:
    return Agency(kit)


def test_a_refused_unit_releases_its_quota_and_waits(agency: Agency) -> None:
    agency.pass_time()
    assert agency.kit.used("strict") == 1000
    agency.refuse()
    agency.pass_time()
    status = agency.status
    assert (status["phase"], status["admissions"]) == ("TimeoutBackoff", [])
    assert status["message"] == "r: 0/3 nodes are available"
    assert status["requeueState"]["count"] == 1
    assert agency.wait_of() == pytest.approx(10.0, rel=0.1, abs=1.0)
    evicted = condition_of(agency.kit.unit("a"), "Evicted")
    assert (evicted["status"], evicted["reason"]) == ("True", "SchedulingFailed")
    assert agency.kit.used("strict") == 0


def test_others_use_its_quota_meanwhile(agency: Agency) -> None:
    agency.kit.add_unit("b", "strict")
    agency.refuse()
    agency.pass_time()
    assert agency.kit.dequeue("strict").unit == "default/b"


@pytest.mark.parametrize(("count", "want"), [(0, 10.0), (1, 20.0), (3, 80.0), (40, 900.0)])
def test_each_time_it_waits_twice_as_long(agency: Agency, count: int, want: float) -> None:
    agency.write(requeueState={"count": count})
    agency.refuse()
    agency.pass_time()
    assert agency.status["requeueState"]["count"] == count + 1
    assert agency.wait_of() == pytest.approx(want, rel=0.1, abs=1.0)


def test_an_event_says_why_and_until_when(agency: Agency) -> None:
    agency.refuse()
    agency.pass_time()
    (notice,) = agency.reported
    assert agency.counted == ["refused"]
    assert (notice.reason, notice.key) == ("SchedulingFailed", "default/a")
    assert "0/3 nodes are available" in notice.note
    assert agency.status["requeueState"]["requeueAt"] in notice.note


def test_a_unit_without_a_timely_answer_is_requeued(agency: Agency) -> None:
    agency.pass_time(TIMEOUT - 2.0)
    assert agency.status["phase"] == "SchedReady"
    agency.pass_time(4.0)
    assert agency.status["phase"] == "TimeoutBackoff"
    assert agency.status["message"] == "no answer for 60 s"
    assert agency.counted == ["unanswered"]


def test_the_timeout_begins_when_nodes_are_requested_not_with_the_quota(agency: Agency) -> None:
    """Checks may take long, and the quota is granted before them."""
    clock = agency.kit.clock
    long_ago = rfc3339(clock.now() - timedelta(hours=5))
    agency.write(lastAllocateTime=long_ago)
    agency.pass_time(TIMEOUT - 2.0)
    assert agency.status["phase"] == "SchedReady"


def test_a_future_time_of_the_request_does_not_stop_the_clock(agency: Agency) -> None:
    """It was edited by hand: the other times count."""
    ahead = rfc3339(agency.kit.clock.now() + timedelta(days=9999))
    agency.write(conditions=[condition("Admitted", "True", ahead)])
    agency.pass_time(TIMEOUT - 2.0)
    assert agency.status["phase"] == "SchedReady"
    agency.pass_time(4.0)
    assert agency.status["phase"] == "TimeoutBackoff"


def test_a_request_without_any_time_does_not_wait_forever(agency: Agency) -> None:
    agency.write(conditions=[], lastAllocateTime=None)
    agency.pass_time()
    assert agency.status["phase"] == "TimeoutBackoff"


def test_an_answer_in_time_is_left_alone(agency: Agency) -> None:
    agency.write(phase="SchedSucceed")
    agency.pass_time(2 * TIMEOUT)
    assert agency.status["phase"] == "SchedSucceed"


def test_a_requested_eviction_is_left_to_the_controllers(agency: Agency) -> None:
    now = rfc3339(agency.kit.clock.now())
    agency.write(conditions=[condition("Evicted", "True", now, "Preempted")])
    agency.refuse()
    agency.pass_time(2 * TIMEOUT)
    assert agency.status["phase"] == "SchedFailed"


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_a_stopped_queue_requeues_a_requesting_unit_at_once(agency: Agency, policy: str) -> None:
    agency.pass_time()
    agency.stop_queue(policy)
    exhaust(agency.verdicts.step)
    agency.kit.send()
    status = agency.status
    assert (status["phase"], status["admissions"]) == ("Enqueued", [])
    assert status["message"] == "Enqueued: queue strict is stopped"
    assert "requeueState" not in status
    assert agency.kit.used("strict") == 0
    assert (agency.reported, agency.counted) == ([], [])

    agency.stop_queue(None)
    assert agency.kit.dequeue("strict").unit == "default/a"


def test_a_unit_whose_request_begins_in_a_stopped_queue_is_requeued(agency: Agency) -> None:
    """The decision was being written."""
    agency.write(phase="Enqueued")
    agency.stop_queue("Hold")
    agency.pass_time()
    agency.ask()
    agency.pass_time()
    assert agency.status["phase"] == "Enqueued"


def test_a_request_in_a_stopped_queue_is_found_after_a_restart(agency: Agency) -> None:
    agency.stop_queue("Hold")
    agency.news.hear(agency.verdicts)
    agency.restarted()
    agency.pass_time(hears=False)
    assert agency.status["phase"] == "Enqueued"


@pytest.mark.parametrize(
    ("written", "want"),
    [
        pytest.param("SchedFailed", "TimeoutBackoff", id="refused: it waits as usual"),
        pytest.param("SchedSucceed", "SchedSucceed", id="it has started"),
    ],
)
def test_an_answer_counts_in_a_stopped_queue(agency: Agency, written: str, want: str) -> None:
    agency.write(phase=written)
    agency.stop_queue("Hold")
    agency.pass_time()
    assert agency.status["phase"] == want


def test_a_unit_whose_job_was_resumed_keeps_its_quota_in_a_stopped_queue(agency: Agency) -> None:
    """Until its pods are gone: others would get the room that these take."""
    pod = build_pod("p", unit="default/a", namespace="default", quota="strict", created=LATE_SECOND)
    agency.kit.shared.apply(Engine.on_pod, pod)
    agency.stop_queue("Hold")
    agency.pass_time(3.0)
    assert agency.status["phase"] == "SchedReady"
    agency.kit.shared.apply(Engine.on_pod_gone, pod)
    agency.pass_time(3.0)
    assert agency.status["phase"] == "Enqueued"


def test_after_a_restart_it_is_found(agency: Agency) -> None:
    agency.refuse()
    agency.news.hear(agency.verdicts)
    agency.restarted()
    agency.pass_time(hears=False)
    assert agency.status["phase"] == "TimeoutBackoff"


def test_a_replica_that_does_not_lead_writes_nothing(agency: Agency) -> None:
    agency.kit.leads = False
    agency.refuse()
    agency.pass_time()
    assert agency.status["phase"] == "SchedFailed"
    agency.kit.leads = True
    agency.pass_time()
    assert agency.status["phase"] == "TimeoutBackoff"


def test_a_conflict_is_decided_again_and_reported_once(kit: ShellKit) -> None:
    writes = HeldWrites()
    agency = Agency(kit, writes)
    agency.refuse()
    agency.news.hear(agency.verdicts)
    exhaust(agency.verdicts.step)
    writes.settle(rejected(Conflict(409)))
    assert agency.reported == []
    agency.pass_time(3.0)
    assert len(writes.writes) == 2


def test_a_requeue_whose_answer_is_lost_is_reported_once(agency: Agency) -> None:
    agency.refuse()
    agency.kit.server.faults.lose_answer(match=UNIT_STATUS)
    agency.pass_time(5.0)
    assert agency.status["phase"] == "TimeoutBackoff"
    assert [notice.reason for notice in agency.reported] == ["SchedulingFailed"]
    assert agency.counted == ["refused"]
