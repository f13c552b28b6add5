"""Which jobs are the queue's business. Pure.

A job is somebody's: its parent's (nested), Kueue's, another controller's, or the queue's. Only the
queue's jobs get a unit. A job that once had one stays the queue's until it ends: taking the label
away from a job in line must not let it past the line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from queue_controllers.decision.job_settings import JobSettings, Manage
from queue_controllers.decision.owners import (
    Owners,
    Refusal,
    is_built_in,
    name_of_job,
    name_of_owner,
)
from queue_controllers.decision.pod_admission import NOTHING_READ, AdmissionObjects
from queue_controllers.jobframework.generic_job import TRANSPARENT_KINDS, JobFacts
from shared_api.objects.meta import OwnerReference
from shared_api.objects.pod import TemplateMeta
from shared_api.quota_names import QuotaNames
from shared_api.well_known_kinds import KNOWN_JOB_KINDS
from shared_api.well_known_labels import (
    KUEUE_QUEUE_NAME,
    MANAGED_NAMESPACE,
    QUOTA_NAME,
    QUOTA_SPELLINGS,
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

NAMES_NOTHING: Final = "it names no queue or quota"
"""Why a job that is nobody else's is not managed either."""


class Rule(StrEnum):
    """The rule that says whose a job is: a word for programs, as the debug API has it."""

    UNSAID = ""
    # It is the queue's.
    IN_QUEUE = "InQueue"
    EVERY_JOB = "EveryJob"
    NAMES_QUEUE_OR_QUOTA = "NamesQueueOrQuota"
    SUSPEND_ANNOTATION = "SuspendAnnotation"
    NAMESPACE_LABEL = "NamespaceLabel"
    NAMESPACE_QUOTA = "NamespaceQuota"
    GATED_PODS = "GatedPods"
    # It is not.
    NAMES_NOTHING = "NamesNothing"
    NAMESPACE_EXCLUDED = "NamespaceExcluded"
    LEFT_TO_KUEUE = "LeftToKueue"
    MANAGED_BY_OTHER = "ManagedByOther"
    OWNED = "Owned"
    OWNER_IS_HELD = "OwnerIsHeld"


class _Ground(NamedTuple):
    """Why a job is somebody's."""

    rule: Rule
    why: str


class ClusterContext(msgspec.Struct, frozen=True, kw_only=True):
    """What is known outside of the job: quotas, namespaces, priority classes."""

    quotas: QuotaNames = QuotaNames()
    namespace_labels: dict[str, str] = {}
    """Of the job's namespace."""
    priority_classes: Mapping[str, int] = {}
    max_priority: int | None = None
    """What the namespace lets its jobs have at most."""
    unread_ceiling: str | None = None
    """What it says of that where it is no number, quoted; "": the namespace is not known yet."""
    only_classes: bool = False
    """Priorities are those of PriorityClasses, whatever else a job says."""
    leaves_to_kueue: bool = True
    """Kueue is there, or is said to be: what has its label is its business."""
    default_priority: int | None = None
    """Of the priority class that is the cluster's default, if there is one."""
    admission: AdmissionObjects = NOTHING_READ
    """What the API server goes by as it creates pods in the job's namespace."""
    available_quotas: frozenset[str] | None = None
    """What the job's namespace lists, where only quotas that list it, or that it lists, may be
    named; None: any may be."""


class Ownership(msgspec.Struct, frozen=True):
    """Whose a job is, and why, for logs."""

    managed: bool
    reason: str
    ignored_owner: str = ""
    """Which owner does not count, and why, for people; "" for none."""
    may_be_nested: bool = False
    """It may be that the owner does count, and has only not said so yet."""
    nested: bool = False
    """It is not managed because of its owner."""
    held_by_owner: bool = False
    """And must not run, as its owner is held."""
    rule: Rule = Rule.UNSAID
    """What `reason` says in words."""


