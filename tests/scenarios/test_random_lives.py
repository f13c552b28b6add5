"""Jobs to which anything happens, in an order by chance; in the end each is where it belongs.

Users, the scheduler, the job controller and a faulty API server act on three jobs, while the
controllers are restarted and at times run twice. When all that is over, what a job and its unit
say must fit together, and nothing more is written.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from queue_controllers.wiring import Controllers
from shared_api.client.errors import ApiFailure
from shared_api.testing.faults import Match
from tests.queue_controllers.conftest import QUOTA_LABEL, World, exhaust, pod_of

pytestmark = pytest.mark.scenario

Json = dict[str, Any]

HAPPENINGS = 35
NAMES = ("a", "b", "c")
ACTIVE = "scheduling.x-k8s.io/active"
LIMIT = "koord-queue/backoff-limit"
LIMIT_REACHED = "koord-queue/backoff-limit-reached"
TIMES = {
    "koord-queue/running-timeout": ("1s", "5s", "soon", None),
    "koord-queue/partial-running-timeout": ("1s", "5s", None),
    "koord-queue/backoff-timeout": ("1s", "1h", None),
    LIMIT: ("1", "2", "0", None),
}
"""What users say of a job's patience, by annotation."""
REFUSALS = (403, 409, 422, 500, 503)
"""Not 404: of an object that is there the server never says so, and a deletion believes it."""


class Cluster(World):
    """A cluster whose controllers may run twice."""

    def __init__(self) -> None:
        super().__init__()
        self.others: tuple[Controllers, ...] = ()

    def settle(self, seconds: float = 1.0) -> None:
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            for controllers in (self.controllers, *self.others):
                assert controllers is not None
                for step in controllers.steps():
                    exhaust(step)
            self.clock.advance(0.02)

    def start_beside(self) -> None:
        """Start controllers beside those that run."""
        before = self.controllers
        assert before is not None
        self.others = ()
        self.start()
        self.others = (before,)


