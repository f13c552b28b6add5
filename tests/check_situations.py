"""Upstream's conformance list about checks, conditions and activation, for a cluster of any kind.

Each situation is played on the fake API server in virtual time and on a real one. Its number is
upstream's, and so are the times in brackets, for which upstream's test waits at most.

K1 to K5 are upstream's for its tree plugin; the quotas here are ElasticQuotas with its numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

from tests.sample_jobs import crd

Json = Any

STILL_SECONDS: Final = 2.0
"""For which nothing happens where nothing should."""


ADMISSION_CHECK_CRD: Final[Json] = crd("admissionchecks")


def admission_check(name: str) -> Json:
    """An AdmissionCheck of a controller that is not there."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {"controllerName": "koord-queue.test/nobody"},
    }


def activity(active: str, message: str = "") -> Json:
    """The status in which a check's controller says whether it is active."""
    condition = {
        "type": "Active",
        "status": active,
        "reason": "ForATest",
        "message": message,
        "lastTransitionTime": "2026-11-01T09:00:00Z",
    }
    return {"status": {"conditions": [condition]}}


class Cluster(Protocol):
    """A cluster in which the scheduler runs, and nobody has the job side."""

    @abstractmethod
    def create_quota(self, name: str, *, cpu_max: int, labels: Mapping[str, str]) -> None:
        """Create an ElasticQuota whose min is its max."""

    @abstractmethod
    def create_unit(self, body: Json) -> None:
        """Create a QueueUnit."""

    @abstractmethod
    def unit(self, name: str) -> Json:
        """Return a unit."""

    @abstractmethod
    def patch_unit(self, name: str, body: Json) -> None:
        """Merge into a unit; its status if the body has one."""

    @abstractmethod
    def patch_queue(self, name: str, body: Json) -> None:
        """Merge into a Queue."""

    @abstractmethod
    def has_queue(self, name: str) -> bool:
        """Return whether a Queue of that name is there."""

    @abstractmethod
    def wait(self, what: Callable[[], bool], seconds: float) -> bool:
        """Wait until it is so; False if that takes longer."""


class Situation:
    """A cluster, and what the conformance list does in it.

    Args:
        cluster: where.
        prefix: of all names.
        patience_seconds: within which everything happens that follows from a write.
    """

    def __init__(self, cluster: Cluster, prefix: str, *, patience_seconds: float) -> None:
        self._cluster = cluster
        self._prefix = prefix
        self._patience_seconds = patience_seconds

    def quota(self, *, cpu: int) -> None:
        """Create the quota, and wait for its queue."""
        self._cluster.create_quota(self._prefix, cpu_max=cpu, labels={})
        self.soon(lambda: self._cluster.has_queue(self._prefix))

    def quota_in_a_tree(self, *, cpu: int) -> None:
        """Create it below another of the same size."""
        labels = {"quota.scheduling.koordinator.sh/is-parent": "true"}
        root = f"{self._prefix}-root"
        self._cluster.create_quota(root, cpu_max=cpu, labels=labels)
        parent = {"quota.scheduling.koordinator.sh/parent": root}
        self._cluster.create_quota(self._prefix, cpu_max=cpu, labels=parent)
        self.soon(lambda: self._cluster.has_queue(self._prefix))

    def ask(self, *checks: str) -> None:
        """Have the queue list these checks."""
        listed = [{"name": name} for name in checks]
        self._cluster.patch_queue(self._prefix, {"spec": {"admissionChecks": listed}})

    def create(self, name: str, *, cpu: int = 1, pod_set: bool = True, **spec: Json) -> None:
        """Create a unit as upstream's fixture does."""
        requests = {"cpu": str(cpu)}
        template = {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
        pods = {"podSet": [{"name": name, "count": 1, "template": template}]} if pod_set else {}
        quota = {"quota.scheduling.koordinator.sh/name": self._prefix}
        body = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "QueueUnit",
            "metadata": {"name": self._name(name), "namespace": "default", "labels": quota},
            "spec": {"resource": requests, "request": requests, **pods, **spec},
        }
        self._cluster.create_unit(body)

    def status(self, name: str) -> Json:
        """Return a unit's status."""
        return self._cluster.unit(self._name(name)).get("status", {})

    def spec(self, name: str) -> Json:
        """Return what a unit asks for, as the server has it."""
        return self._cluster.unit(self._name(name))["spec"]

    def phase(self, name: str) -> str:
        """Return a unit's phase."""
        return str(self.status(name)["phase"])

    def condition(self, name: str, kind: str) -> Json:
        """Return a condition of a unit, {} where it has none."""
        return condition_in(self.status(name), kind)

    def say(self, name: str, **states: str) -> None:
        """Answer as the checks do."""
        entries = [
            {**entry, "state": states.get(entry["name"], entry["state"])}
            for entry in self.status(name)["admissionChecks"]
        ]
        self.patch(name, {"status": {"admissionChecks": entries}})

    def patch(self, name: str, body: Json) -> None:
        """Merge into a unit."""
        self._cluster.patch_unit(self._name(name), body)

    def soon(self, what: Callable[[], bool]) -> None:
        """It must become so."""
        seconds = self._patience_seconds
        assert self._cluster.wait(what, seconds), f"{self._prefix}: not within {seconds} s"

    def becomes(self, name: str, phase: str) -> Json:
        """A unit must come to this phase; return the status that has it.

        It has what the same write has brought: a later read may be of a unit that has moved on.
        """
        seen: list[Json] = []

        def is_there() -> bool:
            seen.append(self.status(name))
            return bool(seen[-1]["phase"] == phase)

        self.soon(is_there)
        return seen[-1]

    def stays(self, name: str, phase: str) -> None:
        """A unit must be in this phase all the time."""
        assert not self._cluster.wait(lambda: self.phase(name) != phase, STILL_SECONDS)

    def _name(self, name: str) -> str:
        return f"{self._prefix}-{name}"


