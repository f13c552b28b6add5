"""Pods as the pod cache has them, for tests of the kinds that consist of pods."""

from __future__ import annotations

from typing import Any

import msgspec

from queue_controllers.jobframework.pod_template import ScheduledPod

GATE = "koord-queue/admission"
QUEUE = "koord-queue/queue-name"


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
