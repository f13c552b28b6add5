"""Which jobs the queue manages. Pure.

A job belongs to its parent (it is nested), to Kueue, to another controller, or to the queue. Only
the queue's jobs get a unit. A job that has had one stays the queue's until it ends: to remove the
label from a pending job must not let it start before others.
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
from queue_controllers.jobframework.generic_job import TRANSPARENT_KINDS, JobFacts, JobKind
from shared_api.objects.meta import ObjectMeta, OwnerReference
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
"""Limit of the walk through controller owners: what is deeper is a loop, or an error."""

NAMES_NOTHING: Final = "it names no queue or quota"
"""Why a job that belongs to nothing else is not managed either."""


class Rule(StrEnum):
    """The rule that says what a job belongs to: a word for programs, as the debug API has it."""

    UNSTATED = ""
    # The queue manages it.
    IN_QUEUE = "InQueue"
    EVERY_JOB = "EveryJob"
    NAMES_QUEUE_OR_QUOTA = "NamesQueueOrQuota"
    SUSPEND_ANNOTATION = "SuspendAnnotation"
    NAMESPACE_LABEL = "NamespaceLabel"
    NAMESPACE_QUOTA = "NamespaceQuota"
    GATED_PODS = "GatedPods"
    # The queue does not manage it.
    NAMES_NOTHING = "NamesNothing"
    NAMESPACE_EXCLUDED = "NamespaceExcluded"
    LEFT_TO_KUEUE = "LeftToKueue"
    MANAGED_BY_OTHER = "ManagedByOther"
    OWNED = "Owned"
    OWNER_IS_HELD = "OwnerIsHeld"


class _Match(NamedTuple):
    """The rule by which a job belongs to something, and its reason."""

    rule: Rule
    why: str


class ClusterContext(msgspec.Struct, frozen=True, kw_only=True):
    """What is known outside of the job: quotas, namespaces, priority classes."""

    quotas: QuotaNames = QuotaNames()
    namespace_labels: dict[str, str] = {}
    """The labels of the job's namespace."""
    priority_classes: Mapping[str, int] = {}
    max_priority: int | None = None
    """The highest priority that the namespace allows its jobs; None: any."""
    unread_ceiling: str | None = None
    """The namespace's value for that if it is no number, quoted; "" if the namespace is not known
    yet."""
    only_classes: bool = False
    """Priorities are those of PriorityClasses, whatever else a job says."""
    leaves_to_kueue: bool = True
    """Kueue is installed, or is configured to be: jobs with its label are left to it."""
    default_priority: int | None = None
    """That of the cluster's default priority class, if there is one."""
    admission: AdmissionObjects = NOTHING_READ
    """What the API server applies when it creates pods in the job's namespace."""
    available_quotas: frozenset[str] | None = None
    """The quotas that may be named in the job's namespace: those that it lists, or that list it;
    None: all of them."""


class Ownership(msgspec.Struct, frozen=True):
    """Whether the queue manages a job, and why, for logs."""

    managed: bool
    reason: str
    ignored_owner: str = ""
    """Which owner does not count, and why, as text; "" for none."""
    may_be_nested: bool = False
    """The owner may count, and its proof may only be missing so far."""
    nested: bool = False
    """It is not managed because of its owner."""
    held_by_owner: bool = False
    """In addition it must not run, since its owner is held."""
    rule: Rule = Rule.UNSTATED
    """What `reason` says in words."""


def classify_ownership(
    job: JobFacts,
    context: ClusterContext,
    settings: JobSettings,
    *,
    has_unit: bool,
    owners: Owners,
) -> Ownership:
    """Return whether the queue manages a job, and why or why not.

    `owners` is asked last, and only about a job that would be managed and has not ended; what it
    raises is passed on.
    """
    if whose := _whose_else(job, context, settings):
        return Ownership(managed=False, reason=whose.why, rule=whose.rule)
    ground = _why_managed(job.metadata, job.kind, context, settings, has_unit=has_unit)
    if ground is None:
        return Ownership(managed=False, reason=NAMES_NOTHING, rule=Rule.NAMES_NOTHING)
    rule, reason = ground
    # Of a job that has ended only the end counts; it must not wait for an answer of the API server.
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
        # A job that is pending stays so until its owner is proved.
        may_be_nested=ignored.may_pass and not has_unit,
        rule=rule,
    )


def is_queued_by_labels(
    meta: ObjectMeta, kind: JobKind, context: ClusterContext, settings: JobSettings
) -> bool:
    """Return whether the queue manages a job with this metadata that has no owner and no unit."""
    if _excluded_by_labels(meta, kind, context, settings) is not None:
        return False
    return _why_managed(meta, kind, context, settings, has_unit=False) is not None


def _whose_else(job: JobFacts, context: ClusterContext, settings: JobSettings) -> _Match | None:
    """Return what else the job says that it belongs to; None for nothing."""
    if (whose := _excluded_by_labels(job.metadata, job.kind, context, settings)) is not None:
        return whose
    if job.foreign_manager:
        return _Match(Rule.MANAGED_BY_OTHER, f"spec.managedBy is {job.foreign_manager}")
    return None


