"""The dry run of a pod template, and what its response says about the template. Pure.

`pod_admission` knows what the built-in admission plugins do to pods. Only the API server knows what
webhooks and policies do. So a pod of the template is created by a dry run, which passes through all
of admission and stores nothing. It has the labels that the release of the job writes. Command,
arguments and environment are left out, so that jobs that differ only in these share one dry run.

Only the fields of the response that the queue or koord-scheduler reads are used: resource requests
and limits, overhead, node selector, tolerations, scheduler name, and the labels that say which
quota the pod is charged to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queue_controllers.decision.pod_admission import (
    AdmissionObjects,
    TemplateAfterAdmission,
    apply_admission_to_pod_set,
    are_equal,
    listed,
    with_admitted,
)
from queue_controllers.decision.pod_stamps import PREEMPTIBLE_LABELS
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet, PodStamp
from queue_controllers.jobframework.pod_template import (
    CONTROLLER_LABELS,
    ScheduledContainer,
    ScheduledPod,
    ScheduledPodSpec,
    ScheduledPodTemplate,
    template_body,
)
from shared_api.objects.meta import OwnerReference
from shared_api.objects.pod import ResourceRequirements, TemplateMeta
from shared_api.well_known_labels import (
    PREEMPTIBLE,
    QUOTA_NAME,
    QUOTA_SPELLINGS,
    RELATED_QUEUE_UNIT,
    STAMPED_PREEMPTIBLE,
    STAMPED_QUOTA,
)

NO_RESPONSE: Final = (
    "the API server has not said what it makes of these pods (admissionPreview):"
    " what the controllers follow counts"
)
"""The note on a template whose preview took too long."""

_BY_ADMISSION: Final = "the API server's answer to a dry run"

_WATCHED_LABELS: Final = (*QUOTA_SPELLINGS, *PREEMPTIBLE_LABELS)

_LEFT_OUT: Final = ("command", "args", "env", "envFrom")
"""Fields of containers that a dry run leaves out: they say what runs, not what it needs."""

_NAME: Final = "koord-queue-preview-"
_HASH_CHARS: Final = 16

DEFAULT_SCHEDULER: Final = "default-scheduler"
_ADDED_TOLERATIONS: Final = frozenset(
    ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)
"""The admission plugin DefaultTolerationSeconds adds them to every pod."""

_NO_RIGHT: Final = 'cannot create resource "pods"'
_PASSING_REFUSALS: Final[Mapping[str, str]] = {
    "exceeded quota:": "a ResourceQuota has no room for it now",
    "status unknown for quota:": "a ResourceQuota is not counted yet",
    'serviceaccount "default" not found': "its namespace has no default ServiceAccount yet",
    "does not support dry run": "a webhook does not take part in dry runs",
    _NO_RIGHT: "the controllers have no right to create pods by dry run",
}
"""Refusals that do not depend on the template: a part of their message -> the note instead.

Source: kubernetes v1.36.3: plugin/pkg/admission/resourcequota/controller.go (`checkRequest`),
plugin/pkg/admission/serviceaccount/admission.go, apiserver/pkg/admission/plugin/webhook/errors,
apiserver/pkg/endpoints/handlers/responsewriters/errors.go (`forbiddenMessage`)."""

_REFUSAL_STATUSES: Final = frozenset((400, 403, 409, 413, 422))
_NOT_FOUND: Final = 404


class PreviewResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a dry run: exactly one of `spec`, `refusal` and `note` is set."""

    spec: ScheduledPodSpec | None = None
    """The spec with which the pod would be created."""
    refusal: str = ""
    """Why the pod would not be created."""
    note: str = ""
    """Why neither is known."""
    labels: dict[str, str] = {}
    """The labels of the pod that say which quota it is charged to; set with `spec`."""
    sent_labels: dict[str, str] = {}
    """The same labels as they were sent."""


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to create by a dry run."""

    key: str
    """Equal for all pods that can share one dry run."""
    namespace: str
    name: str
    body: dict[str, Any]


def can_be_previewed(pod_set: JobPodSet) -> bool:
    """Return whether the job's pods are created from exactly this template."""
    return pod_set.has_template and pod_set.has_limits and not pod_set.is_sum


def fingerprint_of(pod_set: JobPodSet, stamp: PodStamp) -> str:
    """Return a hash of what a preview depends on: the template, its account, the stamp's labels."""
    body = [template_body(pod_set.template), pod_set.template.spec.account, stamp.labels]
    return _hash_of(body)