def states_in(status: Json) -> list[tuple[str, str]]:
    """Return what each check says in a unit's status."""
    return [(entry["name"], entry["state"]) for entry in status.get("admissionChecks", [])]


def condition_in(status: Json, kind: str) -> Json:
    """Return a condition in a unit's status, {} where it has none."""
    return next((one for one in status.get("conditions", []) if one["type"] == kind), {})


def checks_of_a_tree(situation: Situation) -> None:
    """[K1 to K5] Two checks, and all that they may say.

    K1: all eight are Reserved with two Pending checks. K2: both Ready: Dequeued (2 s). K3: one
    Rejected, K4: one Retry: TimeoutBackoff. K5: only one Ready: it stays Reserved.
    """
    situation.quota_in_a_tree(cpu=100)
    situation.ask("ad1", "ad2")
    names = [f"qu{number}" for number in range(1, 9)]
    for number, name in enumerate(names, start=1):
        situation.create(name, pod_set=number > 4)
    for name in names:
        reserved = situation.becomes(name, "Reserved")
        assert states_in(reserved) == [("ad1", "Pending"), ("ad2", "Pending")]
    # First the one that nothing follows from: what follows from the others comes after it.
    situation.say("qu4", ad2="Ready")
    situation.say("qu1", ad1="Ready", ad2="Ready")
    situation.say("qu2", ad1="Ready", ad2="Rejected")
    situation.say("qu3", ad1="Ready", ad2="Retry")
    started = situation.becomes("qu1", "Dequeued")
    refused = [situation.becomes(name, "TimeoutBackoff") for name in ("qu2", "qu3")]
    situation.stays("qu4", "Reserved")
    # Upstream leaves the admissions; here a unit in backoff holds no quota (decisions on phases).
    found = [started, *refused, situation.status("qu4")]
    assert [len(status["admissions"]) for status in found] == [1, 0, 0, 1]
    assert started["message"] == "all admission checks success"


def conditions_of_an_admission(situation: Situation) -> None:
    """[C1] Dequeued: Admitted and QuotaReserved True, with reason and time (90 s)."""
    situation.quota(cpu=4)
    situation.create("u")
    status = situation.becomes("u", "Dequeued")
    for kind in ("Admitted", "QuotaReserved"):
        found = condition_in(status, kind)
        assert (found["status"], bool(found["reason"])) == ("True", True)
        assert found["lastTransitionTime"]
    assert [(each["name"], each["replicas"]) for each in status["admissions"]] == [("u", 1)]
    assert status["lastAllocateTime"]