class Lives:
    """What happens to the jobs of a cluster."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = Cluster()
        self.world.start()
        self.story: list[str] = []
        self._pods = 0
        self._to_all: tuple[Callable[[], None], ...] = (
            self.create,
            self.create,
            self.restart,
            self.world.start_beside,
            self.lose_watches,
            self.refuse,
        )
        self._to_one: tuple[Callable[[Json], None], ...] = (
            *(self.unsuspend, self.suspend, self.label, self.scale, self.set_active),
            *(self.set_time, self.set_time, self.set_time),
            *(self.admit, self.admit, self.evict, self.mark, self.delete_unit),
            *(self.run_controller, self.run_controller, self.run_controller),
            *(self.complete, self.delete),
        )

    def happen(self) -> None:
        """Let something happen, and some time pass."""
        jobs = self.jobs()
        one = self.rng.choice(self._to_one) if jobs and self.rng.random() < 0.75 else None
        some = self.rng.choice(self._to_all)
        try:
            if one is None:
                self.story.append(some.__name__)
                some()
            else:
                job = self.rng.choice(jobs)
                self.story.append(f"{one.__name__} {job['metadata']['name']}")
                one(job)
        except ApiFailure as refusal:
            self.story.append(f"refused: {refusal}")
        self.world.settle(self.rng.choice((0.02, 0.1, 0.4, 1.5, 4.0)))

    def come_to_rest(self) -> None:
        """Let the faults end, and everybody do what he has to do."""
        self.world.server.faults.clear()
        for _ in range(6):
            self.world.settle(12.0)
            for job in self.jobs():
                self.run_controller(job)
        self.world.settle(70.0)

    # --- what there is ------------------------------------------------------------------------

    def jobs(self) -> list[Json]:
        return self.world.direct.list("jobs")

    def units_of(self, job: Json) -> list[Json]:
        uid = job["metadata"]["uid"]
        units = self.world.direct.list("queueunits")
        return [each for each in units if each["spec"]["consumerRef"]["uid"] == uid]

    def pods_of(self, job: Json) -> list[Json]:
        uid = job["metadata"]["uid"]
        pods = self.world.direct.list("pods")
        return [each for each in pods if owner_uid(each) == uid]

    # --- what happens to all ------------------------------------------------------------------

    def create(self) -> None:
        name, suspend = self.rng.choice(NAMES), self.rng.random() < 0.5
        times = {key: self.rng.choice(values) for key, values in sorted(TIMES.items())}
        said = {key: text for key, text in times.items() if text is not None}
        self.world.job(name, suspend=suspend, completions=6, annotations=said)

    def restart(self) -> None:
        self.world.others = ()
        self.world.start()

    def lose_watches(self) -> None:
        self.world.server.drop_watches(Match(plural=self.rng.choice(("jobs", "queueunits"))))

    def refuse(self) -> None:
        verb, plural = (
            self.rng.choice(("create", "patch", "delete")),
            self.rng.choice(("jobs", "queueunits")),
        )
        self.world.server.faults.fail(
            self.rng.choice(REFUSALS), times=2, match=Match(verb=verb, plural=plural)
        )

    # --- what users do ------------------------------------------------------------------------

    def patch(self, job: Json, body: Json) -> None:
        self.world.patch_job(body, job["metadata"]["name"])

    def unsuspend(self, job: Json) -> None:
        self.patch(job, {"spec": {"suspend": False}})

    def suspend(self, job: Json) -> None:
        if not has_ended(job):
            self.patch(job, {"spec": {"suspend": True}})

    def label(self, job: Json) -> None:
        named = self.rng.choice(("gold", "silver"))
        self.patch(job, {"metadata": {"labels": {QUOTA_LABEL: named}}})

    def scale(self, job: Json) -> None:
        self.patch(job, {"spec": {"parallelism": self.rng.choice((0, 1, 2, 4))}})

    def set_active(self, job: Json) -> None:
        said = self.rng.choice(("true", "false", "true", None))
        self.patch(job, {"metadata": {"annotations": {ACTIVE: said}}})

    def set_time(self, job: Json) -> None:
        key = self.rng.choice(sorted(TIMES))
        self.patch(job, {"metadata": {"annotations": {key: self.rng.choice(TIMES[key])}}})

    def delete(self, job: Json) -> None:
        how = self.rng.choice(("Background", "Orphan"))
        self.world.direct.delete("jobs", job["metadata"]["name"], "team", propagation=how)
        for pod in self.pods_of(job):
            self.delete_pod(pod)

    def delete_unit(self, job: Json) -> None:
        for unit in self.units_of(job):
            self.world.direct.delete("queueunits", unit["metadata"]["name"], "team")

    def mark(self, job: Json) -> None:
        marked = {"metadata": {"annotations": {"koord-queue/adopted": "true"}}}
        for unit in self.units_of(job):
            name = unit["metadata"]["name"]
            self.world.direct.patch("queueunits", name, marked, namespace="team")

    # --- what the scheduler does --------------------------------------------------------------

    def admit(self, job: Json) -> None:
        for unit in self.units_of(job):
            if unit["status"]["phase"] not in {"Enqueued", "TimeoutBackoff"}:
                continue
            if unit["spec"].get("active") is False or is_booked_by_mark(unit):
                continue
            (pod_set,) = unit["spec"]["podSet"]
            status = {
                "phase": "Dequeued",
                "lastAllocateTime": self.world.now(),
                "conditions": with_eviction(unit, "False", "Requeued", self.world.now()),
                "admissions": [
                    {"name": pod_set["name"], "replicas": pod_set["count"], "running": 0}
                ],
            }
            self.world.patch_unit_status(status, unit["metadata"]["name"])

    def evict(self, job: Json) -> None:
        for unit in self.units_of(job):
            if unit["status"]["phase"] in {"Dequeued", "Running"}:
                why = self.rng.choice(("Preempted", "BackoffTimeout"))
                asked = with_eviction(unit, "True", why, self.world.now())
                self.world.patch_unit_status({"conditions": asked}, unit["metadata"]["name"])

    # --- what the job controller and kubelets do ----------------------------------------------

    def run_controller(self, job: Json) -> None:
        """Do one round of the job controller's for a job, and of its pods' kubelets."""
        name = job["metadata"]["name"]
        job = self.world.get_job(name)
        if has_ended(job):
            return
        suspended, pods = bool(job["spec"].get("suspend")), self.pods_of(job)
        wanted = 0 if suspended else job["spec"]["parallelism"]
        for pod in pods[:wanted]:
            self.set_phase(pod["metadata"]["name"], "Running")
        for pod in pods[wanted:]:
            self.delete_pod(pod)
        for _ in range(wanted - len(pods)):
            self._pods += 1
            made = self.world.direct.create(pod_of(job, f"{name}-{self._pods}"))
            self.set_phase(made["metadata"]["name"], self.rng.choice(("Pending", "Running")))
        said = {"type": "Suspended", "status": str(suspended), "reason": "x", "message": ""}
        before = [each for each in conditions_of(job) if each["type"] == "Suspended"]
        same = [each for each in before if each["status"] == said["status"]]
        status = {
            "active": wanted or None,
            "startTime": None if suspended else self.world.now(),
            "conditions": same or [{**said, "lastTransitionTime": self.world.now()}],
        }
        if not suspended and (since := job.get("status", {}).get("startTime")):
            status["startTime"] = since
        self.world.patch_job_status(status, name)

    def set_phase(self, pod: str, phase: str) -> None:
        status = {"status": {"phase": phase}}
        self.world.direct.patch("pods", pod, status, namespace="team", subresource="status")

    def delete_pod(self, pod: Json) -> None:
        self.world.direct.delete("pods", pod["metadata"]["name"], "team")

    def complete(self, job: Json) -> None:
        if job["spec"].get("suspend") or has_ended(job):
            return
        for pod in self.pods_of(job):
            self.delete_pod(pod)
        self.world.complete(job["metadata"]["name"])


def owner_uid(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences", [])
    return owners[0]["uid"] if owners else ""


def conditions_of(of: Json) -> list[Json]:
    found: list[Json] = of.get("status", {}).get("conditions", [])
    return found


def is_true(of: Json, *kinds: str) -> bool:
    return any(each["type"] in kinds and each["status"] == "True" for each in conditions_of(of))


def has_ended(job: Json) -> bool:
    return is_true(job, "Complete", "Failed")


def with_eviction(unit: Json, status: str, reason: str, now: str) -> list[Json]:
    """Return a unit's conditions with the one about its eviction."""
    others = [each for each in conditions_of(unit) if each["type"] != "Evicted"]
    asked = {"type": "Evicted", "status": status, "reason": reason, "message": "m"}
    return [*others, {**asked, "lastTransitionTime": now}]