def build_dry_run(
    template: Mapping[str, Any], stamp: PodStamp, owner: OwnerReference, namespace: str
) -> DryRun:
    """Return the dry run of a template as the job's release would write it.

    Args:
        template: The whole template as JSON values, not only the decoded fields.
        stamp: The labels and annotations that the release writes.
        owner: The job, as the controller of the pod.
        namespace: The job's namespace.
    """
    given = template.get("metadata") or {}
    labels = {**(given.get("labels") or {}), **stamp.labels}
    annotations = {**(given.get("annotations") or {}), **stamp.annotations}
    spec = dict(template.get("spec") or {})
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [
                {key: value for key, value in each.items() if key not in _LEFT_OUT}
                for each in spec[field]
            ]
    # Without blockOwnerDeletion, which would need a right on the owner's finalizers.
    owners = [msgspec.to_builtins(owner)]
    # Jobs that differ only in what names a job share one preview.
    shared_labels = {
        key: value for key, value in labels.items() if not key.startswith(CONTROLLER_LABELS)
    }
    shared_annotations = {
        key: value for key, value in annotations.items() if key != RELATED_QUEUE_UNIT
    }
    key = _hash_of(
        [namespace, owner.api_version, owner.kind, shared_labels, shared_annotations, spec]
    )
    name = f"{_NAME}{key}"
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": owners,
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return DryRun(key=key, namespace=namespace, name=name, body=body)


def read_response(pod: ScheduledPod, dry_run: DryRun) -> PreviewResult:
    """Return the result of a dry run that would create this pod."""
    sent = dry_run.body["metadata"]["labels"]
    return PreviewResult(
        # Generated names of volumes differ in each answer.
        spec=msgspec.structs.replace(pod.spec, volumes=()),
        labels=_watched(pod.metadata.labels),
        sent_labels=_watched(sent),
    )


def read_error(status: int, message: str, dry_run: DryRun) -> PreviewResult | None:
    """Return the result of a refused dry run; None if the error says nothing: retry it then."""
    for part, note in _PASSING_REFUSALS.items():
        if part in message:
            return PreviewResult(note=f"{note}: what the controllers follow counts")
    if status == _NOT_FOUND:
        return PreviewResult(note="its namespace is not there: what the controllers follow counts")
    if status not in _REFUSAL_STATUSES:
        return None
    return PreviewResult(refusal=message.replace(f' "{dry_run.name}"', ""))


def apply_results(
    job: JobFacts, objects: AdmissionObjects, results: Mapping[str, PreviewResult]
) -> JobFacts:
    """Return the facts with each pod set as its preview has it; `results` is by pod set name.

    A pod set without a result is as `pod_admission` computes it from the watched objects.
    """
    admitted = []
    for pod_set in job.pod_sets:
        followed = apply_admission_to_pod_set(pod_set, job, objects)
        result = results.get(pod_set.name)
        admitted.append(
            followed if result is None else _apply_result(result, pod_set.template, followed)
        )
    return with_admitted(job, admitted)


def _apply_result(
    result: PreviewResult, template: ScheduledPodTemplate, followed: TemplateAfterAdmission
) -> TemplateAfterAdmission:
    if result.refusal:
        return TemplateAfterAdmission(template, refusal=result.refusal)
    if result.spec is None:
        notes = (*followed.differences, result.note)
        return TemplateAfterAdmission(followed.template, notes, followed.refusal)
    metadata, label_differences = _relabeled(template.metadata, result)
    if not label_differences and _is_as_expected(result.spec, followed.template.spec):
        # The watched objects explain all of it, and their text names the object that did it.
        return TemplateAfterAdmission(followed.template, followed.differences)
    spec, differences = _with_response(template.spec, result.spec)
    lines = tuple(f"{each} ({_BY_ADMISSION})" for each in (*differences, *label_differences))
    if not lines:
        return TemplateAfterAdmission(template)
    return TemplateAfterAdmission(ScheduledPodTemplate(metadata=metadata, spec=spec), lines)


def _is_as_expected(response: ScheduledPodSpec, followed: ScheduledPodSpec) -> bool:
    """Return whether a response is what the watched objects led to expect."""
    _, differences = _with_response(followed, response)
    return not differences


# --- specs --------------------------------------------------------------------------------------


