"""The controllers over the fake API server, every step called on one thread."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from queue_controllers.configuration import Configuration, parse_flags
from queue_controllers.extension_list import find_extensions
from queue_controllers.wiring import Controllers, build_controllers
from shared_api.crds import QUEUE_UNIT
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.informer.shared_informer import SharedInformer
from shared_api.leader_election import Leadership, SoleLeader
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase, Writer, status_of_move
from shared_api.testing.object_builders import namespace_body, priority_class_body
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.timestamps import rfc3339
from tests.sample_jobs import QUOTA_CRD
from tests.stepped_host import MOST_CALLS, SteppedHost, exhaust, settle

QUOTA_LABEL = "quota.scheduling.koordinator.sh/name"
TICK_SECONDS = 0.02

Json = dict[str, Any]


class World:
    """A cluster, and what a test does in it."""

    def __init__(
        self, *, quotas: bool = True, beside: tuple[FakeApiServer, VirtualClock] | None = None
    ) -> None:
        """Make a cluster; `beside`: use the one that another program's test has made."""
        if beside is None:
            self.clock = VirtualClock()
            self.server = FakeApiServer(clock=self.clock, rng=random.Random(7))
            self.server.direct.create(QUEUE_UNIT.body())
        else:
            self.server, self.clock = beside
        self.direct = self.server.direct
        if quotas:
            self.install_quotas()
        for name in ("team", "other"):
            self.direct.create(namespace_body(name))
        self.controllers: Controllers | None = None

    def start(
        self,
        *flags: str,
        leadership: Leadership | None = None,
        configuration: Configuration | None = None,
    ) -> Controllers:
        """Start the controllers, in place of those that ran before."""
        self.host = host = SteppedHost(self.server, self.clock, leadership or SoleLeader("test"))
        self.controllers = build_controllers(
            host,
            parse_flags(flags),
            configuration or Configuration(),
            find_extensions(),
            informer_wait_seconds=0.0,
        )
        self.settle()
        return self.controllers

    def settle(self, seconds: float = 1.0, most: int = MOST_CALLS) -> None:
        """Call all steps, again and again, while so much time passes."""
        assert self.controllers is not None
        settle(
            self.controllers.steps,
            self.clock,
            seconds,
            tick=TICK_SECONDS,
            most=most,
            skips=True,
        )

    def deliver(self) -> None:
        """Let all caches read what has changed."""
        assert self.controllers is not None
        for step in self.controllers.steps():
            if isinstance(getattr(step, "__self__", None), SharedInformer):
                exhaust(step)

    def install_quotas(self) -> None:
        """Let the API server have ElasticQuotas."""
        self.direct.create(QUOTA_CRD)

    def priority_class(self, name: str, value: int | None = 1000, **more: Any) -> None:
        """Create or replace a PriorityClass as an administrator does; without a value, delete it.

        The value of an existing one may not be changed.
        """
        if any(each["metadata"]["name"] == name for each in self.direct.list("priorityclasses")):
            self.direct.delete("priorityclasses", name)
        if value is not None:
            self.direct.create({**priority_class_body(name, value), **more})

    def service_account(self, name: str) -> None:
        """Create a ServiceAccount where jobs are."""
        body = {"apiVersion": "v1", "kind": "ServiceAccount"}
        self.direct.create({**body, "metadata": {"name": name, "namespace": "team"}})

    # --- what people and other programs do ---------------------------------------------------

    def job(self, name: str = "main", *, namespace: str = "team", **changes: Any) -> Json:
        """Create a Job of two pods in quota gold, or with other `labels`."""
        labels = {QUOTA_LABEL: "gold"} if changes.pop("labelled", True) else {}
        metadata = {
            "name": name,
            "namespace": namespace,
            "labels": changes.pop("labels", labels),
            "annotations": changes.pop("annotations", {}),
            "ownerReferences": changes.pop("owners", []),
        }
        container = {
            "name": "c",
            "image": "i",
            "resources": {"requests": {"cpu": "1"}},
            "env": [{"name": "LONG", "value": "x" * 1000}],
        }
        pod = {"restartPolicy": "Never", "containers": [container]}
        spec = {
            "suspend": True,
            "parallelism": 2,
            "completions": 2,
            "template": {"spec": pod},
            **changes,
        }
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
        return self.direct.create(body)

    def admit(self, name: str = "main", *, namespace: str = "team", replicas: int = 2) -> None:
        """Do what the scheduler does when it admits a unit."""
        self._admit(name, {"main": replicas}, namespace)

    def admit_unit(self, name: str, **fewer: int) -> None:
        """Do it with a unit of any kind; `fewer`: of these pod sets not all that it asks for."""
        pod_sets = self.get_unit(name)["spec"]["podSet"]
        self._admit(name, {each["name"]: each["count"] for each in pod_sets} | fewer, "team")

    def _admit(self, name: str, counts: Mapping[str, int], namespace: str) -> None:
        admissions = [
            {"name": each, "replicas": count, "running": 0} for each, count in counts.items()
        ]
        times = dict.fromkeys(("lastAllocateTime", "lastUpdateTime"), self.now())
        status = {"phase": "Dequeued", "admissions": admissions, **times}
        self.patch_unit_status(status, name, namespace=namespace)

    def return_to_line(self) -> None:
        """Do what the scheduler does when a backoff is over: the count stays."""
        unit = msgspec.convert(self.get_unit(), QueueUnit)
        now = Timestamp(self.now())
        status = status_of_move(unit, Phase.ENQUEUED, writer=Writer.SCHEDULER, now=now)
        self.patch_unit_status({**status, "requeueState": {"requeueAt": None}})

    def now(self) -> str:
        return rfc3339(self.clock.now())

    def patch_unit_status(self, status: Json, name: str = "main", namespace: str = "team") -> None:
        self.direct.patch(
            "queueunits", name, {"status": status}, namespace=namespace, subresource="status"
        )

    def patch_job(self, patch: Json, name: str = "main", namespace: str = "team") -> None:
        self.direct.patch("jobs", name, patch, namespace=namespace)

    def patch_job_status(self, status: Json, name: str = "main", namespace: str = "team") -> None:
        self.direct.patch(
            "jobs", name, {"status": status}, namespace=namespace, subresource="status"
        )

    def patch_pod_status(self, name: str, **status: Any) -> None:
        self.direct.patch("pods", name, {"status": status}, namespace="team", subresource="status")

    def run_a_job(self, **changes: Any) -> None:
        """Bring a Job of two pods to Running, from the start of the program on."""
        self.start()
        self.job(**changes)
        self.settle()
        self.admit()
        self.settle()
        self.run_pods()
        self.settle()
        assert self.phase() == "Running"

    def run_pods(self, count: int = 2, phase: str = "Running", name: str = "main") -> None:
        """Do what job controller, scheduler and kubelet do with a released job."""
        job = self.get_job(name)
        for number in range(count):
            self.direct.create(pod_of(job, f"{name}-{number}"))
            self.patch_pod_status(f"{name}-{number}", phase=phase)
        started = {"startTime": self.now(), "active": count, "ready": count}
        self.patch_job_status(started, name)

    def end_pods(self, count: int = 2, name: str = "main") -> None:
        """Let the pods of a suspended job go, and the job controller say so."""
        for number in range(count):
            self.direct.delete("pods", f"{name}-{number}", "team")
        said = {
            "type": "Suspended",
            "status": "True",
            "reason": "JobSuspended",
            "message": "",
            "lastTransitionTime": self.now(),
        }
        gone = {"active": None, "ready": None, "startTime": None, "conditions": [said]}
        self.patch_job_status(gone, name)

    def complete(self, name: str = "main") -> None:
        """Let the job succeed."""
        ended = {
            "conditions": [
                {"type": each, "status": "True", "lastTransitionTime": self.now()}
                for each in ("SuccessCriteriaMet", "Complete")
            ],
            "active": None,
            "ready": None,
            "completionTime": self.now(),
        }
        self.patch_job_status(ended, name)

    # --- what there is ------------------------------------------------------------------------

    def get_job(self, name: str = "main", namespace: str = "team") -> Json:
        return self.direct.get("jobs", name, namespace)

    def get_unit(self, name: str = "main", namespace: str = "team") -> Json:
        return self.direct.get("queueunits", name, namespace)

    def units(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.direct.list("queueunits")]

    def phase(self, name: str = "main") -> str:
        return str(self.get_unit(name)["status"]["phase"])

    def is_suspended(self, name: str = "main") -> bool:
        return bool(self.get_job(name)["spec"]["suspend"])

    def looks(self) -> float:
        """Return how many looks at jobs were asked for."""
        metric = "workqueue_adds_total"
        return self.host.metrics.registry.get_sample_value(metric, {"name": "job"}) or 0.0

    def events(self) -> set[str]:
        """Return the reasons of all events; they go out with the time."""
        self.settle(2.0)
        return {each["reason"] for each in self.direct.list("events.events.k8s.io")}

    def notes_on_jobs(self) -> dict[str, str]:
        """Return the notes of all events on Jobs by their reason; they go out with the time."""
        self.settle(2.0)
        events = self.direct.list("events.events.k8s.io")
        on_jobs = (each for each in events if each["regarding"]["kind"] == "Job")
        return {each["reason"]: each["note"] for each in on_jobs}


def pod_of(job: Json, name: str, *, annotations: Json | None = None) -> Json:
    """Return a pod that the job controls."""
    meta = job["metadata"]
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "ownerReferences": [owner],
            "annotations": annotations or {},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def make_unit(
    world: World,
    name: str = "main",
    *,
    consumer: dict[str, str],
    annotations: Json | None = None,
    namespace: str = "team",
) -> None:
    """Make a unit by hand, of Job main unless `consumer` has others of these fields."""
    metadata: Json = {"name": name, "namespace": namespace}
    if annotations:
        metadata["annotations"] = annotations
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "main", **consumer}
    world.direct.create(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "QueueUnit",
            "metadata": metadata,
            "spec": {"consumerRef": reference, "request": {"cpu": "2"}},
        }
    )


def evict_after_release(world: World) -> None:
    """Bring a job that is released and has no pods back into the queue."""
    assert not world.is_suspended()
    asked = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "x"}
    world.patch_unit_status({"conditions": [{**asked, "lastTransitionTime": world.now()}]})
    world.settle(2.0)
    world.end_pods(0)
    world.settle()
    assert world.phase() == "Enqueued"
