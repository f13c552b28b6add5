"""Edits of queues, quotas and nodes: the edited object, as an engine is told of it. Pure.

The objects are the newest that the engine was told, so a question needs no API server. They hold
the fields that the scheduler reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from queue_insight.insight.limit_edits import NodeCopies
from queue_insight.insight.queue_source import find_source
from queue_insight.what_if.edit import PATCH, AppliedEdit, Edit, FieldError
from queue_insight.what_if.validation import check_patch, decode, find_unread
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.managed_queues import differences, statement
from queue_scheduler.unit_writes.applied_patches import merged
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import ObjectMeta, Timestamp, Uid
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.queue_reservation import QueueReservation
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import QUEUE_POLICY

Thing = (
    Queue
    | QueueUnit
    | ElasticQuota
    | ElasticQuotaTree
    | ResourceQuota
    | QuotaPolicy
    | QueueReservation
    | Node
)
ThingT = TypeVar(
    "ThingT",
    Queue,
    QueueUnit,
    ElasticQuota,
    ElasticQuotaTree,
    ResourceQuota,
    QuotaPolicy,
    QueueReservation,
    Node,
)
QuotaT = TypeVar("QuotaT", ElasticQuota, ElasticQuotaTree, ResourceQuota)


def find_place(edit: Edit, known: Thing | None) -> ObjectMeta:
    """Return the metadata of the edited object; of one that is created, those it gets.

    Raises:
        FieldError: The edit has no name.
    """
    if known is not None:
        return known.metadata
    if not edit.name:
        raise FieldError("name", "is required")
    uid = Uid(f"what-if/{edit.kind}/{edit.namespace}/{edit.name}")
    return ObjectMeta(name=edit.name, namespace=edit.namespace, uid=uid)


def patched(
    edit: Edit, known: ThingT | None, kind: type[ThingT], created: Timestamp | None = None
) -> tuple[ThingT, tuple[str, ...]]:
    """Return the object after the edit's patch, and the paths in it that are not read.

    Args:
        edit: An edit with a patch.
        known: The object before, or None if it is created.
        kind: Its type.
        created: When it is created, or None if that does not matter.

    Raises:
        FieldError: The API server would not accept the patch.
    """
    patch = edit.patch
    assert isinstance(patch, dict), "a deletion has no patch"
    check_patch(patch, kind)
    place = find_place(edit, known)
    if known is None and created is not None:
        place = replace(place, creation_timestamp=created)
    before: dict[str, Any] = {} if known is None else msgspec.to_builtins(known)
    before["metadata"] = msgspec.to_builtins(place)
    found = decode(merged(before, patch), kind)
    for name in ("name", "namespace", "uid"):
        if getattr(found.metadata, name) != getattr(place, name):
            raise FieldError(f"{PATCH}.metadata.{name}", "cannot be changed")
    meta = replace(found.metadata, resource_version=place.resource_version)
    return replace(found, metadata=meta), find_unread(patch, kind)


def has_patch(edit: Edit) -> bool:
    """Return whether an edit changes its object; False: it deletes it.

    Raises:
        FieldError: It says neither.
    """
    if edit.patch is msgspec.UNSET:
        raise FieldError(PATCH, "is required; null deletes the object")
    return edit.patch is not None


def existing(thing: ThingT | None, edit: Edit) -> ThingT:
    """Return the object that an edit deletes or copies.

    Raises:
        FieldError: There is none.
    """
    if thing is None:
        raise FieldError("name", f"there is no {edit.kind} {edit.name!r}")
    return thing


# --- queues ---------------------------------------------------------------------------------------


def edit_queue(engine: Engine, edit: Edit) -> AppliedEdit:
    """Apply an edited queue to an engine.

    Raises:
        FieldError: The edit is wrong.
    """
    queue = engine.queues.queue(edit.name)
    if queue is not None and edit.namespace not in {"", queue.metadata.namespace}:
        raise FieldError("namespace", f"queues are in {queue.metadata.namespace!r}")
    if not has_patch(edit):
        engine.on_queue_gone(existing(queue, edit).metadata.name)
        return AppliedEdit()
    after, unread = patched(edit, queue, Queue)
    put_queue(engine, after, "spec.queuePolicy", "metadata.annotations")
    return AppliedEdit(unread=unread)


def put_queue(engine: Engine, queue: Queue, policy: str, options: str) -> None:
    """Apply a queue to an engine, if its settings are valid.

    Args:
        engine: The engine.
        queue: The queue.
        policy: The path of its policy in the patch.
        options: The path of its options.

    Raises:
        FieldError: A setting is unknown, or cannot be read: the last valid one would stay in force.
    """
    before = engine.queues.find(queue.metadata.name)
    known = () if before is None else before.rules.options.problems
    named_before = "" if before is None else before.rules.api_object.spec.queue_policy
    engine.on_queue(queue)
    found = engine.queues.find(queue.metadata.name)
    assert found is not None, "the queue was applied"
    named = queue.spec.queue_policy
    if named and named not in {named_before, found.rules.policy.name}:
        raise FieldError(f"{PATCH}.{policy}", f"queue policy {named!r} is unknown")
    for problem in found.rules.options.problems:
        if problem not in known:
            raise FieldError(f"{PATCH}.{options}", problem)


# --- quotas ---------------------------------------------------------------------------------------


def edit_quota(
    kind: type[QuotaT],
) -> Callable[[Engine, Edit, datetime], AppliedEdit]:
    """Return the function that applies an edited quota, or source of quotas, to an engine.

    It takes the time at which a quota is created: of two of one name the older counts.
    """

    def apply(engine: Engine, edit: Edit, wall: datetime) -> AppliedEdit:
        quota = _find(engine.objects.of_kind(kind), edit)
        if not has_patch(edit):
            engine.on_quota_gone(existing(quota, edit))
            return AppliedEdit()
        after, unread = patched(edit, quota, kind, rfc3339(wall))
        engine.on_quota(after)
        return AppliedEdit(unread=unread)

    return apply


def edit_elastic_quota(engine: Engine, edit: Edit, wall: datetime) -> AppliedEdit:
    """Apply an edited ElasticQuota to an engine, and let its queue follow what that states.

    If the edit changes nothing of that, the queue is left as earlier edits have it. No queue is
    made or deleted with a quota.

    Raises:
        FieldError: The edit is wrong, or a setting that the quota states for its queue.
    """
    before = _source_of(engine, edit.name)
    applied = edit_quota(ElasticQuota)(engine, edit, wall)
    queue, source = engine.queues.queue(edit.name), _source_of(engine, edit.name)
    if queue is None or source is None:
        return applied
    if before is None or statement(before) != statement(source):
        body = merged(msgspec.to_builtins(queue), differences(source, queue))
        policy = f"metadata.labels[{QUEUE_POLICY}]"
        put_queue(engine, decode(body, Queue), policy, "metadata.annotations")
    return applied


def _source_of(engine: Engine, name: str) -> ElasticQuota | None:
    queue = engine.queues.queue(name)
    return None if queue is None else find_source(engine, queue)


def _find(things: Iterator[QuotaT], edit: Edit) -> QuotaT | None:
    named = [
        each
        for each in things
        if each.metadata.name == edit.name and edit.namespace in {"", each.metadata.namespace}
    ]
    if len(named) > 1:
        raise FieldError("namespace", f"is required: there are {len(named)} of this name")
    return named[0] if named else None


# --- nodes ----------------------------------------------------------------------------------------


def edit_node(engine: Engine, edit: Edit) -> AppliedEdit:
    """Apply to an engine an edited node, a node that is deleted with its pods, or copies of a node.

    Raises:
        FieldError: The edit is wrong.
    """
    nodes = {each.metadata.name: each for each in engine.objects.of_kind(Node)}
    node = nodes.get(edit.name)
    if edit.copies:
        return _add_copies(engine, existing(node, edit), edit.copies, nodes)
    if not has_patch(edit):
        return _remove(engine, existing(node, edit))
    after, unread = patched(edit, node, Node)
    engine.on_node(after)
    return AppliedEdit(unread=unread)


def _add_copies(engine: Engine, node: Node, count: int, nodes: Mapping[str, Node]) -> AppliedEdit:
    if count < 0:
        raise FieldError("copies", "must be a positive number")
    name = node.metadata.name
    before = sum(each.startswith(f"{name}/") for each in nodes)
    NodeCopies(like=node, count=count, first=before).edit(engine)
    return AppliedEdit()


def _remove(engine: Engine, node: Node) -> AppliedEdit:
    stranded: dict[str, None] = {}
    for pod, unit in engine.living_pods.pods_on(node.metadata.name):
        engine.forget_pod(pod)
        if unit:
            stranded[unit] = None
    engine.on_node_gone(node.metadata.name)
    return AppliedEdit(stranded=tuple(stranded))
