"""Build Reservations from job and unit: one for each pod that was admitted. Pure.

A reservation asks for what its pod will: requests and fields that affect placement, nothing else of
the template (`pod_template`). What exists only together with a pod is left out: its scheduling
gates, and claims made from templates. The owner that may take the capacity is the pod's controller,
uid included.

Names are derived from the unit's uid and attempt, so that creating them twice is harmless, and no
verdict on an earlier attempt is taken for one on this.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queue_controllers.decision.grants import granted_counts
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet, PodOwner
from queue_controllers.jobframework.template_updates import TemplateUpdate
from queue_controllers.reservations.node_blacklist import avoid_nodes
from queue_controllers.reservations.reservation_settings import ReservationSettings
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.reservation import Reservation
from shared_api.well_known_labels import (
    ATTEMPT,
    RELATED_POD_SET,
    RELATED_QUEUE_UNIT,
    RESERVED_JOB_NAME,
    RESERVED_JOB_NAMESPACE,
    TOTAL_RESERVATIONS,
    UNIT_UID,
)

MAX_NAME_CHARS: Final = 63
"""Limit of a reservation's name: that of DNS labels, since other programs copy it into labels."""

HASH_CHARS: Final = 10
"""In names: a million reservations collide with a probability of one half in a trillion each."""

MAX_LABEL_CHARS: Final = 63

GANG_LABELS: Final = (
    "pod-group.scheduling.sigs.k8s.io/name",
    "scheduling.x-k8s.io/pod-group",
    "network-topology-job-name",
)
"""Labels whose value names a gang or what a gang shares; upstream's list."""

POD_GROUP_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
"""Label that names a PodGroup object: koord-scheduler waits until there is one of that name."""

GANG_NAME: Final = "gang.scheduling.koordinator.sh/name"
GANG_MIN_AVAILABLE: Final = "gang.scheduling.koordinator.sh/min-available"
GANG_GROUPS: Final = "gang.scheduling.koordinator.sh/groups"
"""Annotations that describe a gang without an object; groups: a JSON list of `namespace/name`."""

Json = dict[str, Any]


class PlannedReservation(msgspec.Struct, frozen=True, kw_only=True):
    """One reservation that there should be."""

    name: str
    pod_set: str
    total: int
    """How many the unit has in all."""


def plan_reservations(job: JobFacts, unit: QueueUnit) -> tuple[PlannedReservation, ...]:
    """Return the reservations of a unit's present attempt: one per pod that it was granted."""
    granted = granted_counts(unit)
    counts = {
        each.name: min(each.count, granted.get(each.name, each.count)) for each in job.pod_sets
    }
    total = sum(counts.values())
    return tuple(
        PlannedReservation(name=_name_of(unit, name, index), pod_set=name, total=total)
        for name, count in counts.items()
        for index in range(count)
    )


def with_updates(job: JobFacts, updates: Mapping[str, TemplateUpdate]) -> JobFacts:
    """Return a job as its pods will be once a release has changed its templates."""
    pod_sets = tuple(
        _updated(each, updates[each.name]) if each.name in updates else each
        for each in job.pod_sets
    )
    return msgspec.structs.replace(job, pod_sets=pod_sets)


def _updated(pod_set: JobPodSet, update: TemplateUpdate) -> JobPodSet:
    meta, spec = pod_set.template.metadata, pod_set.template.spec
    meta = msgspec.structs.replace(
        meta,
        labels=_merged(meta.labels, update.labels),
        annotations=_merged(meta.annotations, update.annotations),
    )
    tolerations = spec.tolerations if update.tolerations is None else update.tolerations
    node_selector = _merged(spec.node_selector, update.node_selector)
    spec = msgspec.structs.replace(spec, tolerations=tolerations, node_selector=node_selector)
    template = msgspec.structs.replace(pod_set.template, metadata=meta, spec=spec)
    return msgspec.structs.replace(pod_set, template=template)


def _merged(values: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    after = {**values, **changes}
    return {key: value for key, value in after.items() if value is not None}


def build_reservation(
    planned: PlannedReservation,
    job: JobFacts,
    unit: QueueUnit,
    owner: PodOwner,
    *,
    bad_nodes: tuple[str, ...] = (),
    settings: ReservationSettings,
) -> Json:
    """Return a Reservation as JSON values; `owner`: what identifies its pod."""
    pod_set = next(each for each in job.pod_sets if each.name == planned.pod_set)
    taker: Json = {"controller": _controller_body(owner, job.metadata.namespace)}
    if owner.labels:
        taker["labelSelector"] = {"matchLabels": owner.labels}
    meta = job.metadata
    labels = {
        UNIT_UID: unit.metadata.uid,
        ATTEMPT: str(unit.status.attempts),
        RELATED_POD_SET: planned.pod_set,
        RESERVED_JOB_NAMESPACE: meta.namespace,
        RESERVED_JOB_NAME: meta.name[:MAX_LABEL_CHARS].rstrip("-."),
        TOTAL_RESERVATIONS: str(planned.total),
    }
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {
            "name": planned.name,
            "labels": labels,
            "annotations": {RELATED_QUEUE_UNIT: unit.metadata.key},
        },
        "spec": {
            "allocateOnce": True,
            "owners": [taker],
            "template": {
                "metadata": _template_metadata(pod_set, job, unit, planned.total),
                "spec": avoid_nodes(_pod_spec(pod_set), bad_nodes),
            },
            "ttl": f"{settings.ttl_seconds}s",
        },
    }


