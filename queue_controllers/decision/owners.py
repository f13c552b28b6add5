"""The questions about the owners that a job names. Pure.

Whether an owner that is a job has really created it is judged in `owner_proof`.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.meta import OwnerReference

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
        ...

    def is_job(self, owner: OwnerReference) -> bool:
        """Return whether the owner's kind is one that an adapter knows."""
        ...

    def why_not_made(
        self, job: JobFacts, child: ChildName, owner: OwnerReference
    ) -> Refusal | None:
        """Return why an owner (a job by its kind) has not created a child; None if it has.

        `child` is the job, or what stands between the two. May ask the API server, raises
        ApiFailure.
        """
        ...


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
