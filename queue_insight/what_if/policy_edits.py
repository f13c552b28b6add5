"""Edits of QuotaPolicies: the edited policy, as an engine is told of it, and its queues. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

from queue_insight.insight.queue_source import find_made_for
from queue_insight.what_if.edit import PATCH, AppliedEdit, Edit, FieldError
from queue_insight.what_if.json_patches import OPERATIONS, apply_operations
from queue_insight.what_if.object_edits import existing, has_patch, patched, put_queue
from queue_insight.what_if.validation import decode
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.managed_queues import PolicyStatement, policy_differences
from queue_scheduler.tenants.periods import find_calendars
from queue_scheduler.unit_writes.applied_patches import merged
from shared_api.objects.queue import Queue
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.timestamps import rfc3339


def edit_policy(engine: Engine, edit: Edit, wall: datetime) -> AppliedEdit:
    """Apply an edited policy to an engine; one that is created is the youngest.

    The queues that the scheduler made for its quotas follow it, unless the edit changes nothing of
    what they have from policies: then they are left as earlier edits have them.

    Raises:
        FieldError: The edit is wrong, or its limits or budgets cannot be read: the last valid ones
            would stay in force.
    """
    namespace = engine.policies.namespace
    if edit.namespace not in {"", namespace}:
        raise FieldError("namespace", f"quota policies are in {namespace!r}")
    stated = engine.policies.find(edit.name)
    policy = None if stated is None else stated.api_object
    named = () if policy is None else policy.spec.quotas
    before = {quota: engine.policies.statement_of(quota) for quota in named}
    if edit.operations:
        edit = _as_merge_patch(edit, existing(policy, edit))
    if not has_patch(edit):
        engine.on_quota_policy_gone(existing(policy, edit).metadata.name)
        _let_queues_follow(engine, before)
        return AppliedEdit()
    place = replace(edit, namespace=namespace)
    after, unread = patched(place, policy, QuotaPolicy, rfc3339(wall))
    if not after.spec.quotas:
        raise FieldError(f"{PATCH}.spec.quotas", "is required")
    before |= {quota: engine.policies.statement_of(quota) for quota in after.spec.quotas}
    engine.on_calendars(find_calendars(after.spec.budgets, int(wall.timestamp())))
    engine.on_quota_policy(after)
    found = engine.policies.find(edit.name)
    assert found is not None, "the policy was applied"
    if found.problem and (stated is None or stated.problem != found.problem):
        raise FieldError(f"{PATCH}.spec", found.problem)
    _let_queues_follow(engine, before)
    return AppliedEdit(unread=unread)


def _as_merge_patch(edit: Edit, policy: QuotaPolicy) -> Edit:
    """Return an edit that makes of a policy what the operations of another one do."""
    before = msgspec.json.decode(msgspec.json.encode(policy))  # with lists, not tuples
    after = apply_operations(before, edit.operations)
    for name in before.keys() | after.keys():
        if name != "spec" and before.get(name) != after.get(name):
            raise FieldError(OPERATIONS, "change only what is below /spec")
    was, spec = before.get("spec", {}), after.get("spec")
    if not isinstance(spec, dict):
        raise FieldError(OPERATIONS, "the spec must be an object")
    changed = {key: spec.get(key) for key in sorted({*was, *spec})}
    patch = {key: value for key, value in changed.items() if value != was.get(key)}
    return replace(edit, operations=(), patch={"spec": patch})


def _let_queues_follow(engine: Engine, before: Mapping[str, PolicyStatement | None]) -> None:
    """Give the queues of quotas what policies state now; `before`: what they stated, by quota."""
    stated = {quota: engine.policies.statement_of(quota) for quota in before}
    differing = {quota for quota in before if stated[quota] != before[quota]}
    if not differing:
        return
    for queue in [each.rules.api_object for each in engine.queues]:
        quota = find_made_for(engine, queue)
        if quota not in differing:
            continue
        body = policy_differences(stated[quota], queue)
        if body:
            after = decode(merged(msgspec.to_builtins(queue), body), Queue)
            put_queue(engine, after, "spec.queue", "spec.queue")
