"""The preview of a pod, and what the API server's answer says of its template. Pure.

`pod_admission` knows what the built-in admission plugins do to pods. What webhooks and policies do,
only the API server can say: it is asked to create the pod of a template by a dry run, which goes
through all of admission and stores nothing. The pod is that of the release, with its labels. What
it runs does not count: command, arguments and environment are left out, so that jobs which differ
in nothing else are one question.

Of the answer counts what a queue and koord-scheduler read: what containers and the pod ask for, the
simple rules of where it may go, which scheduler places it, and the labels by which it is charged.
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

NO_ANSWER: Final = (
    "the API server has not said what it makes of these pods (admissionPreview):"
    " what the controllers follow counts"
)
"""What is reported of a template whose preview took too long."""

_BY_ADMISSION: Final = "the API server's answer to a dry run"

_WATCHED_LABELS: Final = (*QUOTA_SPELLINGS, *PREEMPTIBLE_LABELS)

_UNASKED: Final = ("command", "args", "env", "envFrom")
"""Of containers: what they run."""

_NAME: Final = "koord-queue-preview-"
_HASH_CHARS: Final = 16

DEFAULT_SCHEDULER: Final = "default-scheduler"
_ADDED_TOLERATIONS: Final = frozenset(
    ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)
"""Every pod gets them (the plugin DefaultTolerationSeconds)."""

_MAY_NOT_ASK: Final = 'cannot create resource "pods"'
_MOMENTS: Final[Mapping[str, str]] = {
    "exceeded quota:": "a ResourceQuota has no room for it now",
    "status unknown for quota:": "a ResourceQuota is not counted yet",
    'serviceaccount "default" not found': "its namespace has no default ServiceAccount yet",
    "does not support dry run": "a webhook does not take part in dry runs",
    _MAY_NOT_ASK: "the controllers have no right to create pods by dry run",
}
"""Refusals that say nothing of the template: a text that they contain -> what is reported instead.

Source: kubernetes v1.36.3: plugin/pkg/admission/resourcequota/controller.go (`checkRequest`),
plugin/pkg/admission/serviceaccount/admission.go, apiserver/pkg/admission/plugin/webhook/errors,
apiserver/pkg/endpoints/handlers/responsewriters/errors.go (`forbiddenMessage`)."""

_VERDICTS: Final = frozenset((400, 403, 409, 413, 422))
_NOT_FOUND: Final = 404


class PodAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The API server's answer to a pod of a template: one of the three."""

    spec: ScheduledPodSpec | None = None
    """It would be created, like this."""
    refusal: str = ""
    """It would not be created, and why."""
    note: str = ""
    """Neither is known, and why."""
    labels: dict[str, str] = {}
    """The pod's labels, of those that say what it is charged to; set with `spec`."""
    sent_labels: dict[str, str] = {}
    """The same labels, as the pod was sent."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A pod to preview."""

    key: str
    """Equal for all pods that need only one preview."""
    namespace: str
    name: str
    body: dict[str, Any]


def can_be_asked(pod_set: JobPodSet) -> bool:
    """Return whether pods are created from the template as it stands."""
    return pod_set.has_template and pod_set.has_limits and not pod_set.is_sum


def mark_of(pod_set: JobPodSet, stamp: PodStamp) -> str:
    """Return a mark that changes if a job's template is no longer the one that was asked about."""
    body = [template_body(pod_set.template), pod_set.template.spec.account, stamp.labels]
    return _hash_of(body)


def question_of(
    template: Mapping[str, Any], stamp: PodStamp, owner: OwnerReference, namespace: str
) -> Question:
    """Return the pod to ask for: a whole template as JSON, with what a release writes into it."""
    given = template.get("metadata") or {}
    labels = {**(given.get("labels") or {}), **stamp.labels}
    annotations = {**(given.get("annotations") or {}), **stamp.annotations}
    spec = dict(template.get("spec") or {})
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [
                {key: value for key, value in each.items() if key not in _UNASKED}
                for each in spec[field]
            ]
    # To set blockOwnerDeletion needs a right on the owner's finalizers.
    owners = [msgspec.to_builtins(owner)]
    told = {key: value for key, value in labels.items() if not key.startswith(CONTROLLER_LABELS)}
    about = {key: value for key, value in annotations.items() if key != RELATED_QUEUE_UNIT}
    key = _hash_of([namespace, owner.api_version, owner.kind, told, about, spec])
    name = f"{_NAME}{key}"
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": owners,
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return Question(key=key, namespace=namespace, name=name, body=body)


def answer_of(pod: ScheduledPod, question: Question) -> PodAnswer:
    """Return what counts of the pod that would be created."""
    sent = question.body["metadata"]["labels"]
    return PodAnswer(
        # Generated names of volumes differ in each answer.
        spec=msgspec.structs.replace(pod.spec, volumes=()),
        labels=_watched(pod.metadata.labels),
        sent_labels=_watched(sent),
    )


def answer_of_refusal(status: int, message: str, question: Question) -> PodAnswer | None:
    """Return what a refusal says of the template; None if it is no answer to the question."""
    for part, note in _MOMENTS.items():
        if part in message:
            return PodAnswer(note=f"{note}: what the controllers follow counts")
    if status == _NOT_FOUND:
        return PodAnswer(note="its namespace is not there: what the controllers follow counts")
    if status not in _VERDICTS:
        return None
    return PodAnswer(refusal=message.replace(f' "{question.name}"', ""))


def admit_by_answers(
    job: JobFacts, objects: AdmissionObjects, answers: Mapping[str, PodAnswer]
) -> JobFacts:
    """Return the facts with the pod sets as their answers have them, by name.

    Pod sets without an answer are as the watched objects have them.
    """
    admitted = []
    for pod_set in job.pod_sets:
        followed = apply_admission_to_pod_set(pod_set, job, objects)
        answer = answers.get(pod_set.name)
        admitted.append(
            followed if answer is None else _admit_by(answer, pod_set.template, followed)
        )
    return with_admitted(job, admitted)


