"""Which pods of a unit need nodes, and the objects that ask the autoscaler for them. Pure.

A request is never changed: its spec is immutable, and so is what it was made for. Its annotations
say for which check, attempt and demand that was; its name is made of all that and of the settings,
so that making it twice makes one, and another makes another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from queue_admission_checks.check_settings import CheckSettings
from shared_api.objects import queue_unit
from shared_api.objects.meta import ObjectMeta, find_condition
from shared_api.objects.provisioning_request import ProvisioningRequest
from shared_api.objects.queue_unit import AdmissionCheckState, PodSet, QueueUnit
from shared_api.pod_requests import pod_requests
from shared_api.queue_unit_phases import QUOTA_RESERVED
from shared_api.resource_names import current_name
from shared_api.well_known_labels import (
    ADMISSION_CHECK,
    CHECK_ATTEMPT,
    CHECK_CONTROLLER,
    RELATED_QUEUE_UNIT,
    REQUESTED_DEMAND,
)

MAX_NAME_CHARS: Final = 63
"""Limit of a request's name: it may be put in a label, and the names of templates extend it."""
DIGEST_CHARS: Final = 10
"""40 bits, beside the names of unit and check."""
MAX_LABEL_CHARS: Final = 63

KIND: Final = "ProvisioningRequest"


class RequestedPods(msgspec.Struct, frozen=True):
    """The pod sets of a unit as they stand in its object.

    Attributes:
        digest: The same for the same names, counts and templates.
        templates: The pod template of each pod set, by its name, with all that the unit carries.
    """

    digest: str
    templates: Mapping[str, Any]


class PlannedPods(msgspec.Struct, frozen=True):
    """A number of pods of a pod set that need nodes."""

    pod_set: str
    count: int


class RequestPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The request that an attempt needs."""

    check: str
    controller_name: str
    class_name: str
    parameters: dict[str, str]
    pods: tuple[PlannedPods, ...]
    attempt: str
    demand: str

    def name_for(self, unit: ObjectMeta) -> str:
        """Return the request's name, the same whenever it is made for the same."""
        parts = (unit.uid, msgspec.json.encode(self, order="deterministic").decode())
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGEST_CHARS]
        room = MAX_NAME_CHARS - DIGEST_CHARS - 1
        stem = f"{unit.name}-{self.check}"[:room].strip("-.")
        return f"{stem}-{digest}"

    def fits(self, request: ProvisioningRequest) -> bool:
        """Return whether a request was made for this attempt and demand, whatever the settings."""
        marks = request.metadata.annotations
        return (
            marks.get(CHECK_ATTEMPT) == self.attempt and marks.get(REQUESTED_DEMAND) == self.demand
        )

    def asks_the_same(self, request: ProvisioningRequest) -> bool:
        """Return whether a request asks for these pods, of this class, with these parameters."""
        spec, name = request.spec, request.metadata.name
        requested = [(each.pod_template_ref.name, each.count) for each in spec.pod_sets]
        wanted = [(template_name(name, each.pod_set), each.count) for each in self.pods]
        return (spec.provisioning_class_name, spec.parameters, requested) == (
            self.class_name,
            self.parameters,
            wanted,
        )


def read_demand(unit_body: Mapping[str, Any]) -> RequestedPods:
    """Return the demand that a unit's JSON shows."""
    pod_sets = unit_body.get("spec", {}).get("podSet") or []
    digest = hashlib.sha256(msgspec.json.encode(pod_sets, order="deterministic")).hexdigest()
    return RequestedPods(
        digest=digest[:DIGEST_CHARS],
        templates={each.get("name", "main"): each.get("template") or {} for each in pod_sets},
    )


def plan_pods(unit: QueueUnit, managed_resources: frozenset[str]) -> tuple[PlannedPods, ...]:
    """Return the pods that need nodes: those that ask for a managed resource, or all.

    As many as were admitted, where that is written already.

    Raises:
        QuantityError: An amount in a pod template cannot be read; the text has its path.
    """
    admitted = {each.name: each.replicas for each in unit.status.admissions}
    pods = (
        PlannedPods(each.name, admitted.get(each.name, each.count))
        for each in unit.spec.pod_set
        if not managed_resources or _asks_for(each, managed_resources)
    )
    return tuple(each for each in pods if each.count > 0)


