"""Edits of QueueReservations: the edited reservation, as an engine is told of it. Pure."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from queue_insight.what_if.edit import PATCH, AppliedEdit, Edit, FieldError
from queue_insight.what_if.object_edits import existing, has_patch, patched
from queue_scheduler.engine.engine import Engine
from queue_scheduler.reservations.expansion import expand_all
from queue_scheduler.reservations.queue_reservations import schedules_of
from shared_api.objects.queue_reservation import QueueReservation


def edit_reservation(engine: Engine, edit: Edit, wall: datetime) -> AppliedEdit:
    """Apply an edited reservation to an engine.

    Raises:
        FieldError: The edit is wrong, or the reservation cannot be read: the last valid spec would
            stay in force.
    """
    namespace = engine.reservations.namespace
    if edit.namespace not in {"", namespace}:
        raise FieldError("namespace", f"reservations are in {namespace!r}")
    stated = engine.reservations.find(edit.name)
    reservation = None if stated is None else stated.api_object
    if not has_patch(edit):
        engine.on_reservation_gone(existing(reservation, edit).metadata.name)
        return AppliedEdit()
    place = replace(edit, namespace=namespace)
    after, unread = patched(place, reservation, QueueReservation)
    engine.on_schedules(expand_all(sorted(schedules_of(after)), int(wall.timestamp())))
    engine.on_reservation(after)
    found = engine.reservations.find(edit.name)
    assert found is not None, "the reservation was applied"
    if found.problem and (stated is None or stated.problem != found.problem):
        raise FieldError(f"{PATCH}.spec", found.problem)
    return AppliedEdit(unread=unread)
