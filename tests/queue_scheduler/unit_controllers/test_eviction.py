"""Unmanaged units leave, are requeued and run; none is released while a pod of it is alive."""

from __future__ import annotations

import random
from typing import Any

import pytest

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.unit_controllers.eviction import UnitEvictions
from shared_api.objects.pod import Pod
from shared_api.timestamps import rfc3339
from tests.object_states import condition_of
from tests.properties.engine_kit import build_pod
from tests.queue_scheduler.shell_kit import UNIT_STATUS, Json, ShellKit
from tests.queue_scheduler.unit_news import UnitNews, access_of

MANAGED = {"koord-queue/managed-by": "koord-queue-controllers"}
LATE_SECOND = 86_399
"""Second of the day of the tests: pods are younger than their units."""
EARLIER = "2026-11-01T09:00:00Z"


def evicted(reason: str, message: str = "because") -> Json:
    return {
        "conditions": [
            {
                "type": "Evicted",
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": EARLIER,
            }
        ]
    }


class Ward:
    """A kit with a quota of two CPUs, and the shells for unmanaged units."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        self.news = UnitNews(kit)
        self.due = kit.work_queue()
        self.evictions = UnitEvictions(access_of(kit, self.due), kit.clock, random.Random(5))

    def admit(self, name: str = "u", phase: str = "Dequeued", **more: Any) -> None:
        """Create a unit of one CPU that is admitted."""
        self.kit.add_unit(name, **more)
        grant = {"name": "main", "replicas": 1, "running": 0, "resources": {"cpu": "1"}}
        self.patch(name, {"phase": phase, "admissions": [grant]})
        self.pass_time()

    def patch(self, name: str, status: Json) -> None:
        """Merge into a unit's status."""
        self.kit.direct.patch(
            "queueunits", name, {"status": status}, namespace="default", subresource="status"
        )

    def set_spec(self, name: str, **spec: Any) -> None:
        """Merge into a unit's spec."""
        self.kit.direct.patch("queueunits", name, {"spec": spec}, namespace="default")

    def count(self, name: str = "u", *, replicas: int, running: int = 0, **more: Any) -> None:
        """Write a unit's counts, as its job side would."""
        grant = {"name": "main", "replicas": replicas, "running": running, **more}
        self.patch(name, {"admissions": [grant]})

    def run_pod(self, name: str = "p", unit: str = "u") -> Pod:
        """Add a living pod of a unit."""
        pod = build_pod(
            name, unit=f"default/{unit}", namespace="default", quota="team", created=LATE_SECOND
        )
        self.kit.shared.apply(Engine.on_pod, pod)
        self.evictions.on_pod(None, pod)
        return pod

    def end_pod(self, pod: Pod) -> None:
        """Delete a pod."""
        self.kit.shared.apply(Engine.on_pod_gone, pod)
        self.evictions.on_pod(pod, None)

    def pass_time(self, seconds: float = 1.0) -> None:
        """Let time pass, and every shell do what there is to do."""
        self.news.pass_time(self.evictions, seconds)
        self.due.validate()
        self.kit.engine.validate()

    def state(self, name: str = "u") -> UnitState:
        record = self.kit.engine.record(f"default/{name}")
        assert record is not None
        return record.state


@pytest.fixture
def ward(kit: ShellKit) -> Ward:
    return Ward(kit)


# --- evictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "phase"),
    [
        ("Preempted", "Enqueued"),
        ("Drained", "Enqueued"),
        ("AdmissionCheck", "TimeoutBackoff"),
        ("BackoffTimeout", "TimeoutBackoff"),
    ],
)
@pytest.mark.parametrize("before", ["Reserved", "Dequeued", "Running", "SchedFailed"])
def test_an_eviction_is_carried_out(ward: Ward, reason: str, phase: str, before: str) -> None:
    ward.admit(phase=before)
    assert ward.kit.used() == 1000
    ward.patch("u", evicted(reason))
    ward.pass_time()
    unit = ward.kit.unit("u")
    assert (unit["status"]["phase"], unit["status"]["admissions"]) == (phase, [])
    assert ward.kit.used() == 0
    found = condition_of(unit, "Evicted")
    if phase == "Enqueued":
        assert (found["status"], found["reason"]) == ("False", "Requeued")
        assert unit["status"]["message"] == f"Enqueued after eviction: {reason}"
        assert ward.state() is UnitState.WAITING
    else:
        assert (found["status"], found["reason"]) == ("True", reason)
        assert unit["status"]["message"] == "because"
        assert unit["status"]["requeueState"]["count"] == 1


