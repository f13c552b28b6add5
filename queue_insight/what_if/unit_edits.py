"""Edits of units: the edited unit, as an engine is told of it. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from queue_insight.insight.trials import end, replacement
from queue_insight.what_if.edit import PATCH, AppliedEdit, Edit, FieldError
from queue_insight.what_if.object_edits import has_patch, patched
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus
from shared_api.timestamps import rfc3339


def edit_unit(engine: Engine, edit: Edit, wall: datetime) -> AppliedEdit:
    """Apply to an engine that a unit is edited, ends with all its pods, or is deleted.

    The pods of a deleted unit stay charged, as in a cluster.

    Raises:
        FieldError: The edit is wrong.
    """
    key = f"{edit.namespace}/{edit.name}"
    record = engine.record(key)
    asks_to_leave = edit.end or edit.requeue
    if record is None and (asks_to_leave or not has_patch(edit)):
        raise FieldError("name", f"there is no QueueUnit {key!r}")
    if record is not None and asks_to_leave:
        if not record.occupies:
            raise FieldError("end" if edit.end else "requeue", f"{key} is not admitted")
        if not edit.end:
            return AppliedEdit(requeued=(key,))
        end((key,))(engine)
        return AppliedEdit()
    if record is not None and not has_patch(edit):
        engine.on_queue_unit_gone(record.unit)
        return AppliedEdit()
    if not edit.namespace:
        raise FieldError("namespace", "is required")
    before = None if record is None else record.unit
    after, unread = patched(edit, before, QueueUnit, rfc3339(wall))
    _check_job(before, after)
    status = QueueUnitStatus() if before is None else before.status
    if status != after.status:
        # The status is another resource of the API: a patch of the object does not change it.
        after, unread = replace(after, status=status), (*unread, f"{PATCH}.status")
    if record is None:
        after = replace(after, metadata=replace(after.metadata, resource_version="1"))
        engine.on_queue_unit(after)
    else:
        replacement(after, record)(engine)
    return AppliedEdit(unread=unread)


def _check_job(before: QueueUnit | None, after: QueueUnit) -> None:
    """Raise FieldError if the unit would stand for another job."""
    if before is not None and before.spec.consumer_ref is not None:
        old, new = before.spec.consumer_ref, after.spec.consumer_ref
        if new is None or (old.kind, old.name, old.uid) != (new.kind, new.name, new.uid):
            raise FieldError(f"{PATCH}.spec.consumerRef", "cannot be changed")
