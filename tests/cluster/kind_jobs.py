"""Jobs of kinds with CRDs of their own, as tests write them, and the state of their units.

In `kind_world` all jobs are samples; here each test gives the spec of its job.
"""

from __future__ import annotations

from typing import Any, Final

from shared_api.well_known_labels import MIN_RESOURCES, RELEASED_AT, SUSPEND
from tests.cluster.kind_kit import ADAPTERS, path_of, switch_of
from tests.cluster.kind_table import value_at
from tests.cluster.observer import Observer
from tests.cluster.played_operators import JSON_PATCH, Operator
from tests.cluster.queue_world import MERGE, QUOTA_LABEL, QueueWorld, running_of
from tests.sample_jobs import sample
from tests.waiting import until

Json = dict[str, Any]
Sets = list[tuple[str, int]]

NAMES: Final = {"suspend": SUSPEND, "needs": MIN_RESOURCES}
"""Annotations, by the names that tests use for them."""


class Kinds:
    """Jobs of these kinds, in one namespace."""

    def __init__(self, world: QueueWorld, observer: Observer) -> None:
        self.world = world
        self.observer = observer
        self._uids: dict[str, str] = {}

    def create(
        self,
        key: str,
        name: str,
        spec: Json,
        quota: str = "",
        *,
        status: Json | None = None,
        **annotations: str,
    ) -> None:
        """Create a job, which its CRD must accept as it is; a status only where it has no path."""
        body = sample(key)
        labels = {QUOTA_LABEL: quota} if quota else {}
        given = {NAMES[each]: text for each, text in annotations.items()}
        body["metadata"] = {"name": name, "labels": labels, "annotations": given}
        body |= {"spec": spec, **({"status": status} if status else {})}
        path = f"{path_of(ADAPTERS[key].kind, 'default')}?fieldValidation=Strict"
        made = self.world.api.request("POST", path, body)
        self._uids[name] = made["metadata"]["uid"]

    def body(self, key: str, name: str) -> Json:
        found: Json = self.world.api.request("GET", f"{self._path(key)}/{name}")
        return found

    def is_suspended(self, key: str, name: str) -> bool:
        """Return whether its own suspend field is set."""
        return value_at(self.body(key, name), switch_of(key)) is True

    def merge(self, key: str, name: str, **metadata: Json) -> None:
        """Change labels or annotations."""
        path = f"{self._path(key)}/{name}"
        self.world.api.request("PATCH", path, {"metadata": metadata}, content_type=MERGE)

    def say(self, key: str, name: str, status: Json) -> None:
        """Write a status as the operator does."""
        patch = [{"op": "add", "path": "/status", "value": status}]
        path = f"{self._path(key)}/{name}{'' if key == 'workflow' else '/status'}"
        self.world.api.request("PATCH", path, patch, content_type=JSON_PATCH)

    def operator(self, key: str) -> Operator:
        path = self._path(key)
        return Operator(self.world.api, key, path, has_status_path=key != "workflow")

    def delete(self, key: str, name: str) -> None:
        """Delete a job and what was created for it, and wait until its unit is gone."""
        operator = self.operator(key)
        operator.objects.delete(f"{self._path(key)}/{name}")
        operator.collect(name)
        until(lambda: not self.unit(name))

    def unit(self, name: str) -> Json:
        """Return the unit of a job, {} while there is none."""
        return self.world.unit_of_uid(self._uids[name])

    def made_unit(self, name: str) -> Json:
        """Wait for the unit of a job."""
        return until(lambda: self.unit(name))

    def phase(self, name: str) -> str:
        return str(self.unit(name).get("status", {}).get("phase", ""))

    def await_phase(self, name: str, phase: str) -> Json:
        """Wait until its unit is in this phase, and return it."""
        until(lambda: self.phase(name) == phase)
        return self.unit(name)

    def await_released(self, key: str, name: str) -> None:
        """Wait until it is released, and annotated with the time of the release."""
        until(lambda: not self.is_suspended(key, name))
        assert self.phase(name) == "Dequeued"
        assert self.body(key, name)["metadata"]["annotations"][RELEASED_AT]

    def phases(self, name: str) -> list[str]:
        """Return the phases that its unit has had, in order."""
        seen = sorted(self.observer.seen, key=lambda each: each.version)
        units = [u.body for u in seen if u.body["spec"]["consumerRef"]["uid"] == self._uids[name]]
        phases = [each.get("status", {}).get("phase", "") for each in units]
        return [one for one, before in zip(phases, ["", *phases], strict=False) if one != before]

    def running(self, name: str) -> dict[str, int]:
        """Return how many pods of each set run, by its unit's status."""
        return running_of(self.unit(name))

    @staticmethod
    def _path(key: str) -> str:
        return path_of(ADAPTERS[key].kind, "default")


def pod_of(cpu: str = "1", memory: str = "1Gi", *, labels: Json | None = None, **spec: Any) -> Json:
    """Return a pod template of one container."""
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "pytorch", "image": "none", "resources": {"requests": requests}}
    return {"metadata": {"labels": labels or {}}, "spec": {"containers": [container], **spec}}


# --- their specs ----------------------------------------------------------------------------------


def torch(*, suspend: bool = True, **roles: Json) -> Json:
    """Return the spec of a PyTorchJob; each role is a template, or a count and a template."""
    specs = {
        role: each if "template" in each else {"template": each} for role, each in roles.items()
    }
    return {"runPolicy": {"suspend": suspend}, "pytorchReplicaSpecs": specs}


def ray(*groups: tuple[str, int], **more: Any) -> Json:
    """Return the spec of a RayJob with a head of 2 cores and workers of 1 in groups."""
    spec: Json = sample("rayjob")["spec"] | more
    cluster = spec["rayClusterSpec"]
    cluster["headGroupSpec"]["template"] = pod_of("2", "4Gi")
    (group,) = cluster["workerGroupSpecs"]
    group |= {"numOfHosts": 1, "maxReplicas": 3, "template": pod_of("1", "2Gi")}
    cluster["workerGroupSpecs"] = [{**group, "groupName": n, "replicas": r} for n, r in groups]
    return spec


def spark(*, suspend: bool | None = True, **more: Any) -> Json:
    """Return the spec of a SparkApplication in Java: a driver of a core, an executor of another."""
    few = {"driver": {"cores": 1, "memory": "1g"}, "executor": {"cores": 1, "instances": 1}}
    spec: Json = sample("sparkapp")["spec"] | {"type": "Java", **few, **more}
    del spec["suspend"]
    return spec if suspend is None else spec | {"suspend": suspend}


def workflow(*, suspend: bool = True, step: Json | None = None, **more: Any) -> Json:
    """Return the spec of the sample, perhaps with one more template."""
    spec: Json = sample("workflow")["spec"] | {"suspend": suspend, **more}
    return spec | {"templates": [*spec["templates"], *([step] if step else [])]}