def test_it_keeps_its_quota_until_its_last_pod_is_gone(ward: Ward) -> None:
    ward.admit()
    pods = [ward.run_pod("p"), ward.run_pod("q")]
    ward.patch("u", evicted("Preempted"))
    ward.pass_time(10.0)
    assert ward.kit.phase("u") == "Dequeued"
    ward.end_pod(pods[0])
    ward.pass_time()
    assert ward.kit.phase("u") == "Dequeued"
    ward.end_pod(pods[1])
    ward.pass_time()
    assert ward.kit.phase("u") == "Enqueued"


def test_pods_of_other_units_do_not_matter(ward: Ward) -> None:
    ward.admit()
    ward.run_pod("p", unit="other")
    ward.patch("u", evicted("Preempted"))
    ward.pass_time()
    assert ward.kit.phase("u") == "Enqueued"


def test_an_adopted_unit_leaves_as_well(ward: Ward) -> None:
    ward.kit.add_unit("u")
    ward.patch("u", {"phase": "Running"})
    ward.pass_time()
    assert ward.kit.used() == 1000
    ward.patch("u", evicted("Preempted"))
    ward.pass_time()
    assert condition_of(ward.kit.unit("u"), "Evicted")["status"] == "False"
    assert ward.state() is UnitState.WAITING
    assert ward.kit.used() == 0


def test_a_deactivated_unit_leaves_and_stays_out_of_the_queue(ward: Ward) -> None:
    ward.admit()
    pod = ward.run_pod()
    ward.set_spec("u", active=False)
    ward.pass_time()
    found = condition_of(ward.kit.unit("u"), "Evicted")
    assert (found["status"], found["reason"]) == ("True", "Deactivated")
    assert ward.kit.phase("u") == "Dequeued"
    ward.end_pod(pod)
    ward.pass_time()
    assert ward.kit.phase("u") == "Enqueued"
    refusal = refusal_of_unit(ward.kit.engine, "default/u")
    assert refusal is not None
    assert refusal.reason == "Inactive"
    ward.set_spec("u", active=True)
    ward.pass_time()
    assert ward.kit.dequeue().unit == "default/u"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"status": evicted("Preempted")}, id="evicted"),
        pytest.param({"spec": {"active": False}}, id="inactive"),
        pytest.param(
            {"status": {"admissions": [{"name": "main", "replicas": 0, "running": 0}]}},
            id="given back",
        ),
        pytest.param(
            {"status": {"admissions": [{"name": "main", "replicas": 1, "running": 1}]}},
            id="running",
        ),
    ],
)
def test_a_unit_with_a_job_side_is_left_alone(ward: Ward, change: Json) -> None:
    ward.admit(metadata={"annotations": MANAGED})
    written = ward.kit.writes()
    ward.set_spec("u", **change.get("spec", {}))
    ward.patch("u", change.get("status", {}))
    ward.pass_time(5.0)
    assert ward.kit.phase("u") == "Dequeued"
    assert ward.kit.writes() == written


# --- given back, running ------------------------------------------------------------------------


def test_a_unit_whose_admissions_were_lowered_to_nothing_competes_again(ward: Ward) -> None:
    ward.admit()
    ward.count(replicas=0)
    ward.pass_time()
    assert (ward.kit.phase("u"), ward.state()) == ("Enqueued", UnitState.WAITING)
    assert ward.kit.unit("u")["status"]["admissions"] == []
    assert ward.kit.used() == 0
    assert ward.kit.dequeue().unit == "default/u"


def test_a_unit_that_is_asked_to_give_back_has_not_done_so(ward: Ward) -> None:
    ward.admit()
    ward.count(replicas=0, reclaimState={"replicas": 1})
    ward.pass_time(5.0)
    assert ward.kit.phase("u") == "Dequeued"


def test_pods_given_back_are_free_when_they_are_gone(ward: Ward) -> None:
    ward.admit()
    pod = ward.run_pod()
    ward.count(replicas=0)
    ward.pass_time(5.0)
    assert (ward.kit.phase("u"), ward.kit.used()) == ("Dequeued", 1000)
    ward.end_pod(pod)
    ward.pass_time()
    assert (ward.kit.phase("u"), ward.kit.used()) == ("Enqueued", 0)


def test_a_unit_whose_pods_are_counted_as_running_is_running(ward: Ward) -> None:
    ward.admit()
    ward.count(replicas=2, running=1)
    ward.pass_time()
    assert ward.kit.phase("u") == "Dequeued"
    ward.count(replicas=2, running=2)
    ward.pass_time()
    unit = ward.kit.unit("u")
    assert unit["status"]["phase"] == "Running"
    assert unit["status"]["admissions"][0]["running"] == 2
    assert condition_of(unit, "PodsReady")["status"] == "True"
    ward.count(replicas=2, running=0)
    ward.pass_time()
    assert ward.kit.phase("u") == "Running"


