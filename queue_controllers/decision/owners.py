"""The owners that a job names: what is asked about them, and whether one has made it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from queue_controllers.jobframework.generic_job import Child, JobFacts, JobPodSet
from shared_api.objects.meta import OwnerReference
from shared_api.objects.queue_unit import PodSet, QueueUnit
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError, for_people
from shared_api.resource_list import Amounts, add, scale

BUILT_IN_GROUPS: Final = frozenset(
    (
        *("", "apps", "autoscaling", "batch", "extensions", "policy"),
        *("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io"),
        *("authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io"),
        *("coordination.k8s.io", "discovery.k8s.io", "events.k8s.io"),
        *("flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io"),
        *("node.k8s.io", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io"),
        *("storage.k8s.io", "storagemigration.k8s.io"),
    )
)
"""Groups of Kubernetes itself. One of their kinds creates jobs, CronJob; that is transparent."""


class NotReadError(Exception):
    """An answer depends on an object that was not read yet, and is not to be read now; names it."""


class Above(msgspec.Struct, frozen=True):
    """What is known of an owner of any kind."""

    missing: str = ""
    """Why it does not exist, as the end of a sentence; "" if it does, or if that is unknown."""
    owner: OwnerReference | None = None
    """Its own controller; None if it has none, or if it may not be read."""


class Refusal(msgspec.Struct, frozen=True):
    """Why an owner does not count."""

    why: str
    may_pass: bool = False
    """The proof may only be missing so far."""
    holds: bool = False
    """The owner does count, but is held itself, and the job runs: the job must be held with it."""


class ChildName(msgspec.Struct, frozen=True):
    """The kind and name of an object with an owner."""

    kind: str
    """`group/Kind`."""
    name: str


class Owners(Protocol):
    """What `classify_ownership` asks about owners."""

    def above(self, owner: OwnerReference) -> Above:
        """Return what stands above an owner; may ask the API server, raises ApiFailure."""

    def is_job(self, owner: OwnerReference) -> bool:
        """Return whether the owner's kind is one that an adapter knows."""

    def why_not_made(
        self, job: JobFacts, child: ChildName, owner: OwnerReference
    ) -> Refusal | None:
        """Return why an owner (a job by its kind) has not created a child; None if it has.

        `child` is the job, or what stands between the two. May ask the API server, raises
        ApiFailure.
        """


def name_of_job(job: JobFacts) -> ChildName:
    """Return the kind and name of a job."""
    return ChildName(f"{job.kind.group}/{job.kind.kind}", job.metadata.name)


def name_of_owner(owner: OwnerReference) -> ChildName:
    """Return the kind and name of an owner, for what stands above it."""
    return ChildName(f"{group_of(owner)}/{owner.kind}", owner.name)


def group_of(owner: OwnerReference) -> str:
    """Return the API group of an owner, "" for the core group."""
    group, slash, _ = owner.api_version.partition("/")
    return group if slash else ""


def is_built_in(owner: OwnerReference) -> bool:
    """Return whether the owner is of a group of Kubernetes itself, whose kinds create no jobs."""
    return group_of(owner) in BUILT_IN_GROUPS


# --- whether an owner has made a job --------------------------------------------------------------
# Whether an owner makes a job nested: whether it has really created it.
#
# Every user who may create a job may write an owner into it. Were the owner's kind believed, a
# small admitted job could let a large one start without admission. So an owner counts only if its
# kind creates such children, its operator has created this one, and the child's pods are a part of
# what the owner waits for. With any other owner a job is queued as if it had none, and an event
# says why.

PODS: Final = "pods"
"""The resource that counts pods."""


class OwnerJob(msgspec.Struct, frozen=True, kw_only=True):
    """An owner that is a job, and what it creates under the name of a child."""

    facts: JobFacts
    makes: str = ""
    """What its operator creates, in words; "" for pods only."""
    child: Child | None = None
    unit: QueueUnit | None = None
    """The owner's own unit; None if it has none."""


def judge_child(job: JobFacts, child: ChildName, owner: OwnerJob) -> Refusal | None:
    """Return why an existing owner has not created a child of this name; None if it has.

    Args:
        job: Its pods are compared.
        child: The job itself, or what stands between it and the owner.
        owner: What the owner's adapter reports.
    """
    above, made = owner.facts, owner.child
    kind = above.kind.kind
    if made is None:
        makes = f"makes only {owner.makes}" if owner.makes else "makes only pods"
        return Refusal(f"a {kind} {makes}, and no {_kind(child)} {child.name}")
    if above.foreign_manager:
        return Refusal(f"it makes nothing here, its spec.managedBy is {above.foreign_manager}")
    if not made.is_named:
        return Refusal(f"its status does not name this {_kind(child)}", may_pass=True)
    ended = above.status.outcome is not None and not made.outlives
    if ended and job.status.outcome is None:
        return Refusal("it has ended, and this has not", may_pass=True)
    if excess := _excess(job, owner, made):
        return Refusal(f"this asks for more than its part of it: {excess}")
    if above.suspended and not job.suspended and job.kind.has_suspend_field:
        return Refusal("it is held", holds=True)
    return None


def _kind(child: ChildName) -> str:
    return child.kind.rpartition("/")[2]


def _excess(job: JobFacts, owner: OwnerJob, made: Child) -> str:
    """Return by how much a job exceeds what its owner gives it, as "cpu 40 of 1"; "" for nothing.

    An owner that reads its pods off the child was admitted with what stands in its unit. While it
    is held the unit follows the child.
    """
    try:
        wanted = _total(job.pod_sets)
        if made.pod_sets is not None:
            given = _total(made.pod_sets)
        elif owner.unit is not None and not owner.facts.suspended:
            given = _total(owner.unit.spec.pod_set)
        else:
            return ""
    except QuantityError as error:
        return str(error)
    for resource, amount in sorted(wanted.items()):
        part = given.get(resource, 0)
        if amount > part:
            shown = for_people(resource, (amount, part))
            return f"{resource} {shown[0]} of {shown[1]}"
    return ""


def _total(pod_sets: Iterable[JobPodSet | PodSet]) -> Amounts:
    """Return what pods ask for together, and how many they are."""
    total: Amounts = {}
    for each in pod_sets:
        one = add(pod_requests(each.template.spec), {PODS: 1})
        total = add(total, scale(one, each.count))
    return total