def is_of_attempt(reservation: Reservation, unit: QueueUnit) -> bool:
    """Return whether the labels of a reservation name the unit's present attempt."""
    labels = reservation.metadata.labels
    wanted = (unit.metadata.uid, str(unit.status.attempts))
    return (labels.get(UNIT_UID), labels.get(ATTEMPT)) == wanted


def marks_of(reservation: Reservation) -> tuple[str, ...]:
    """Return what a reservation says about its unit: `namespace/name`, then uid, as far as set.

    Users may remove a label or an annotation: either one is enough to find its unit.
    """
    meta = reservation.metadata
    marks = (meta.annotations.get(RELATED_QUEUE_UNIT), meta.labels.get(UNIT_UID))
    return tuple(mark for mark in marks if mark)


def _name_of(unit: QueueUnit, pod_set: str, index: int) -> str:
    meta = unit.metadata
    identity = f"{meta.uid}/{unit.status.attempts}/{pod_set}/{index}"
    mark = "-" + hashlib.sha256(identity.encode()).hexdigest()[:HASH_CHARS]
    readable = f"{meta.namespace}-{meta.name}-{pod_set}-{index}".replace(".", "-")
    return readable[: MAX_NAME_CHARS - len(mark)].rstrip("-") + mark


def _controller_body(owner: PodOwner, namespace: str) -> Json:
    controller = owner.controller
    return {
        "apiVersion": controller.api_version,
        "kind": controller.kind,
        "name": controller.name,
        "uid": controller.uid,
        "controller": True,
        "namespace": namespace,
    }


# --- the template ---------------------------------------------------------------------------------


def _template_metadata(pod_set: JobPodSet, job: JobFacts, unit: QueueUnit, total: int) -> Json:
    """Return the metadata of the pod that stands in: in its namespace, in a gang of its own."""
    template = pod_set.template.metadata
    labels, annotations = dict(template.labels), dict(template.annotations)
    suffix = f"-reserve-{unit.status.attempts}"
    for key in GANG_LABELS:
        if labels.get(key):
            labels[key] = _suffixed(labels[key], suffix, unit)
    if group := labels.pop(POD_GROUP_LABEL, ""):
        # There is no PodGroup of the new name, so the reservation itself describes its gang.
        annotations = {**annotations, GANG_NAME: group, GANG_MIN_AVAILABLE: str(total)}
    if annotations.get(GANG_NAME):
        annotations[GANG_NAME] = _suffixed(annotations[GANG_NAME], suffix, unit)
        # Gangs that start together do so as jobs: here the verdicts are combined.
        annotations.pop(GANG_GROUPS, None)
    metadata: Json = {"namespace": job.metadata.namespace}
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _suffixed(value: str, suffix: str, unit: QueueUnit) -> str:
    """Return a name with a suffix; if it is cut, the unit's uid makes it unique."""
    if len(value) + len(suffix) <= MAX_LABEL_CHARS:
        return value + suffix
    mark = hashlib.sha256(f"{unit.metadata.uid}/{value}".encode()).hexdigest()[:HASH_CHARS]
    return f"{value[: MAX_LABEL_CHARS - len(suffix) - len(mark) - 1]}-{mark}{suffix}"


def _pod_spec(pod_set: JobPodSet) -> Json:
    spec: Json = msgspec.to_builtins(pod_set.template.spec)
    for name in ("schedulingGates", "volumes", "resourceClaims"):
        spec.pop(name, None)
    if volumes := [each for each in pod_set.template.spec.volumes if each.persistent_volume_claim]:
        spec["volumes"] = msgspec.to_builtins(volumes)
    if claims := [
        each for each in pod_set.template.spec.resource_claims if each.get("resourceClaimName")
    ]:
        spec["resourceClaims"] = claims
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [_with_requests(each) for each in spec[name]]
    if resources := spec.get("resources"):
        spec["resources"] = _pod_level_requests(resources, spec)
    return spec


def _with_requests(container: Json) -> Json:
    """Return a container that requests its limits, as the API server does for pods."""
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return container
    requests = {**limits, **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _pod_level_requests(resources: Mapping[str, Any], spec: Json) -> Json:
    """Return a pod's own resources; what no container requests it requests up to its limit."""
    requested = {
        name
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ()))
        for name in (container.get("resources") or {}).get("requests") or ()
    }
    limits = {
        name: amount
        for name, amount in (resources.get("limits") or {}).items()
        if name not in requested
    }
    requests = {**limits, **(resources.get("requests") or {})}
    return {**resources, "requests": requests} if requests else dict(resources)