def _with_response(
    spec: ScheduledPodSpec, response: ScheduledPodSpec
) -> tuple[ScheduledPodSpec, list[str]]:
    """Return a spec with the relevant fields of a response, and the differences as text."""
    differences: list[str] = []
    containers = _merged(spec.containers, response.containers, differences)
    initial = _merged(spec.init_containers, response.init_containers, differences)
    changes: dict[str, Any] = {"containers": containers, "init_containers": initial}
    if not are_equal(spec.overhead, response.overhead):
        changes["overhead"] = response.overhead
        differences.append(f"overhead {listed(response.overhead) or 'none'}")
    before, after = spec.resources or ResourceRequirements(), response.resources
    if after is not None and not _request_the_same(before, after):
        changes["resources"] = after
        differences.append(f"requests of the pod {listed(after.requests) or 'none'}")
    if spec.node_selector != response.node_selector:
        changes["node_selector"] = response.node_selector
        selector = ", ".join(f"{k}={v}" for k, v in sorted(response.node_selector.items()))
        differences.append(f"node selector {selector or 'none'}")
    tolerations = tuple(
        each
        for each in response.tolerations
        if each in spec.tolerations or each.get("key") not in _ADDED_TOLERATIONS
    )
    if more := [each for each in tolerations if each not in spec.tolerations]:
        changes["tolerations"] = tolerations
        differences.append(f"{len(more)} more tolerations")
    if (spec.scheduler_name or DEFAULT_SCHEDULER) != (response.scheduler_name or DEFAULT_SCHEDULER):
        changes["scheduler_name"] = response.scheduler_name
        differences.append(f"scheduler {response.scheduler_name}")
    return msgspec.structs.replace(spec, **changes), differences


def _merged(
    containers: tuple[ScheduledContainer, ...],
    response: tuple[ScheduledContainer, ...],
    differences: list[str],
) -> tuple[ScheduledContainer, ...]:
    """Return the containers of a response; those that request the same stay as in the template.

    Appends the differences as text to `differences`.
    """
    known = {each.name: each for each in containers}
    merged = []
    for each in response:
        own = known.pop(each.name, None)
        if own is None:
            asks = listed(_requests_of(each.resources))
            differences.append(f"container {each.name} with requests {asks or 'none'}")
            merged.append(msgspec.structs.replace(each, ports=()))
        elif _request_the_same(own.resources, each.resources):
            merged.append(own)
        else:
            differences.append(f"{_changed(own, each)} of container {each.name}")
            merged.append(msgspec.structs.replace(own, resources=each.resources))
    differences += [f"no container {name}" for name in known]
    return tuple(merged)


def _requests_of(resources: ResourceRequirements) -> dict[str, Any]:
    """Return the requests; a resource with only a limit requests the limit."""
    return {**resources.limits, **resources.requests}


def _request_the_same(one: ResourceRequirements, other: ResourceRequirements) -> bool:
    alike = are_equal(_requests_of(one), _requests_of(other))
    return alike and are_equal(one.limits, other.limits)


def _changed(own: ScheduledContainer, response: ScheduledContainer) -> str:
    """Return as text how the requests or limits of a container have changed."""
    before, after = _requests_of(own.resources), _requests_of(response.resources)
    if are_equal(before, after):
        return f"limits {listed(response.resources.limits) or 'none'}"
    new = {
        resource: quantity
        for resource, quantity in after.items()
        if resource not in before or not are_equal({"": quantity}, {"": before[resource]})
    }
    gone = ", ".join(f"no {resource}" for resource in sorted(before.keys() - after.keys()))
    return "requests " + ", ".join(filter(None, (listed(new), gone)))


# --- labels -------------------------------------------------------------------------------------


def _relabeled(meta: TemplateMeta, result: PreviewResult) -> tuple[TemplateMeta, list[str]]:
    """Return a template's metadata with the labels of a response, and the differences as text."""
    labels, annotations, differences = dict(meta.labels), dict(meta.annotations), list[str]()
    for key in _WATCHED_LABELS:
        value = result.labels.get(key)
        if value == result.sent_labels.get(key):
            continue
        differences.append(f"label {key}={value}" if value is not None else f"no label {key}")
        # These annotations mark labels that a release wrote; admission wrote this one.
        annotations.pop(STAMPED_QUOTA if key == QUOTA_NAME else "", None)
        annotations.pop(STAMPED_PREEMPTIBLE if key == PREEMPTIBLE else "", None)
        if value is None:
            labels.pop(key, None)
        else:
            labels[key] = value
    if not differences:
        return meta, []
    return TemplateMeta(labels=labels, annotations=annotations), differences


def _watched(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: labels[key] for key in _WATCHED_LABELS if key in labels}


def _hash_of(value: object) -> str:
    text = msgspec.json.encode(value, order="sorted")
    return hashlib.sha256(text).hexdigest()[:_HASH_CHARS]