def is_booked_by_mark(unit: Json) -> bool:
    marked = unit["metadata"]["annotations"].get("koord-queue/adopted") == "true"
    return marked and all(each["type"] != "Evicted" for each in conditions_of(unit))


def faults_of(job: Json, units: list[Json]) -> list[str]:
    """Return what does not fit together about a job at rest."""
    if not units:
        return [] if has_ended(job) else ["it has no unit"]
    if len(units) > 1:
        return ["it has two units"]
    (unit,) = units
    phase, suspended = unit["status"]["phase"], bool(job["spec"].get("suspend"))
    contested = is_true(unit, "SuspendContested")
    if has_ended(job):
        wrong = {"its unit has not ended": phase != "Succeed"}
    elif phase in {"Dequeued", "Running"}:
        evicted = is_true(unit, "Evicted")
        runs = not suspended and job["spec"]["parallelism"] > 0
        wrong = {
            "its eviction is not carried out": evicted and not contested,
            "it is admitted and suspended": suspended and not evicted,
            "it runs and its unit does not say so": runs and phase == "Dequeued",
        }
    else:
        labels, pod_set = unit["metadata"]["labels"], unit["spec"]["podSet"][0]
        may_run = contested or is_booked_by_mark(unit)
        out_of_step = (
            labels[QUOTA_LABEL] != job["metadata"]["labels"][QUOTA_LABEL]
            or pod_set["count"] != job["spec"]["parallelism"]
        )
        wrong = {
            "it runs and is not admitted": not suspended and not may_run,
            "its unit does not follow it": suspended and out_of_step,
        }
    wrong["it is not as active as it should be"] = not has_ended(job) and is_wrongly_active(
        job, unit
    )
    return [fault for fault, there in wrong.items() if there]


def is_wrongly_active(job: Json, unit: Json) -> bool:
    """Say whether a unit at rest is active against its limit, or against what its job says."""
    active, annotations = unit["spec"].get("active"), job["metadata"].get("annotations", {})
    reached = is_true(unit, "BackoffLimitReached")
    if LIMIT_REACHED in unit["metadata"]["annotations"]:
        return active is not False or not (reached or is_true(unit, "Evicted"))
    limit, put_back = int(annotations.get(LIMIT, 0)), unit["status"].get("requeueState", {})
    waits = unit["status"]["phase"] in {"Enqueued", "TimeoutBackoff"}
    if reached or (waits and 0 < limit <= put_back.get("count", 0)):
        return True
    said = annotations.get(ACTIVE)
    return said is not None and active is not (said == "true")


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_to_a_job_it_ends_up_where_it_belongs(seed: int) -> None:
    lives = Lives(seed)
    for _ in range(HAPPENINGS):
        lives.happen()
    lives.come_to_rest()
    jobs = lives.jobs()
    faults = {each["metadata"]["name"]: faults_of(each, lives.units_of(each)) for each in jobs}
    assert not any(faults.values()), (faults, lives.story)
    alive = {each["metadata"]["uid"] for each in jobs}
    for unit in lives.world.direct.list("queueunits"):
        assert unit["spec"]["consumerRef"]["uid"] in alive, (unit, lives.story)
    before = lives.world.writes()
    lives.world.settle(30.0)
    assert lives.world.writes() == before, lives.story
