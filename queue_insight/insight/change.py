"""One change of one object, or of the jobs that run, after which a unit would start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from queue_insight.insight.trials import Edit
from queue_scheduler.cache.unit_state import CachedUnit
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.queue_unit import API_VERSION, KIND


class ChangeKind(StrEnum):
    """What is changed."""

    QUOTA_MAX = "quotaMax"
    """The max of one quota is raised; of a ResourceQuota, `hard`."""
    QUOTA_MIN = "quotaMin"
    """The min of one quota is raised."""
    USER_LIMIT = "userLimit"
    """What a user or a group may have in a quota is raised, in its QuotaPolicy."""
    BUDGET = "budget"
    """What a quota may use in a period is raised, in its QuotaPolicy."""
    SEVERAL = "several"
    """Several changes, none of which is enough alone."""
    NODES = "nodes"
    """Nodes are added, like one that is there."""
    UNITS_END = "unitsEnd"
    """Admitted units end."""
    REQUEST = "request"
    """The pods of one pod set request less."""
    COUNT = "count"
    """One pod set has fewer pods."""
    PRIORITY = "priority"
    """The unit has a higher priority."""
    QUOTA = "quota"
    """It is charged to another quota."""
    QUEUE = "queue"
    """It waits in another queue."""
    EXECUTION_TIME = "executionTime"
    """It declares that it runs no longer than this."""
    STOP_POLICY = "stopPolicy"
    """Its queue is resumed."""
    QUEUE_OPTION = "queueOption"
    """Another option of its queue."""
    ACTIVE = "active"
    """It is made active again."""
    CHECK = "check"
    """An admission check that its queue needs becomes active."""
    PREEMPTION = "preemption"
    """Its queue preempts, or its quota reclaims what others borrow."""
    WAIT = "wait"
    """Nothing is changed."""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON merge patch of one object, or, for a part of a list, the operations of a JSON patch.

    A merge patch would replace the whole list, and tell what else is in it.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    patch: dict[str, Any]
    operations: tuple[dict[str, Any], ...] = ()


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change, and whether the unit starts after it.

    Attributes:
        kind: What is changed.
        description: The change as a sentence, without names of units.
        sufficient: Whether the unit starts after this change alone.
        verified: Whether the engine was asked to the end. False: a bound ended the trials, or the
            answer may depend on what they leave out; `description` says so.
        minimal: Whether it was seen that one grain less does not suffice: 1 milli-CPU, byte, piece,
            pod, node or priority; of units that end, one unit less. False where that is not known.
        practical: False if the unit would have to request nothing of a resource: that says what the
            limit leaves, and is no advice.
        ends: Of waiting, how many units end before it starts, one after the other; those that start
            before it included.
        also_starts: The units that start before it, `namespace/name`.
        patches: What to apply. (): the field cannot be changed, the object has more than is known
            here, or nothing is patched; `description` says what to do.
        units: The units that end, or are evicted.
        edits: The change as an engine is told of it.
        action: The change as a part of several, in the imperative; "": it is not made with others.
    """

    kind: ChangeKind
    description: str
    sufficient: bool
    verified: bool = True
    minimal: bool = True
    practical: bool = True
    ends: int = 0
    also_starts: tuple[str, ...] = ()
    patches: tuple[Patch, ...] = ()
    units: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    action: str = ""


def patch_owner(
    record: CachedUnit,
    *,
    of_job: Mapping[str, Any] | None = None,
    of_unit: Mapping[str, Any] | None = None,
) -> tuple[Patch, ...]:
    """Return the patch of the object that the user owns: the job, or a unit without a job.

    Args:
        record: The unit.
        of_job: The patch if it stands for a job; None if there is none.
        of_unit: The patch of a unit that a user has written; None if there is none.
    """
    unit, job = record.unit, record.unit.spec.consumer_ref
    if job is not None and job.kind:
        api_version, kind, name, patch = job.api_version, job.kind, job.name, of_job
    else:
        api_version, kind = API_VERSION, KIND
        name, patch = unit.metadata.name, of_unit
    if patch is None:
        return ()
    return (patch_of(api_version, kind, replace(unit.metadata, name=name), patch),)


def patch_of(api_version: str, kind: str, meta: ObjectMeta, patch: Mapping[str, Any]) -> Patch:
    """Return the patch of the object with this metadata."""
    return Patch(
        api_version=api_version,
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        patch=dict(patch),
    )


def merge_patches(patches: Iterable[Patch]) -> tuple[Patch, ...]:
    """Return one patch for each object that these patch, in order."""
    merged: dict[tuple[str, str, str, str], Patch] = {}
    for each in patches:
        place = (each.api_version, each.kind, each.namespace, each.name)
        known = merged.get(place)
        if known is None:
            merged[place] = each
            continue
        patch = _merged(known.patch, each.patch)
        operations = (*known.operations, *each.operations)
        merged[place] = replace(each, patch=patch, operations=operations)
    return tuple(merged.values())


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    found = dict(first)
    for key, value in second.items():
        known = found.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            value = _merged(known, value)  # noqa: PLW2901 - both say something of it
        found[key] = value
    return found


def count_of(count: int, what: str) -> str:
    """Return a number of things in words, such as "1 unit" and "2 units"."""
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def annotated(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the merge patch that sets annotations."""
    return {"metadata": {"annotations": dict(values)}}


def labeled(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the merge patch that sets labels."""
    return {"metadata": {"labels": dict(values)}}
