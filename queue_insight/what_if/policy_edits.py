"""Edits of QuotaPolicies: the edited policy, as an engine is told of it. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from queue_insight.what_if.edit import PATCH, AppliedEdit, Edit, FieldError
from queue_insight.what_if.object_edits import existing, has_patch, patched
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.periods import find_calendars
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.timestamps import rfc3339


def edit_policy(engine: Engine, edit: Edit, wall: datetime) -> AppliedEdit:
    """Apply an edited policy to an engine; one that is created is the youngest.

    Raises:
        FieldError: The edit is wrong, or its limits or budgets cannot be read: the last valid ones
            would stay in force.
    """
    namespace = engine.policies.namespace
    if edit.namespace not in {"", namespace}:
        raise FieldError("namespace", f"quota policies are in {namespace!r}")
    stated = engine.policies.find(edit.name)
    policy = None if stated is None else stated.api_object
    if not has_patch(edit):
        engine.on_quota_policy_gone(existing(policy, edit).metadata.name)
        return AppliedEdit()
    place = replace(edit, namespace=namespace)
    after, unread = patched(place, policy, QuotaPolicy, rfc3339(wall))
    if not after.spec.quotas:
        raise FieldError(f"{PATCH}.spec.quotas", "is required")
    engine.on_calendars(find_calendars(after.spec.budgets, int(wall.timestamp())))
    engine.on_quota_policy(after)
    found = engine.policies.find(edit.name)
    assert found is not None, "the policy was applied"
    if found.problem and (stated is None or stated.problem != found.problem):
        raise FieldError(f"{PATCH}.spec", found.problem)
    return AppliedEdit(unread=unread)