def classify_ownership(
    job: JobFacts,
    around: ClusterContext,
    settings: JobSettings,
    *,
    has_unit: bool,
    owners: Owners,
) -> Ownership:
    """Return whether a job is the queue's, and why or why not.

    `owners` is asked last, and only about a job that would be the queue's and has not ended; what
    it raises passes.
    """
    if whose := _whose_else(job, around, settings):
        return Ownership(managed=False, reason=whose.why, rule=whose.rule)
    if has_unit or read_annotation(job.metadata.annotations, RELEASED_AT):
        ground: _Ground | None = _Ground(Rule.IN_QUEUE, "it is in the queue already")
    else:
        ground = _why_managed(job, around, settings)
    if ground is None:
        return Ownership(managed=False, reason=NAMES_NOTHING, rule=Rule.NAMES_NOTHING)
    rule, reason = ground
    # Of a job that has ended only the end counts, and must not wait for anybody's answer.
    if job.status.outcome is not None:
        return Ownership(managed=True, reason=reason, rule=rule)
    nested, ignored = _why_nested(job, owners)
    if nested:
        return Ownership(managed=False, reason=nested, nested=True, rule=Rule.OWNED)
    if ignored is not None and ignored.holds:
        return Ownership(
            managed=False,
            reason=ignored.why,
            nested=True,
            held_by_owner=True,
            rule=Rule.OWNER_IS_HELD,
        )
    if ignored is None:
        return Ownership(managed=True, reason=reason, rule=rule)
    return Ownership(
        managed=True,
        reason=reason,
        ignored_owner=ignored.why,
        # What is in line does not get out of it by what may turn out to be true.
        may_be_nested=ignored.may_pass and not has_unit,
        rule=rule,
    )


def _whose_else(job: JobFacts, around: ClusterContext, settings: JobSettings) -> _Ground | None:
    """Return who else the job says that it belongs to; None for nobody."""
    meta = job.metadata
    if meta.namespace in settings.excluded_namespaces:
        return _Ground(Rule.NAMESPACE_EXCLUDED, f"namespace {meta.namespace} is never managed")
    # Pods may get the label, empty, from Kueue's webhook.
    named = job.kind.held_by_gates and KUEUE_QUEUE_NAME in meta.labels
    if around.leaves_to_kueue and (named or meta.labels.get(KUEUE_QUEUE_NAME)):
        return _Ground(Rule.LEFT_TO_KUEUE, "it belongs to Kueue")
    if job.foreign_manager:
        return _Ground(Rule.MANAGED_BY_OTHER, f"spec.managedBy is {job.foreign_manager}")
    return None


def _why_nested(job: JobFacts, owners: Owners) -> tuple[str, Refusal | None]:
    """Return who stands above the job, where that makes it another's, or "".

    And why an owner that it names does not.
    """
    if job.kind.held_by_gates:
        return _why_pods_nested(job, owners), None
    names_itself = _names_queue_or_quota(job)
    child, owner = name_of_job(job), job.metadata.controller_owner
    for _ in range(MAX_OWNER_DEPTH):
        if owner is None:
            break
        if owner.kind not in TRANSPARENT_KINDS:
            if owners.is_job(owner):
                return _judge_maker(owners.why_not_made(job, child, owner), owner)
            if not names_itself:
                return _judge_unknown(owner, owners)
        child, owner = name_of_owner(owner), owners.above(owner).owner
    return "", None


def _judge_maker(refusal: Refusal | None, owner: OwnerReference) -> tuple[str, Refusal | None]:
    whose = f"{owner.kind} {owner.name}"
    if refusal is None:
        return f"{whose} owns it", None
    if refusal.holds:
        return "", msgspec.structs.replace(refusal, why=f"{whose} owns it, and {refusal.why}")
    return "", Refusal(f"{whose} is named as its owner, but {refusal.why}", refusal.may_pass)


def _judge_unknown(owner: OwnerReference, owners: Owners) -> tuple[str, Refusal | None]:
    """Judge an owner of which nobody here knows what it makes: it is believed if it is there."""
    whose = f"{owner.kind} {owner.name}"
    none = f"a {owner.kind} makes no jobs"
    if why := none if is_built_in(owner) else owners.above(owner).missing:
        return "", Refusal(f"{whose} is named as its owner, but {why}")
    return f"{whose} owns it, and it names no queue or quota itself", None