def test_a_queue_that_waits_for_pods_goes_on_when_they_are_counted(ward: Ward) -> None:
    waits = {"metadata": {"annotations": {"koord-queue/wait-for-pods-running": "true"}}}
    ward.kit.direct.patch("queues", "team", waits, namespace="koord-queue")
    ward.kit.learn_queue("team")
    ward.admit("u")
    ward.kit.add_unit("next")
    refusal = refusal_of_unit(ward.kit.engine, "default/next")
    assert refusal is not None
    assert refusal.reason == "WaitingForPodsRunning"
    ward.count(replicas=1, running=1)
    ward.pass_time()
    assert ward.kit.dequeue().unit == "default/next"


def test_a_unit_that_its_queue_waits_for_has_ten_minutes(ward: Ward) -> None:
    ward.admit()
    awaited = {
        "type": "PodsReady",
        "status": "False",
        "reason": "WaitForPodsRunning",
        "message": "",
        "lastTransitionTime": EARLIER,
    }
    now = rfc3339(ward.kit.clock.now())
    ward.patch("u", {"conditions": [awaited], "lastAllocateTime": now})
    ward.pass_time(595.0)
    assert (ward.kit.phase("u"), ward.kit.writes()) == ("Dequeued", 0)
    ward.pass_time(10.0)
    unit = ward.kit.unit("u")
    assert (unit["status"]["phase"], ward.kit.used()) == ("TimeoutBackoff", 0)
    evicted = condition_of(unit, "Evicted")
    assert (evicted["reason"], evicted["message"]) == (
        "BackoffTimeout",
        "Backoff due to running timeout",
    )


def test_a_unit_that_its_queue_does_not_wait_for_has_no_deadline(ward: Ward) -> None:
    ward.admit()
    ward.patch("u", {"lastAllocateTime": EARLIER})
    ward.pass_time(5.0)
    assert (ward.kit.phase("u"), ward.due.depth()) == ("Dequeued", 0)


# --- faults -------------------------------------------------------------------------------------


def test_a_wiped_status_is_believed_and_pods_stay_charged(ward: Ward) -> None:
    ward.admit()
    pod = ward.run_pod()
    none = {field: None for field in ward.kit.unit("u")["status"] if field != "phase"}
    ward.patch("u", {**none, "phase": None})
    ward.pass_time()
    assert ward.state() is UnitState.WAITING
    assert ward.kit.used() == 1000
    ward.end_pod(pod)
    assert ward.kit.used() == 0
    assert ward.kit.dequeue().unit == "default/u"


def test_invented_reclaimable_pods_are_bounded(ward: Ward) -> None:
    ward.admit()
    ward.patch("u", {"reclaimablePods": [{"name": "main", "count": 2**31 - 1}]})
    ward.pass_time()
    assert (ward.kit.used(), ward.kit.phase("u")) == (0, "Dequeued")
    ward.patch("u", {"reclaimablePods": [{"name": "others", "count": 1}]})
    ward.pass_time()
    assert ward.kit.used() == 1000


def test_a_restart_finds_the_units_that_have_to_leave(ward: Ward) -> None:
    ward.admit()
    ward.kit.leads = False
    ward.patch("u", evicted("Preempted"))
    ward.pass_time()
    assert ward.kit.phase("u") == "Dequeued"
    assert ward.evictions.step() is None
    ward.kit.leads = True
    restarted = Ward(ward.kit)
    restarted.pass_time()
    assert ward.kit.phase("u") == "Enqueued"


@pytest.mark.parametrize("status", [403, 409, 500])
def test_a_failed_write_is_retried(ward: Ward, status: int) -> None:
    ward.admit()
    ward.patch("u", evicted("Preempted"))
    ward.kit.server.faults.fail(status, times=1, match=UNIT_STATUS)
    ward.pass_time(5.0)
    assert ward.kit.phase("u") == "Enqueued"


def test_an_unchanged_unit_costs_no_write(ward: Ward) -> None:
    ward.admit()
    ward.run_pod()
    ward.patch("u", evicted("Preempted"))
    ward.pass_time()
    written = ward.kit.writes()
    ward.pass_time(60.0)
    assert ward.kit.writes() == written
    assert ward.due.depth() == 0


def test_a_unit_deleted_while_it_is_waited_for_is_forgotten(ward: Ward) -> None:
    ward.admit()
    pod = ward.run_pod()
    ward.patch("u", evicted("Preempted"))
    ward.pass_time()
    ward.kit.direct.delete("queueunits", "u", "default")
    ward.pass_time()
    ward.end_pod(pod)
    ward.pass_time()
    assert ward.evictions.step() is None
    assert ward.kit.used() == 0
