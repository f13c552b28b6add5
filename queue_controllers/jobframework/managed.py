"""Which jobs are the queue's business. Pure.

A job is somebody's: its parent's (nested), Kueue's, another controller's, or the queue's. Only the
queue's jobs get a unit. A job that once had one stays the queue's until it ends: taking the label
away from a job in line must not let it past the line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from queue_controllers.jobframework.generic_job import TRANSPARENT_KINDS, JobFacts
from queue_controllers.jobframework.job_settings import JobSettings, Manage
from shared_api.objects.meta import OwnerReference
from shared_api.objects.pod import TemplateMeta
from shared_api.quota_names import QuotaNames
from shared_api.well_known_kinds import KNOWN_JOB_KINDS
from shared_api.well_known_labels import (
    KUEUE_QUEUE_NAME,
    MANAGED_NAMESPACE,
    RELEASED_AT,
    SPECIAL_QUOTAS,
    STAMPED_QUOTA,
    SUSPEND,
    read_annotation,
    read_queue_name,
    read_quota_name,
)

MAX_OWNER_DEPTH: Final = 8
"""Of the walk through controller owners: deeper is a loop, or nothing that anybody made."""

ReadOwner = Callable[[OwnerReference], OwnerReference | None]
"""The controller owner of an owner, where the owner is known; else None."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What is known outside of the job: quotas, namespaces, priority classes."""

    quotas: QuotaNames = QuotaNames()
    namespace_labels: dict[str, str] = {}
    """Of the job's namespace."""
    priority_classes: Mapping[str, int] = {}
    default_priority: int | None = None
    """Of the priority class that is the cluster's default, if there is one."""
    available_quotas: frozenset[str] | None = None
    """What the job's namespace lists, where only quotas that list it, or that it lists, may be
    named; None: any may be."""


class Ownership(msgspec.Struct, frozen=True):
    """Whose a job is, and why, for logs."""

    managed: bool
    reason: str


def judge_managed(
    job: JobFacts,
    around: Surroundings,
    settings: JobSettings,
    *,
    has_unit: bool,
    read_owner: ReadOwner,
) -> Ownership:
    """Say whether a job is the queue's, and why or why not.

    `read_owner` is asked last, and only about a job that would be the queue's and has not ended;
    what it raises passes.
    """
    if refusal := _whose_else(job, settings):
        return Ownership(managed=False, reason=refusal)
    if has_unit or read_annotation(job.metadata.annotations, RELEASED_AT):
        reason = "it is in the queue already"
    else:
        reason = _why_managed(job, around, settings)
    if not reason:
        return Ownership(managed=False, reason="it names no queue or quota")
    # Of a job that has ended only the end counts, and must not wait for anybody's answer.
    if job.status.outcome is None and (refusal := _why_nested(job, read_owner)):
        return Ownership(managed=False, reason=refusal)
    return Ownership(managed=True, reason=reason)


def _whose_else(job: JobFacts, settings: JobSettings) -> str:
    """Return who else the job says that it belongs to, or ""."""
    meta = job.metadata
    if meta.namespace in settings.excluded_namespaces:
        return f"namespace {meta.namespace} is never managed"
    if meta.labels.get(KUEUE_QUEUE_NAME):
        return "it belongs to Kueue"
    if job.foreign_manager:
        return f"spec.managedBy is {job.foreign_manager}"
    return ""


def _why_nested(job: JobFacts, read_owner: ReadOwner) -> str:
    """Return who stands above the job, where that makes it another's, or ""."""
    owner = job.metadata.controller_owner
    names_itself = job.kind.held_by_gates or _names_queue_or_quota(job)
    transparent = TRANSPARENT_KINDS | job.kind.made_by
    if names_itself or (owner is not None and owner.kind in transparent):
        owner = find_owner(owner, read_owner, transparent)
    if owner is None:
        return ""
    if owner.kind in KNOWN_JOB_KINDS:
        return f"{owner.kind} {owner.name} owns it"
    if names_itself:
        return ""
    return f"{owner.kind} {owner.name} owns it, and it names no queue or quota itself"


def find_owner(
    owner: OwnerReference | None,
    read_owner: ReadOwner,
    transparent: frozenset[str] = TRANSPARENT_KINDS,
) -> OwnerReference | None:
    """Return the owner that a job is nested under: the first of a known kind above it.

    Without one it is the nearest owner of an unknown kind; None when nobody owns the job, or only
    those of transparent kinds do: a starter of jobs (CronJob), what makes a job's pods.
    """
    nearest: OwnerReference | None = None
    for depth in range(MAX_OWNER_DEPTH):
        if depth and owner is not None:
            owner = read_owner(owner)
        if owner is None:
            return nearest
        if owner.kind in KNOWN_JOB_KINDS - transparent:
            return owner
        if nearest is None and owner.kind not in transparent:
            nearest = owner
    return nearest


def quota_of_job(job: JobFacts, around: Surroundings) -> str:
    """Return the quota that the job is charged to, or "".

    A quota that only the pod template names is the one koord-scheduler will charge the pods to,
    so it comes before the namespace's.
    """
    if named := read_quota_name(job.metadata.labels):
        return named
    for pod_set in job.pod_sets:
        if named := quota_of_template(pod_set.template.metadata):
            return named
    return around.quotas.quota_of_namespace(job.metadata.namespace)


def may_use_quota(job: JobFacts, around: Surroundings) -> bool:
    """Return whether the job's namespace may name the quota that the job is charged to.

    A quota that is not known here is for the scheduler to judge: it does not exist, or is the node
    of a tree.
    """
    quota, listed = quota_of_job(job, around), around.available_quotas
    if listed is None or quota not in around.quotas.known or quota in SPECIAL_QUOTAS:
        return True
    return around.quotas.may_name(quota, job.metadata.namespace, listed)


def quota_of_template(template: TemplateMeta) -> str:
    """Return the quota that a pod template names, or ""; what a release has stamped is no name."""
    named = read_quota_name(template.labels)
    return "" if named == template.annotations.get(STAMPED_QUOTA) else named


def queue_of_job(job: JobFacts, quota: str) -> str:
    """Return the queue that the job waits in: the one it names, else the one of its quota."""
    return read_queue_name(job.metadata.labels, job.metadata.annotations) or quota


def _names_queue_or_quota(job: JobFacts) -> bool:
    meta = job.metadata
    return bool(read_queue_name(meta.labels, meta.annotations) or read_quota_name(meta.labels))


def _why_managed(job: JobFacts, around: Surroundings, settings: JobSettings) -> str:
    """Return the rule that makes a job the queue's, or ""."""
    if job.kind.held_by_gates:
        # The quota's label, and a namespace's quota, are koord-scheduler's business on any pod.
        return "its pods wait at the queue's gate, or name its queue"
    if settings.manage is Manage.ALL:
        return "every job is managed"
    if _names_queue_or_quota(job):
        return "it names a queue or quota"
    if job.metadata.annotations.get(SUSPEND) == "true":
        return f"it is annotated {SUSPEND}"
    namespace = job.metadata.namespace
    if read_annotation(around.namespace_labels, MANAGED_NAMESPACE) == "true":
        return f"namespace {namespace} is labelled {MANAGED_NAMESPACE}"
    if settings.manage is Manage.NAMESPACE_QUOTA and around.quotas.quota_of_namespace(namespace):
        return f"namespace {namespace} has a quota"
    return ""
