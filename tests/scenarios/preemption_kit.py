"""A complete scheduler for scenarios of preemption, in which the test plays the job side."""

from __future__ import annotations

from typing import Any

from queue_scheduler.configuration import KoordQueueConfiguration
from shared_api.testing.object_builders import node_body, queue_body
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import MANAGED_BY
from tests.object_states import condition_of
from tests.queue_scheduler.scheduler_world import SchedulerWorld
from tests.queue_scheduler.shell_kit import Json

PREEMPTS = "koord-queue/enable-queueunit-preemption"
PREEMPTS_RUNNING = "koord-queue/preempt-running-queueunits"
WAITS = "koord-queue/wait-for-pods-running"
RECLAIMS = "koord-queue/reclaim-policy"
BOTH = {PREEMPTS: "true", WAITS: "true"}


class Stage:
    """A world in which the test plays the job side."""

    def __init__(self, world: SchedulerWorld) -> None:
        self.world = world

    def open(
        self,
        cpu: int,
        *,
        policy: str = "Priority",
        annotations: dict[str, str] = BOTH,
        protect: str = "0s",
    ) -> None:
        """Start with a queue `team` that was created before its quota."""
        configuration = KoordQueueConfiguration(
            plugin_configs={"ElasticQuotaV2": {"mode": "max"}},
            default_reclaim_protect_time=protect,
        )
        self.world.start(configuration=configuration)
        metadata: Any = {"annotations": dict(annotations)}
        self.world.direct.create(queue_body("team", policy=policy, metadata=metadata))
        self.world.settle()
        self.world.add_quota("team", cpu)
        self.world.settle()

    def share(self, nodes: int, quotas: dict[str, tuple[int, int, str]], mode: str) -> None:
        """Start with this many CPUs, and quotas (min, max, reclaim policy) below one parent."""
        self.world.server.direct.delete("nodes", "node")
        self.world.direct.create(node_body("node", allocatable={"cpu": nodes}))
        plugins = {"ElasticQuotaV2": {"mode": mode}}
        self.world.start(configuration=KoordQueueConfiguration(plugin_configs=plugins))
        whole = {"cpu": nodes}
        self.world.add_quota("org", min=whole, max=whole, is_parent=True)
        for name, (least, most, policy) in quotas.items():
            annotations = {RECLAIMS: policy} if policy else {}
            self.world.add_quota(
                name,
                min={"cpu": least},
                max={"cpu": most},
                parent="org",
                metadata={"annotations": annotations},
            )
        self.world.settle()

    def add(self, name: str, priority: int = 0, cpu: int = 1, **more: Any) -> None:
        """Create a unit and let the scheduler see it; the test plays its job side."""
        metadata = more.pop("metadata", {})
        marks = {**metadata.get("annotations", {}), MANAGED_BY: "controllers"}
        more["metadata"] = {**metadata, "annotations": marks}
        self.world.add_unit(name, more.pop("quota", "team"), cpu=cpu, priority=priority, **more)
        self.world.settle()

    def status(self, name: str) -> Json:
        status: Json = self.world.unit(name)["status"]
        return status

    def phase(self, name: str) -> str:
        return self.world.phase(name)

    def asked_back(self, name: str) -> int:
        """Return how many replicas of the first admission the scheduler reclaims."""
        admissions = self.status(name).get("admissions") or [{}]
        return int(admissions[0].get("reclaimState", {}).get("replicas", 0))

    def evicted(self, name: str) -> tuple[str, str]:
        """Return (status, reason) of the condition Evicted."""
        found = condition_of(self.world.unit(name), "Evicted")
        return str(found.get("status", "")), str(found.get("reason", ""))

    def run(self, name: str) -> None:
        """Report the pods of a unit as running, as its job side does."""
        admissions = [
            {**each, "running": each["replicas"]} for each in self.status(name)["admissions"]
        ]
        now = rfc3339(self.world.clock.now())
        ready = {
            "type": "PodsReady", "status": "True", "reason": "PodsRunning", "message": "",
            "lastTransitionTime": now,
        }  # fmt: skip
        kept = [c for c in self.status(name)["conditions"] if c["type"] != "PodsReady"]
        self.write(
            name, {"phase": "Running", "admissions": admissions, "conditions": [*kept, ready]}
        )

    def stop(self, name: str) -> None:
        """Report the job of an evicted unit as stopped, as its job side does."""
        conditions = [
            {**each, "status": "False", "reason": "Requeued"} if each["type"] == "Evicted" else each
            for each in self.status(name)["conditions"]
        ]
        self.write(name, {"phase": "Enqueued", "admissions": [], "conditions": conditions})

    def write(self, name: str, status: Json) -> None:
        self.world.direct.patch(
            "queueunits", name, {"status": status}, namespace="default", subresource="status"
        )
        self.world.settle()
