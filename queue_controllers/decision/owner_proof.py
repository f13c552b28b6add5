"""Whether an owner makes a job nested: whether it has really created it. Pure.

Every user who may create a job may write an owner into it. Were the owner's kind believed, a small
admitted job could let a large one start without admission. So an owner counts only if its kind
creates such children, its operator has created this one, and the child's pods are a part of what
the owner waits for. With any other owner a job is queued as if it had none, and an event says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from queue_controllers.decision.owners import ChildName, Refusal
from queue_controllers.jobframework.generic_job import Child, JobFacts, JobPodSet
from shared_api.objects.queue_unit import PodSet, QueueUnit
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError, format_amount
from shared_api.resource_list import Amounts, add, scale

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
    if above.suspended and not job.suspended and job.kind.has_switch:
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
            shown = format_amount(resource, amount), format_amount(resource, part)
            return f"{resource} {shown[0]} of {shown[1]}"
    return ""


def _total(pod_sets: Iterable[JobPodSet | PodSet]) -> Amounts:
    """Return what pods ask for together, and how many they are."""
    total: Amounts = {}
    for each in pod_sets:
        one = add(pod_requests(each.template.spec), {PODS: 1})
        total = add(total, scale(one, each.count))
    return total
