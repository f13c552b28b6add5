"""Defaulting and validation of pods and pod templates.

Only what matters to a queue: requests that default to limits, GPUs that need a limit, the priority
of a class, scheduling gates that can only be removed, a spec that is immutable once the pod exists.
As on a real server without kubelets, a pod stays Pending until a client writes its status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from shared_api.fake_api_server.api_errors import (
    Cause,
    RequestFailed,
    bad_request,
    forbidden_field,
    invalid_value,
    required,
)
from shared_api.fake_api_server.patching import Body, JsonValue
from shared_api.fake_api_server.resource_registry import ServerContext
from shared_api.quantity import amount

PRIORITY_CLASSES: Final = ("scheduling.k8s.io", "priorityclasses")
_QUANTITY: Final = re.compile(r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")

TEMPLATE_DEFAULTS: Final[Mapping[str, JsonValue]] = {
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_POD_DEFAULTS: Final[Mapping[str, JsonValue]] = {
    "restartPolicy": "Always",
    **TEMPLATE_DEFAULTS,
    "priority": 0,
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
}
_CONTAINER_DEFAULTS: Final[Mapping[str, JsonValue]] = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "Always",
}
_FREE_IN_RUNNING_PODS: Final = frozenset(
    {"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations"}
)
_FREE_IN_GATED_PODS: Final = frozenset({"nodeSelector", "affinity", "schedulingGates"})


def prepare_pod(body: Body, surroundings: ServerContext) -> Body:
    """Return a new pod with defaults, priority, and initial status."""
    spec = {**_POD_DEFAULTS, **_priority(body, surroundings), **body.get("spec", {})}
    spec = with_container_defaults(spec)
    status: Body = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": surroundings.now(),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    return {**body, "spec": spec, "status": status}


def fill_pod(body: Body) -> Body:
    """Return a pod with defaults in its containers."""
    return {**body, "spec": with_container_defaults(body.get("spec") or {})}


def _priority(body: Body, surroundings: ServerContext) -> Body:
    name = body.get("spec", {}).get("priorityClassName")
    if not name:
        return {}
    found = surroundings.find(PRIORITY_CLASSES, ("", name))
    if found is None:
        pod = body["metadata"].get("name", "")
        raise RequestFailed(
            HTTPStatus.FORBIDDEN,
            "Forbidden",
            f'pods "{pod}" is forbidden: no PriorityClass with name {name} was found',
            details={"name": pod, "kind": "pods"},
        )
    return {"priority": found.body.get("value", 0)}


def with_container_defaults(spec: Body) -> Body:
    """Return a pod spec with defaults in its containers, including requests from limits."""
    changed = {
        field: [_container(container) for container in spec[field]]
        for field in ("containers", "initContainers")
        if isinstance(spec.get(field), list)
    }
    return {**spec, **changed}


def _container(container: Body) -> Body:
    resources = container.get("resources") or {}
    for amounts in resources.values():
        if isinstance(amounts, dict):
            check_quantities(amounts)
    limits = resources.get("limits")
    if limits:
        resources = {**resources, "requests": {**limits, **resources.get("requests", {})}}
    return {**_CONTAINER_DEFAULTS, **container, "resources": resources}


def check_quantities(amounts: Mapping[str, JsonValue]) -> None:
    """Refuse a malformed quantity as the decoder of built-in kinds does.

    Raises:
        RequestFailed: 400, a quantity is malformed.
    """
    for value in amounts.values():
        if not _QUANTITY.match(str(value)):
            raise bad_request(
                "cannot be handled: quantities must match the regular expression "
                f"'{_QUANTITY.pattern}'"
            )


def check_containers(spec: Body, path: str) -> list[Cause]:
    """Return what is missing in the containers of a pod spec."""
    containers = spec.get("containers")
    if not containers:
        return [required(f"{path}.containers")]
    causes = [
        required(f"{path}.containers[{i}].{field}")
        for i, container in enumerate(containers)
        for field in ("name", "image")
        if not container.get(field)
    ]
    for field in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(field) or ()):
            causes += _check_limits(container.get("resources") or {}, f"{path}.{field}[{i}]")
    return causes


def _check_limits(resources: Body, path: str) -> list[Cause]:
    """Return what is invalid in requests of non-overcommittable resources, such as GPUs."""
    limits = resources.get("limits") or {}
    requests = {
        name: value
        for name, value in (resources.get("requests") or {}).items()
        if "/" in name and "kubernetes.io/" not in name
    }
    causes = [
        invalid_value(
            f"{path}.resources.requests",
            str(value),
            f"must be equal to {name} limit of {limits[name]}",
        )
        for name, value in requests.items()
        if name in limits and amount(name, limits[name]) != amount(name, value)
    ]
    if not requests.keys() <= limits.keys():
        why = "Limit must be set for non overcommitable resources"
        causes.append(required(f"{path}.resources.limits", why))
    return causes


def check_pod(new: Body, old: Body | None) -> list[Cause]:
    """Return what is invalid in a pod; `old` is None for a new one."""
    if old is None:
        return check_containers(new.get("spec", {}), "spec")
    before, after = old.get("spec", {}), new.get("spec", {})
    if before is after:
        return []
    had = {gate["name"] for gate in before.get("schedulingGates") or ()}
    causes = [
        forbidden_field(
            f"spec.schedulingGates[{i}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for i, gate in enumerate(after.get("schedulingGates") or ())
        if gate["name"] not in had
    ]
    free = _FREE_IN_RUNNING_PODS | (_FREE_IN_GATED_PODS if had else {"schedulingGates"})
    kept, wanted = _without(before, free), _without(after, free)
    if _without_images(wanted) != _without_images(kept):
        causes.append(
            forbidden_field(
                "spec",
                "pod updates may not change fields other than `spec.containers[*].image`,"
                "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
                "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
                "(allow it to be set to 1 if it was previously negative)",
            )
        )
    return causes


def _without(spec: Body, fields: frozenset[str] | set[str]) -> Body:
    return {key: value for key, value in spec.items() if key not in fields}


def _without_images(spec: Body) -> Body:
    bare = {
        field: [{**container, "image": ""} for container in spec.get(field) or ()]
        for field in ("containers", "initContainers")
    }
    return {**spec, **bare}
