"""What tests of the kinds of the group kubeflow.org stand on: objects and random specs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.jobframework.generic_job import GenericJob
from shared_api.objects.meta import Timestamp

Json = dict[str, Any]

CHANGED: Final = Timestamp("2026-11-01T10:00:00Z")
"""When conditions have changed last."""

UNITS: Final = {"Mi": 2**20, "Gi": 2**30}


def condition(kind: str, status: str = "True", **more: str) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": CHANGED, **more}


def container(cpu: str = "1", **more: Any) -> Json:
    return {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}, **more}


def role(replicas: int | None = None, cpu: str = "1", **pod: Any) -> Json:
    """Return a role of a job as JSON."""
    spec: Json = {"template": {"spec": {"containers": [container(cpu)], **pod}}}
    return spec if replicas is None else {"replicas": replicas, **spec}


# --- demand -------------------------------------------------------------------------------------


def random_amounts(rng: random.Random) -> Json:
    amounts: Json = {}
    if rng.random() < 0.8:
        amounts["cpu"] = rng.choice([f"{rng.randrange(1, 4000)}m", rng.randrange(1, 9)])
    if rng.random() < 0.8:
        amounts["memory"] = f"{rng.randrange(1, 4096)}{rng.choice(['Mi', 'Gi'])}"
    if rng.random() < 0.3:
        amounts["nvidia.com/gpu"] = rng.randrange(0, 9)
    return amounts


def random_container(rng: random.Random) -> Json:
    resources: Json = {}
    if rng.random() < 0.9:
        resources["requests"] = random_amounts(rng)
    if rng.random() < 0.4:
        resources["limits"] = random_amounts(rng)
    return {"name": "main", "image": "x", "resources": resources}


def random_role(rng: random.Random) -> Json:
    pod: Json = {"containers": [random_container(rng) for _ in range(rng.randrange(1, 4))]}
    if rng.random() < 0.4:
        first = [random_container(rng) for _ in range(rng.randrange(1, 4))]
        pod["initContainers"] = [
            {**each, "restartPolicy": "Always"} if rng.random() < 0.3 else each for each in first
        ]
    if rng.random() < 0.2:
        pod["overhead"] = random_amounts(rng)
    replicas = {} if rng.random() < 0.2 else {"replicas": rng.randrange(0, 6)}
    return {**replicas, "template": {"spec": pod}}


def random_roles(rng: random.Random, names: Sequence[str]) -> Json:
    chosen = rng.sample(names, rng.randrange(1, len(names) + 1))
    return {name: random_role(rng) for name in chosen}


def units_of(resource: str, text: str | int) -> int:
    """Return a quantity in thousandths of cores, in bytes, or in pieces."""
    scale = 1000 if resource == "cpu" else 1
    said = str(text)
    if said.endswith("m"):
        return int(said[:-1])
    for suffix, size in UNITS.items():
        if said.endswith(suffix):
            return int(said[:-2]) * size
    return int(said) * scale


def summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def asked_by_container(body: Json) -> dict[str, int]:
    """A limit without a request is one."""
    resources = body.get("resources", {})
    asked = {**resources.get("limits", {}), **resources.get("requests", {})}
    return {resource: units_of(resource, text) for resource, text in asked.items()}


def asked_by_pod(spec: Json, further: Sequence[Json] = ()) -> dict[str, int]:
    """What runs together, or what the greediest init container needs beside earlier sidecars."""
    beside: list[dict[str, int]] = []
    needs: list[dict[str, int]] = []
    for each in [*spec.get("initContainers", []), *further]:
        asked = asked_by_container(each)
        if each.get("restartPolicy") == "Always":
            beside.append(asked)
        else:
            needs.append(summed([*beside, asked]))
    needs.append(summed([*beside, *map(asked_by_container, spec["containers"])]))
    most = {key: max(each.get(key, 0) for each in needs) for each in needs for key in each}
    overhead = {key: units_of(key, text) for key, text in spec.get("overhead", {}).items()}
    return summed([most, overhead])


def asked_by_job(roles: Json, further: Mapping[str, Sequence[Json]]) -> dict[str, int]:
    """What all pods of a job ask for; `further`: by role, what the operator puts before its own."""
    total = summed(
        {key: amount * body.get("replicas", 1) for key, amount in pod.items()}
        for name, body in roles.items()
        for pod in (asked_by_pod(body["template"]["spec"], further.get(name, ())),)
    )
    return {key: amount for key, amount in total.items() if amount}


def demand_found(adapter: GenericJob[Any], body: Json) -> dict[str, int]:
    """What the adapter finds, in the same units."""
    job = msgspec.convert(body, adapter.object_type)
    found = demand_of(adapter.pod_sets(job))
    return {key: amount for key, amount in found.items() if amount}
