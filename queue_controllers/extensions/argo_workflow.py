"""Facts about Workflow (argoproj.io/v1alpha1), of Argo Workflows.

Held by `spec.suspend`, which keeps Argo from creating pods of further steps. It stops nothing:
running pods continue until they end, and one that is deleted from outside ends the workflow in
error. So a workflow that is evicted stays in *stopping*, and its quota charged, until its last pod
has ended.

Its status never says that it is held back. Before its first node that is certain; later, once no
pod lives, Argo gets the time that a silent operator gets, to finish a reconcile that it had begun.
`status.phase` is Running from the first reconcile, also of a workflow that was created suspended:
only pods show what runs.

Its future steps are not known. A workflow is charged, as a whole and for as long as it lives, what
its annotation `koord-queue/min-resources` says, a list of resources in JSON or YAML, as upstream
has it: pod set `default`, count 1. A workflow without it would be admitted without a known demand;
it is left alone, with an event, and its pods count as foreign pods.

A step that waits for a person (a template of type suspend) is its user's: a release does not end
it.

Source: Argo's documentation; what the real controller (v4.1) did is in tests/data/recordings.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

from queue_controllers.job_families.suspend_field import SPEC_SUSPEND, release_by_spec_suspend
from queue_controllers.jobframework.generic_job import (
    JobKind,
    JobPodSet,
    Outcome,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.pod_template import (
    ScheduledContainer,
    ScheduledPodSpec,
    ScheduledPodTemplate,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate, update_body
from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import (
    QuantityText,
    ResourceQuantities,
    ResourceRequirements,
    TemplateMeta,
)
from shared_api.quantity import QuantityError
from shared_api.resource_list import parse_demand
from shared_api.text_decoding import TextError, decode_json, decode_yaml
from shared_api.well_known_labels import MIN_RESOURCES, read_annotation

KIND: Final = JobKind(
    key="workflow",
    group="argoproj.io",
    version="v1alpha1",
    kind="Workflow",
    plural="workflows",
    owns_pods=True,
)

MAX_RESOURCES_CHARS: Final = 4096
"""Longest value of that annotation: a hundred resources, and no work for a parser."""

REMEMBERED: Final = 1024
"""How many such texts are remembered with their content: equal templates have equal texts. Some
tens of MB if all are as long as they may be."""

POD_SET: Final = "default"

IMAGE: Final = "non-exist"
"""The image of the one container that stands for all steps; upstream's value."""

_FINAL: Final = {"Succeeded": True, "Failed": False, "Error": False}
_UNDER_WAY: Final = frozenset({"Pending", "Running"})


class WorkflowTemplate(WireStruct, frozen=True):
    """One of `spec.templates`."""

    name: str = ""
    priority_class_name: str = ""
    service_account_name: str = ""


class PodMetadata(WireStruct, frozen=True):
    """`spec.podMetadata`: for all pods of the workflow."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class WorkflowSpec(WireStruct, frozen=True):
    """`spec`; `priority` is the order in which Argo itself processes workflows."""

    suspend: bool | None = None
    entrypoint: str = ""
    priority: int | None = None
    pod_priority_class_name: str = ""
    service_account_name: str = ""
    templates: tuple[WorkflowTemplate, ...] = ()
    pod_metadata: PodMetadata | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[dict[str, Any], ...] | None = None


class WorkflowNode(WireStruct, frozen=True):
    """One of `status.nodes`: a step, or a group of steps."""

    type: str = ""
    phase: str = ""


class WorkflowStatus(WireStruct, frozen=True):
    """`status`; nodes of a large workflow are compressed, or stored elsewhere."""

    phase: str = ""
    message: str = ""
    nodes: dict[str, WorkflowNode] | None = None
    compressed_nodes: str = ""
    offload_node_status_version: str = ""


class Workflow(WireStruct, frozen=True):
    """A Workflow."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkflowSpec = WorkflowSpec()
    status: WorkflowStatus = WorkflowStatus()