def conditions_of_a_refusal(situation: Situation) -> None:
    """[C2] Reserved with a check, then Rejected: TimeoutBackoff, Evicted/BackoffTimeout (90 s)."""
    situation.quota(cpu=4)
    situation.ask("conditions-check")
    situation.create("u")
    reserved = situation.becomes("u", "Reserved")
    assert states_in(reserved) == [("conditions-check", "Pending")]
    assert condition_in(reserved, "QuotaReserved")["status"] == "True"
    assert condition_in(reserved, "Admitted")["status"] == "False"
    situation.say("u", **{"conditions-check": "Rejected"})
    refused = situation.becomes("u", "TimeoutBackoff")
    evicted = condition_in(refused, "Evicted")
    assert (evicted["status"], evicted["reason"]) == ("True", "BackoffTimeout")
    assert condition_in(refused, "QuotaReserved")["status"] == "False"


def requeue_state(situation: Situation) -> None:
    """[R1] Rejected: count 1, requeueAt in the future; put back by hand and rejected again: 2.

    Upstream's test writes Reserved over TimeoutBackoff and leaves Evicted=True. Here that asks the
    place back, so the unit may be free again before the test has said Rejected; it counts the same.
    """
    situation.quota(cpu=4)
    situation.ask("c")
    situation.create("u")
    situation.becomes("u", "Reserved")
    situation.say("u", c="Rejected")
    first = situation.becomes("u", "TimeoutBackoff")
    assert first["requeueState"]["count"] == 1
    assert _moment(first["requeueState"]["requeueAt"]) > _moment(first["lastUpdateTime"])
    entries = [{**entry, "state": "Pending"} for entry in first["admissionChecks"]]
    situation.patch("u", {"status": {"phase": "Reserved", "admissionChecks": entries}})
    situation.say("u", c="Rejected")
    situation.soon(lambda: situation.status("u")["requeueState"]["count"] == 2)
    second = situation.becomes("u", "TimeoutBackoff")
    assert _moment(second["requeueState"]["requeueAt"]) > _moment(
        first["requeueState"]["requeueAt"]
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def born_inactive(situation: Situation) -> None:
    """[A1] `active: false` survives, holds no quota (10 s), and a rival starts (30 s)."""
    situation.quota(cpu=2)
    situation.create("u", cpu=2, active=False)
    situation.stays("u", "Enqueued")
    situation.create("rival", cpu=2)
    situation.becomes("rival", "Dequeued")
    assert situation.phase("u") == "Enqueued"
    assert situation.status("u").get("admissions", []) == []
    assert situation.spec("u")["active"] is False


def activation(situation: Situation) -> None:
    """[A2] Not Dequeued while inactive (5 s); `active: true`: Dequeued (30 s)."""
    situation.quota(cpu=1)
    situation.create("u", active=False)
    situation.stays("u", "Enqueued")
    situation.patch("u", {"spec": {"active": True}})
    situation.becomes("u", "Dequeued")


def deactivation(situation: Situation) -> None:
    """[A2, and back] `active: false` while Dequeued frees the unit, and a rival starts."""
    situation.quota(cpu=1)
    situation.create("u")
    situation.becomes("u", "Dequeued")
    situation.create("rival")
    situation.patch("u", {"spec": {"active": False}})
    situation.becomes("rival", "Dequeued")
    assert situation.becomes("u", "Enqueued")["admissions"] == []


def given_back(situation: Situation) -> None:
    """[P4, its end] Somebody plays the job side: 0 replicas give the place back, and it returns.

    Upstream's test waits 90 s for a unit that its preemption has asked to leave.
    """
    situation.quota(cpu=1)
    situation.create("u")
    situation.becomes("u", "Dequeued")
    situation.create("rival", priority=7)
    situation.stays("rival", "Enqueued")
    lowered = [{"name": "u", "replicas": 0, "running": 0}]
    situation.patch("u", {"status": {"admissions": lowered, "message": ""}})
    # The place is the rival's before the unit is told that it is free: nothing orders the two.
    situation.becomes("rival", "Dequeued")
    assert situation.becomes("u", "Enqueued")["admissions"] == []
    situation.patch("rival", {"status": {"phase": "Succeed", "admissions": []}})
    (admission,) = situation.becomes("u", "Dequeued")["admissions"]
    assert (admission["replicas"], "reclaimState" in admission) == (1, False)


SITUATIONS: Final[Mapping[str, Callable[[Situation], None]]] = {
    "K1-K5": checks_of_a_tree,
    "C1": conditions_of_an_admission,
    "C2": conditions_of_a_refusal,
    "R1": requeue_state,
    "A1": born_inactive,
    "A2": activation,
    "A2-back": deactivation,
    "P4-end": given_back,
}
"""By their numbers in upstream's list."""