def _asks_for(pod_set: PodSet, resources: frozenset[str]) -> bool:
    requests = pod_requests(pod_set.template.spec)
    return any(requests.get(current_name(resource), 0) > 0 for resource in resources)


def build_plan(
    unit: QueueUnit,
    state: AdmissionCheckState,
    settings: CheckSettings,
    pods: tuple[PlannedPods, ...],
    *,
    controller_name: str,
    demand: str,
) -> RequestPlan:
    """Return the request that a unit needs now."""
    return RequestPlan(
        check=state.name,
        controller_name=controller_name,
        class_name=settings.class_name,
        parameters=settings.parameters,
        pods=pods,
        attempt=attempt_of(unit, state),
        demand=demand,
    )


def attempt_of(unit: QueueUnit, state: AdmissionCheckState) -> str:
    """Return which attempt a unit is at: since when its quota is reserved, after how many retries.

    Both stand in the unit, so that an attempt outlives a restart, and an eviction ends it.
    """
    reserved = find_condition(unit.status.conditions, QUOTA_RESERVED)
    since = None if reserved is None else reserved.last_transition_time
    return f"{since or unit.status.last_allocate_time or ''}/{state.retry_count or 0}"


def template_name(request: str, pod_set: str) -> str:
    """Return the name of the PodTemplate of one pod set."""
    return f"{request}-{pod_set}"


def controller_label(controller_name: str) -> str:
    """Return a controller's name as the value of a label."""
    value = controller_name.replace("/", ".")
    if len(value) <= MAX_LABEL_CHARS:
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()[:DIGEST_CHARS]
    return f"{value[: MAX_LABEL_CHARS - DIGEST_CHARS - 1].strip('-._')}-{digest}"


def unit_key_in(meta: ObjectMeta) -> str:
    """Return `namespace/name` of the unit that a request or template was made for, or ""."""
    return meta.annotations.get(RELATED_QUEUE_UNIT, "")


def check_of(meta: ObjectMeta) -> str:
    """Return the check that a request or template was made for, or ""."""
    return meta.annotations.get(ADMISSION_CHECK, "")


# --- objects ------------------------------------------------------------------------------------


def template_bodies(
    unit: QueueUnit, plan: RequestPlan, demand: RequestedPods
) -> list[dict[str, Any]]:
    """Return the PodTemplates of a request. They belong to the unit until the request is there."""
    request = plan.name_for(unit.metadata)
    return [
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {
                **_metadata(unit, plan, template_name(request, each.pod_set)),
                "ownerReferences": [owner_reference(unit.metadata)],
            },
            "template": demand.templates.get(each.pod_set, {}),
        }
        for each in plan.pods
    ]


def request_body(unit: QueueUnit, plan: RequestPlan, api_version: str) -> dict[str, Any]:
    """Return the ProvisioningRequest."""
    name = plan.name_for(unit.metadata)
    spec: dict[str, Any] = {
        "provisioningClassName": plan.class_name,
        "podSets": [
            {"count": each.count, "podTemplateRef": {"name": template_name(name, each.pod_set)}}
            for each in plan.pods
        ],
    }
    if plan.parameters:
        spec["parameters"] = plan.parameters
    return {
        "apiVersion": api_version,
        "kind": KIND,
        "metadata": {
            **_metadata(unit, plan, name),
            "ownerReferences": [owner_reference(unit.metadata)],
        },
        "spec": spec,
    }


def owner_reference(
    owner: ObjectMeta, api_version: str = queue_unit.API_VERSION, kind: str = queue_unit.KIND
) -> dict[str, Any]:
    """Return the entry of `ownerReferences` that makes an object go with its owner."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }


def _metadata(unit: QueueUnit, plan: RequestPlan, name: str) -> dict[str, Any]:
    meta = unit.metadata
    return {
        "name": name,
        "namespace": meta.namespace,
        "labels": {CHECK_CONTROLLER: controller_label(plan.controller_name)},
        "annotations": {
            RELATED_QUEUE_UNIT: meta.key,
            ADMISSION_CHECK: plan.check,
            CHECK_ATTEMPT: plan.attempt,
            REQUESTED_DEMAND: plan.demand,
        },
    }


def pod_set_of_template(request: str, template: str, pod_sets: Sequence[str]) -> str:
    """Return the pod set whose template has this name, or ""."""
    return next((each for each in pod_sets if template_name(request, each) == template), "")
