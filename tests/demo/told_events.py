"""Builds the events of feeds, for tests of what checks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.demo.event_feed import Seen

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


class Story:
    """Builds events in order, with increasing versions and a second between two."""

    def __init__(self) -> None:
        self.reported: list[Seen] = []

    def add(self, plural: str, body: Json, *, is_gone: bool = False) -> Seen:
        number = len(self.reported) + 1
        seen = Seen(plural=plural, body=body, is_gone=is_gone, version=number, at=float(number))
        self.reported.append(seen)
        return seen

    def quota(self, name: str, most: int, *, parent: str = "") -> None:
        labels = {"quota.scheduling.koordinator.sh/parent": parent}
        spec = {"min": {GPU: "1"}, "max": {GPU: str(most)}}
        self.add("elasticquotas", {"metadata": {"name": name, "labels": labels}, "spec": spec})

    def job(self, name: str, *, suspend: bool, done: bool = False, pods: int = 1) -> None:
        status: Json = {}
        if done:
            ended = {"type": "Complete", "status": "True"}
            status = {"conditions": [ended], "succeeded": pods}
        self.add("jobs", job_body(name, suspend=suspend, status=status, pods=pods))

    def unit(self, name: str, phase: str, gpus: int = 1, *, quota: str = "team") -> None:
        self.add("queueunits", unit_body(name, phase, gpus, quota=quota))

    def pod(self, job: str, phase: str = "Running", gpus: int = 1, *, name: str = "") -> None:
        self.add("pods", pod_body(job, phase, gpus, name=name or f"{job}-pod"))

    def whole_life(self, name: str, gpus: int = 1) -> None:
        """Add the events of a correct life."""
        self.job(name, suspend=True)
        self.unit(name, "Enqueued", gpus)
        self.unit(name, "Dequeued", gpus)
        self.job(name, suspend=False)
        self.pod(name, "Pending", gpus)
        self.pod(name, "Running", gpus)
        self.unit(name, "Running", gpus)
        self.pod(name, "Succeeded", gpus)
        self.job(name, suspend=False, done=True)
        self.unit(name, "Succeed", gpus)


def container(gpus: int) -> Json:
    return {"containers": [{"name": "worker", "resources": {"requests": {GPU: str(gpus)}}}]}


def job_body(name: str, *, suspend: bool, status: Json, pods: int = 1) -> Json:
    return {
        "metadata": {"namespace": "team", "name": name, "uid": f"job-{name}"},
        "spec": {"suspend": suspend, "completions": pods},
        "status": status,
    }


def unit_body(
    name: str,
    phase: str,
    gpus: int,
    *,
    quota: str = "team",
    uid: str = "",
    reclaimable: Sequence[Json] = (),
) -> Json:
    status: Json = {"phase": phase, "reclaimablePods": list(reclaimable)}
    if phase in {"Reserved", "Dequeued", "Running"}:
        status["admissions"] = [{"name": "main", "replicas": 1, "running": 0}]
    return {
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": uid or f"unit-{name}",
            "labels": {"quota.scheduling.koordinator.sh/name": quota},
        },
        "spec": {
            "consumerRef": {"uid": f"job-{name}"},
            "podSet": [{"name": "main", "count": 1, "template": {"spec": container(gpus)}}],
        },
        "status": status,
    }


def pod_body(job: str, phase: str, gpus: int, *, name: str) -> Json:
    owner = {"kind": "Job", "name": job, "uid": f"job-{job}", "controller": True}
    return {
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": f"pod-{name}",
            "ownerReferences": [owner],
        },
        "spec": container(gpus),
        "status": {"phase": phase},
    }