def _why_pods_nested(job: JobFacts, owners: Owners) -> str:
    """Return who stands above pods that are a job, where that makes it another's, or "".

    By kind alone: a pod that is left alone gets no further than one that names no queue.
    """
    owner = job.metadata.controller_owner
    owner = find_owner(owner, lambda each: owners.above(each).owner, _transparent_to(job))
    if owner is None or owner.kind not in KNOWN_JOB_KINDS:
        return ""
    return f"{owner.kind} {owner.name} owns it"


def _transparent_to(job: JobFacts) -> frozenset[str]:
    return TRANSPARENT_KINDS | job.kind.made_by


def find_owner(
    owner: OwnerReference | None,
    read_owner: Callable[[OwnerReference], OwnerReference | None],
    transparent: frozenset[str] = TRANSPARENT_KINDS,
) -> OwnerReference | None:
    """Return the owner that pods are nested under: the first of a known kind above them.

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


def quota_of_job(job: JobFacts, around: ClusterContext) -> str:
    """Return the quota that the job is charged to, or "".

    A quota that the pod template names is the one koord-scheduler charges the pods to, so it comes
    before what the job's own label says, which is a wish that a release stamps on the template.
    """
    for pod_set in job.pod_sets:
        if named := quota_of_template(pod_set.template.metadata):
            return named
    if named := read_quota_name(job.metadata.labels):
        return named
    return around.quotas.quota_of_namespace(job.metadata.namespace)


def may_use_quota(job: JobFacts, around: ClusterContext) -> bool:
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
    return read_quota_name(quota_labels_of_template(template))


def quota_labels_of_template(template: TemplateMeta) -> dict[str, str]:
    """Return the labels by which a pod template names a quota, in every spelling that it has."""
    labels: dict[str, str] = {
        key: template.labels[key] for key in QUOTA_SPELLINGS if key in template.labels
    }
    if labels.get(QUOTA_NAME) == template.annotations.get(STAMPED_QUOTA):
        labels.pop(QUOTA_NAME, None)
    return labels


def queue_of_job(job: JobFacts, quota: str) -> str:
    """Return the queue that the job waits in: the one it names, else the one of its quota."""
    return read_queue_name(job.metadata.labels, job.metadata.annotations) or quota


def _names_queue_or_quota(job: JobFacts) -> bool:
    meta = job.metadata
    return bool(read_queue_name(meta.labels, meta.annotations) or read_quota_name(meta.labels))


def _why_managed(job: JobFacts, around: ClusterContext, settings: JobSettings) -> _Ground | None:
    """Return the rule that makes a job the queue's; None where none does."""
    if job.kind.held_by_gates:
        # The quota's label, and a namespace's quota, are koord-scheduler's business on any pod.
        return _Ground(Rule.GATED_PODS, "its pods wait at the queue's gate, or name its queue")
    if settings.manage is Manage.ALL:
        return _Ground(Rule.EVERY_JOB, "every job is managed")
    if _names_queue_or_quota(job):
        return _Ground(Rule.NAMES_QUEUE_OR_QUOTA, "it names a queue or quota")
    if job.metadata.annotations.get(SUSPEND) == "true":
        return _Ground(Rule.SUSPEND_ANNOTATION, f"it is annotated {SUSPEND}")
    namespace = job.metadata.namespace
    if read_annotation(around.namespace_labels, MANAGED_NAMESPACE) == "true":
        why = f"namespace {namespace} is labelled {MANAGED_NAMESPACE}"
        return _Ground(Rule.NAMESPACE_LABEL, why)
    if settings.manage is Manage.NAMESPACE_QUOTA and around.quotas.quota_of_namespace(namespace):
        return _Ground(Rule.NAMESPACE_QUOTA, f"namespace {namespace} has a quota")
    return None