class WorkflowAdapter:
    """The `GenericJob` of Workflow."""

    kind = KIND
    object_type = Workflow
    is_suspended = SPEC_SUSPEND.is_suspended
    suspend_patch = SPEC_SUSPEND.suspend_patch
    release_patch = release_by_spec_suspend

    def why_not_suspendable(self, job: Workflow) -> str:
        """Return the annotation that states its demand, if that is missing or not valid."""
        text = _text_of(job)
        if not text:
            return f"annotation {MIN_RESOURCES} does not say what it needs"
        _, trouble = read_resources(text)
        return f"annotation {MIN_RESOURCES}: {trouble}" if trouble else ""

    def status_of(self, job: Workflow) -> StatusFacts:
        """Return what the phase and the nodes say."""
        status = job.status
        nodes = status.nodes or {}
        has_begun = bool(nodes or status.compressed_nodes or status.offload_node_status_version)
        outcome = None
        if status.phase in _FINAL:
            outcome = Outcome(succeeded=_FINAL[status.phase], message=status.message)
        return StatusFacts(
            is_empty=not has_begun and outcome is None,
            running=status.phase == "Running",
            outcome=outcome,
            pods=sum(each.type == "Pod" and each.phase in _UNDER_WAY for each in nodes.values()),
        )

    def pod_sets(self, job: Workflow) -> tuple[JobPodSet, ...]:
        """Return one set that stands for the whole workflow; none if its demand is not stated."""
        resources, _ = read_resources(_text_of(job))
        if resources is None:
            return ()
        spec, metadata = job.spec, job.spec.pod_metadata or PodMetadata()
        container = ScheduledContainer(
            name=POD_SET,
            image=IMAGE,
            resources=ResourceRequirements(requests=resources, limits=resources),
        )
        pod = ScheduledPodSpec(
            containers=(container,),
            node_selector=spec.node_selector or {},
            tolerations=spec.tolerations or (),
            service_account_name=_account(spec),
        )
        template = ScheduledPodTemplate(
            metadata=TemplateMeta(
                labels=metadata.labels or {}, annotations=metadata.annotations or {}
            ),
            spec=pod,
        )
        return (JobPodSet(name=POD_SET, count=1, template=template, is_sum=True),)

    def priority_of(self, job: Workflow) -> PrioritySource:
        """Return `spec.priority`; else the class of the entry template's pods, else of all pods."""
        spec = job.spec
        if spec.priority is not None:
            return PrioritySource(value=spec.priority)
        entry = (each for each in spec.templates if each.name == spec.entrypoint)
        of_entry = next(entry, WorkflowTemplate()).priority_class_name
        return PrioritySource(of_entry or spec.pod_priority_class_name)

    def update_patch(self, job: Workflow, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        """Return the patch of what all pods get whose template does not state it itself."""
        if POD_SET not in updates:
            return {}
        body = update_body(updates[POD_SET])
        metadata = {"podMetadata": body["metadata"]} if "metadata" in body else {}
        return {"spec": {**metadata, **body.get("spec", {})}}


def _account(spec: WorkflowSpec) -> str:
    """Return the service account that some pod needs, "" if each template names its own."""
    overridden = spec.templates and all(each.service_account_name for each in spec.templates)
    return "" if overridden else spec.service_account_name


def _text_of(job: Workflow) -> str:
    return (read_annotation(job.metadata.annotations, MIN_RESOURCES) or "").strip()


def read_resources(text: str) -> tuple[ResourceQuantities | None, str]:
    """Return the resources that a workflow states, or None and what is wrong with them.

    JSON if it begins like an object, else YAML; quantities by resource.
    """
    if not text:
        return None, "it is empty"
    if len(text) > MAX_RESOURCES_CHARS:
        return None, f"it has {len(text)} characters, at most {MAX_RESOURCES_CHARS} are read"
    return _parse_resources(text)


@functools.lru_cache(maxsize=REMEMBERED)
def _parse_resources(text: str) -> tuple[ResourceQuantities | None, str]:
    try:
        decode = decode_json if text.startswith("{") else decode_yaml
        resources = decode(text, dict[str, QuantityText])
        parse_demand(resources)
    except (TextError, QuantityError) as error:
        return None, f"it cannot be read: {error}".partition("\n")[0]
    return resources, ""
