"""Jobs that consist of pods: the pods as the pod cache has them, and in a World."""

from __future__ import annotations

from typing import Any

import msgspec

from queue_controllers.jobframework.pod_template import ScheduledPod
from tests.queue_controllers.controllers_world import World

GATE = "koord-queue/admission"
QUEUE = "koord-queue/queue-name"
KINDS = "--enabled-extensions=pod,podgroup,statefulset,leaderworkerset"
RING = [f"ring-{number}" for number in range(3)]

Json = dict[str, Any]


def build_pod(
    name: str,
    *,
    phase: str = "Pending",
    gated: bool = True,
    cpu: str = "1",
    second: int = 0,
    owner: tuple[str, str, str] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    deleted: bool = False,
    **spec: Any,
) -> ScheduledPod:
    """Return a pod of queue gold; `owner`: apiVersion, kind and name of its controller."""
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "creationTimestamp": f"2026-01-01T00:00:{second:02}Z",
        "labels": {QUEUE: "gold", **(labels or {})},
        "annotations": annotations or {},
    }
    if owner is not None:
        version, kind, of = owner
        who = {"apiVersion": version, "kind": kind, "name": of, "uid": f"uid-{of}"}
        meta["ownerReferences"] = [{**who, "controller": True}]
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    container = {"name": "c", "image": f"i:{name}", "resources": {"requests": {"cpu": cpu}}}
    body = {
        "metadata": meta,
        "spec": {
            "containers": [container],
            "schedulingGates": [{"name": GATE}] if gated else [],
            **spec,
        },
        "status": {"phase": phase},
    }
    return msgspec.convert(body, ScheduledPod)


def make_pod(
    world: World, name: str = "solo", *, gated: bool = True, cpu: str = "1", **metadata: Any
) -> Json:
    """Create a pod that names its queue; `memory`: it asks for that, too."""
    labels = {QUEUE: "gold", **metadata.pop("labels", {})}
    requests = {"cpu": cpu}
    if memory := metadata.pop("memory", ""):
        requests["memory"] = memory
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    spec: Json = {"containers": [container], "nodeSelector": {"zone": "a"}}
    if gated:
        spec["schedulingGates"] = [{"name": GATE}, {"name": "example.com/other"}]
    meta = {"name": name, "namespace": "team", "labels": labels, **metadata}
    return world.direct.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def pod(world: World, name: str = "solo") -> Json:
    return world.direct.get("pods", name, "team")


def gates(world: World, name: str = "solo") -> list[str]:
    return [each["name"] for each in pod(world, name)["spec"].get("schedulingGates", [])]


def run(world: World, *names: str, phase: str = "Running") -> None:
    for name in names:
        world.patch_pod_status(name, phase=phase)


def evict(world: World, unit: str) -> None:
    """Request a unit's eviction as the scheduler does."""
    said = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "Preempted by another",
        "lastTransitionTime": world.now(),
    }
    conditions = [
        each
        for each in world.get_unit(unit)["status"].get("conditions", [])
        if each["type"] != "Evicted"
    ]
    world.patch_unit_status({"conditions": [*conditions, said]}, unit)


def pod_sets(world: World, unit: str) -> dict[str, int]:
    return {each["name"]: each["count"] for each in world.get_unit(unit)["spec"]["podSet"]}


def reasons(world: World) -> list[str]:
    return [each["reason"] for each in world.direct.list("events")]


def grouped(world: World, name: str, *, total: str = "3", **changes: Any) -> Json:
    return make_pod(
        world,
        name,
        labels={"kueue.x-k8s.io/pod-group-name": "ring"},
        annotations={"kueue.x-k8s.io/pod-group-total-count": total},
        **changes,
    )


def make_ring(world: World) -> None:
    for name in RING:
        grouped(world, name)
    world.settle()


def make_set(world: World, replicas: int = 3, **metadata: Any) -> Json:
    labels = {"app": "db"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "serviceName": "db",
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    }
    meta = {"name": "db", "namespace": "team", **metadata}
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}
    return world.direct.create(body)


def of_set(world: World, made: Json, number: int, **metadata: Any) -> None:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "db",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    make_pod(world, f"db-{number}", ownerReferences=[owner], **metadata)


def of_group(world: World, number: int, *, size: str = "3", memory: str = "") -> None:
    """Create a pod of the second group of LeaderWorkerSet llm."""
    name = "llm-1" if number == 0 else f"llm-1-{number}"
    prefix = "leaderworkerset.sigs.k8s.io"
    labels = {
        f"{prefix}/name": "llm",
        f"{prefix}/group-index": "1",
        f"{prefix}/worker-index": str(number),
    }
    cpu = "1" if number == 0 else "2"
    notes = {f"{prefix}/size": size}
    make_pod(world, name, labels=labels, annotations=notes, cpu=cpu, memory=memory)


def make_lws(world: World, size: int = 3) -> None:
    """Create LeaderWorkerSet llm, whose workers ask for two cpu."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    template = {"size": size, "workerTemplate": {"spec": {"containers": [container]}}}
    world.direct.create(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "llm", "namespace": "team"},
            "spec": {"leaderWorkerTemplate": template},
        }
    )
