"""Upstream's conformance list on checks, conditions, and activation, for any kind of cluster.

Each situation is tested with the fake API server in virtual time and with a real one. Its number is
upstream's, and so are the times in brackets, which are the timeouts of upstream's test.

K1 to K5 are upstream's for its tree plugin; the quotas here are ElasticQuotas with its numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

from tests.sample_jobs import crd
from tests.waiting import STILL_SECONDS

Json = Any


ADMISSION_CHECK_CRD: Final[Json] = crd("admissionchecks")


def admission_check(name: str) -> Json:
    """Return an AdmissionCheck of a controller that does not run."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {"controllerName": "koord-queue.test/nobody"},
    }


def activity(active: str, message: str = "") -> Json:
    """Return the status by which a check's controller reports whether it is active."""
    condition = {
        "type": "Active",
        "status": active,
        "reason": "ForATest",
        "message": message,
        "lastTransitionTime": "2026-11-01T09:00:00Z",
    }
    return {"status": {"conditions": [condition]}}


class Cluster(Protocol):
    """A cluster in which the scheduler runs, without a job side."""

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
        """Merge into a unit, or into its status if the body has one."""

    @abstractmethod
    def patch_queue(self, name: str, body: Json) -> None:
        """Merge into a Queue."""

    @abstractmethod
    def has_queue(self, name: str) -> bool:
        """Return whether a Queue of that name exists."""

    @abstractmethod
    def wait(self, what: Callable[[], bool], seconds: float) -> bool:
        """Wait until the condition holds; return False at the timeout."""


class Situation:
    """A cluster, and the actions of the conformance list in it.

    Args:
        cluster: the cluster.
        prefix: the prefix of all names.
        patience_seconds: the timeout for all effects of a write.
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
        """Create the quota below another one of the same size."""
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
        """Create a unit like upstream's fixture."""
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
        """Return the spec of a unit on the server."""
        return self._cluster.unit(self._name(name))["spec"]

    def phase(self, name: str) -> str:
        """Return a unit's phase."""
        return str(self.status(name)["phase"])

    def condition(self, name: str, kind: str) -> Json:
        """Return a condition of a unit, {} without one."""
        return condition_in(self.status(name), kind)

    def say(self, name: str, **states: str) -> None:
        """Write the states of checks, as their controllers do."""
        entries = [
            {**entry, "state": states.get(entry["name"], entry["state"])}
            for entry in self.status(name)["admissionChecks"]
        ]
        self.patch(name, {"status": {"admissionChecks": entries}})

    def patch(self, name: str, body: Json) -> None:
        """Merge into a unit."""
        self._cluster.patch_unit(self._name(name), body)

    def soon(self, what: Callable[[], bool]) -> None:
        """Assert that the condition holds within the timeout."""
        seconds = self._patience_seconds
        assert self._cluster.wait(what, seconds), f"{self._prefix}: not within {seconds} s"

    def becomes(self, name: str, phase: str) -> Json:
        """Assert that a unit reaches this phase; return the status with it.

        It is the status of the write that set the phase; a later read may return a further phase.
        """
        seen: list[Json] = []

        def is_there() -> bool:
            seen.append(self.status(name))
            return bool(seen[-1]["phase"] == phase)

        self.soon(is_there)
        return seen[-1]

    def stays(self, name: str, phase: str) -> None:
        """Assert that a unit stays in this phase."""
        assert not self._cluster.wait(lambda: self.phase(name) != phase, STILL_SECONDS)

    def _name(self, name: str) -> str:
        return f"{self._prefix}-{name}"


def states_in(status: Json) -> list[tuple[str, str]]:
    """Return the state of each check in a unit's status."""
    return [(entry["name"], entry["state"]) for entry in status.get("admissionChecks", [])]


def condition_in(status: Json, kind: str) -> Json:
    """Return a condition in a unit's status, {} without one."""
    return next((one for one in status.get("conditions", []) if one["type"] == kind), {})


def checks_of_a_tree(situation: Situation) -> None:
    """[K1 to K5] Two checks with all their states.

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
    # First the one without an effect, since the effects of the others come later.
    situation.say("qu4", ad2="Ready")
    situation.say("qu1", ad1="Ready", ad2="Ready")
    situation.say("qu2", ad1="Ready", ad2="Rejected")
    situation.say("qu3", ad1="Ready", ad2="Retry")
    started = situation.becomes("qu1", "Dequeued")
    refused = [situation.becomes(name, "TimeoutBackoff") for name in ("qu2", "qu3")]
    situation.stays("qu4", "Reserved")
    # Upstream keeps the admissions; here a unit in backoff holds no quota (decisions on phases).
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
    """[R1] Rejected: count 1, requeueAt in the future; manually reserved and rejected again: 2.

    Upstream's test writes Reserved over TimeoutBackoff and leaves Evicted=True. Here that requests
    the quota back, so the unit may be released before the test writes Rejected; the count is the
    same.
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
    """[A1] A unit with `active: false` exists, holds no quota (10 s), and a rival starts (30 s)."""
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
    """[A2, reversed] `active: false` while Dequeued releases the unit, and a rival starts."""
    situation.quota(cpu=1)
    situation.create("u")
    situation.becomes("u", "Dequeued")
    situation.create("rival")
    situation.patch("u", {"spec": {"active": False}})
    situation.becomes("rival", "Dequeued")
    assert situation.becomes("u", "Enqueued")["admissions"] == []


def given_back(situation: Situation) -> None:
    """[P4, its end] The test plays the job side: 0 replicas release the unit, and it is requeued.

    Upstream's test waits 90 s for a unit that its preemption evicts.
    """
    situation.quota(cpu=1)
    situation.create("u")
    situation.becomes("u", "Dequeued")
    situation.create("rival", priority=7)
    situation.stays("rival", "Enqueued")
    lowered = [{"name": "u", "replicas": 0, "running": 0}]
    situation.patch("u", {"status": {"admissions": lowered, "message": ""}})
    # The rival may get the quota before the unit's release is written: the order is undefined.
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
"""Situations by their number in upstream's list."""