def _excluded_by_labels(
    meta: ObjectMeta, kind: JobKind, context: ClusterContext, settings: JobSettings
) -> _Match | None:
    if meta.namespace in settings.excluded_namespaces:
        return _Match(Rule.NAMESPACE_EXCLUDED, f"namespace {meta.namespace} is never managed")
    # Pods may get the label, empty, from Kueue's webhook.
    named = kind.held_by_gates and KUEUE_QUEUE_NAME in meta.labels
    if context.leaves_to_kueue and (named or meta.labels.get(KUEUE_QUEUE_NAME)):
        return _Match(Rule.LEFT_TO_KUEUE, "it belongs to Kueue")
    return None


def _why_nested(job: JobFacts, owners: Owners) -> tuple[str, Refusal | None]:
    """Return the owner that makes the job nested, or "", and why a named owner does not count."""
    if job.kind.held_by_gates:
        return _why_pods_nested(job, owners), None
    names_itself = _names_queue_or_quota(job.metadata)
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
    """Judge an owner of an unknown kind: it counts if it exists."""
    whose = f"{owner.kind} {owner.name}"
    none = f"a {owner.kind} makes no jobs"
    if why := none if is_built_in(owner) else owners.above(owner).missing:
        return "", Refusal(f"{whose} is named as its owner, but {why}")
    return f"{whose} owns it, and it names no queue or quota itself", None


def _why_pods_nested(job: JobFacts, owners: Owners) -> str:
    """Return what stands above pods that are a job, where that makes it another's, or "".

    Judged by kind alone: a pod that is left alone gains nothing over one that names no queue.
    """
    owner = job.metadata.controller_owner
    owner = find_owner(
        owner, lambda each: owners.above(each).owner, TRANSPARENT_KINDS | job.kind.made_by
    )
    if owner is None or owner.kind not in KNOWN_JOB_KINDS:
        return ""
    return f"{owner.kind} {owner.name} owns it"


def find_owner(
    owner: OwnerReference | None,
    read_owner: Callable[[OwnerReference], OwnerReference | None],
    transparent: frozenset[str] = TRANSPARENT_KINDS,
) -> OwnerReference | None:
    """Return the owner that pods are nested under: the first of a known kind above them.

    If there is none, it is the nearest owner of an unknown kind; None when the job has no owner, or
    only owners of transparent kinds: what starts jobs (CronJob) or makes a job's pods.
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


def quota_of_job(job: JobFacts, context: ClusterContext) -> str:
    """Return the quota that the job is charged to, or "".

    A quota that the pod template names is the one that koord-scheduler charges the pods to, so it
    comes before the job's own label, which takes effect when a release writes it into the template.
    """
    for pod_set in job.pod_sets:
        if named := quota_of_template(pod_set.template.metadata):
            return named
    if named := read_quota_name(job.metadata.labels):
        return named
    return context.quotas.quota_of_namespace(job.metadata.namespace)


def may_use_quota(job: JobFacts, context: ClusterContext) -> bool:
    """Return whether the job's namespace may name the quota that the job is charged to.

    A quota that is not known here is judged by the scheduler: it does not exist, or is the node of
    a tree.
    """
    quota, listed = quota_of_job(job, context), context.available_quotas
    if listed is None or quota not in context.quotas.known or quota in SPECIAL_QUOTAS:
        return True
    return context.quotas.may_name(quota, job.metadata.namespace, listed)


def quota_of_template(template: TemplateMeta) -> str:
    """Return the quota that a pod template names itself, or ""; not what releases wrote."""
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


def is_marked_queued(meta: ObjectMeta, context: ClusterContext) -> bool:
    """Return whether a job or the label of its namespace says that it is the queue's.

    The chart's policies read the same; what else makes a job the queue's they cannot see.
    """
    if _names_queue_or_quota(meta) or meta.annotations.get(SUSPEND) == "true":
        return True
    return read_annotation(context.namespace_labels, MANAGED_NAMESPACE) == "true"


def _names_queue_or_quota(meta: ObjectMeta) -> bool:
    return bool(read_queue_name(meta.labels, meta.annotations) or read_quota_name(meta.labels))


def _why_managed(
    meta: ObjectMeta,
    kind: JobKind,
    context: ClusterContext,
    settings: JobSettings,
    *,
    has_unit: bool,
) -> _Match | None:
    """Return the rule by which the queue manages a job; None if none does."""
    if has_unit or read_annotation(meta.annotations, RELEASED_AT):
        return _Match(Rule.IN_QUEUE, "it is in the queue already")
    if kind.held_by_gates:
        # On any pod the quota's label, and a namespace's quota, concern koord-scheduler.
        return _Match(Rule.GATED_PODS, "its pods wait at the queue's gate, or name its queue")
    if settings.manage is Manage.ALL:
        return _Match(Rule.EVERY_JOB, "every job is managed")
    if _names_queue_or_quota(meta):
        return _Match(Rule.NAMES_QUEUE_OR_QUOTA, "it names a queue or quota")
    if meta.annotations.get(SUSPEND) == "true":
        return _Match(Rule.SUSPEND_ANNOTATION, f"it is annotated {SUSPEND}")
    namespace = meta.namespace
    if read_annotation(context.namespace_labels, MANAGED_NAMESPACE) == "true":
        why = f"namespace {namespace} is labelled {MANAGED_NAMESPACE}"
        return _Match(Rule.NAMESPACE_LABEL, why)
    if settings.manage is Manage.NAMESPACE_QUOTA and context.quotas.quota_of_namespace(namespace):
        return _Match(Rule.NAMESPACE_QUOTA, f"namespace {namespace} has a quota")
    return None