def _admit_by(
    answer: PodAnswer, template: ScheduledPodTemplate, followed: TemplateAfterAdmission
) -> TemplateAfterAdmission:
    if answer.refusal:
        return TemplateAfterAdmission(template, refusal=answer.refusal)
    if answer.spec is None:
        told = (*followed.differences, answer.note)
        return TemplateAfterAdmission(followed.template, told, followed.refusal)
    metadata, of_labels = _relabelled(template.metadata, answer)
    if not of_labels and _is_as(answer.spec, followed.template.spec):
        # Only what the watched objects do: their words name the object.
        return TemplateAfterAdmission(followed.template, followed.differences)
    spec, differences = _as_answered(template.spec, answer.spec)
    lines = tuple(f"{each} ({_BY_ADMISSION})" for each in (*differences, *of_labels))
    if not lines:
        return TemplateAfterAdmission(template)
    return TemplateAfterAdmission(ScheduledPodTemplate(metadata=metadata, spec=spec), lines)


def _is_as(answered: ScheduledPodSpec, followed: ScheduledPodSpec) -> bool:
    """Return whether an answer is as expected."""
    _, differences = _as_answered(followed, answered)
    return not differences


# --- specs --------------------------------------------------------------------------------------


def _as_answered(
    spec: ScheduledPodSpec, answered: ScheduledPodSpec
) -> tuple[ScheduledPodSpec, list[str]]:
    """Return a template's spec with what counts of an answer, and what that changes."""
    differences: list[str] = []
    containers = _merged(spec.containers, answered.containers, differences)
    initial = _merged(spec.init_containers, answered.init_containers, differences)
    changes: dict[str, Any] = {"containers": containers, "init_containers": initial}
    if not are_equal(spec.overhead, answered.overhead):
        changes["overhead"] = answered.overhead
        differences.append(f"overhead {listed(answered.overhead) or 'none'}")
    before, after = spec.resources or ResourceRequirements(), answered.resources
    if after is not None and not _ask_the_same(before, after):
        changes["resources"] = after
        differences.append(f"requests of the pod {listed(after.requests) or 'none'}")
    if spec.node_selector != answered.node_selector:
        changes["node_selector"] = answered.node_selector
        selector = ", ".join(f"{k}={v}" for k, v in sorted(answered.node_selector.items()))
        differences.append(f"node selector {selector or 'none'}")
    tolerations = tuple(
        each
        for each in answered.tolerations
        if each in spec.tolerations or each.get("key") not in _ADDED_TOLERATIONS
    )
    if more := [each for each in tolerations if each not in spec.tolerations]:
        changes["tolerations"] = tolerations
        differences.append(f"{len(more)} more tolerations")
    if (spec.scheduler_name or DEFAULT_SCHEDULER) != (answered.scheduler_name or DEFAULT_SCHEDULER):
        changes["scheduler_name"] = answered.scheduler_name
        differences.append(f"scheduler {answered.scheduler_name}")
    return msgspec.structs.replace(spec, **changes), differences


def _merged(
    containers: tuple[ScheduledContainer, ...],
    answered: tuple[ScheduledContainer, ...],
    differences: list[str],
) -> tuple[ScheduledContainer, ...]:
    """Return the containers of a pod, each as it is written if it asks for the same."""
    known = {each.name: each for each in containers}
    merged = []
    for each in answered:
        own = known.pop(each.name, None)
        if own is None:
            asks = listed(_wanted(each.resources))
            differences.append(f"container {each.name} with requests {asks or 'none'}")
            merged.append(msgspec.structs.replace(each, ports=()))
        elif _ask_the_same(own.resources, each.resources):
            merged.append(own)
        else:
            differences.append(f"{_changed(own, each)} of container {each.name}")
            merged.append(msgspec.structs.replace(own, resources=each.resources))
    differences += [f"no container {name}" for name in known]
    return tuple(merged)


def _wanted(resources: ResourceRequirements) -> dict[str, Any]:
    """Return the requests, with those that limits stand for."""
    return {**resources.limits, **resources.requests}


def _ask_the_same(one: ResourceRequirements, other: ResourceRequirements) -> bool:
    alike = are_equal(_wanted(one), _wanted(other))
    return alike and are_equal(one.limits, other.limits)


def _changed(own: ScheduledContainer, answered: ScheduledContainer) -> str:
    """Return in words how what a container asks for has changed."""
    before, after = _wanted(own.resources), _wanted(answered.resources)
    if are_equal(before, after):
        return f"limits {listed(answered.resources.limits) or 'none'}"
    new = {
        resource: quantity
        for resource, quantity in after.items()
        if resource not in before or not are_equal({"": quantity}, {"": before[resource]})
    }
    gone = ", ".join(f"no {resource}" for resource in sorted(before.keys() - after.keys()))
    return "requests " + ", ".join(filter(None, (listed(new), gone)))


# --- labels -------------------------------------------------------------------------------------


def _relabelled(meta: TemplateMeta, answer: PodAnswer) -> tuple[TemplateMeta, list[str]]:
    """Return a template's metadata with the labels that admission has changed, and which."""
    labels, annotations, differences = dict(meta.labels), dict(meta.annotations), list[str]()
    for key in _WATCHED_LABELS:
        value = answer.labels.get(key)
        if value == answer.sent_labels.get(key):
            continue
        differences.append(f"label {key}={value}" if value is not None else f"no label {key}")
        # A label that a release wrote is not the template's own: this one is.
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
