"""How the controllers write a unit's status: its phase, its conditions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from queue_controllers.decision.actions import PatchUnitStatus
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_view import Moment
from shared_api.evictions import RUNNING_TIMEOUT_SECONDS
from shared_api.objects.meta import Condition, is_condition_true
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    Phase,
    Writer,
    condition_body,
    is_waited_for,
    status_of_move,
    with_condition,
)
from shared_api.timestamps import MAX_CLOCK_SKEW

NOTHING_MORE: Final[Mapping[str, object]] = {}

OPERATOR_SILENT: Final = "OperatorSilent"
"""Condition: the job counts as stopped although its operator never said so."""


def last_past(times: Iterable[datetime | None], moment: Moment) -> datetime | None:
    """Return the last of the times in objects that is past; a future one was edited.

    Counted from a future time, nothing would be late, or requeued, until then.
    """
    latest = moment.wall + MAX_CLOCK_SKEW
    return max((each for each in times if each is not None and each <= latest), default=None)


def running_timeout(unit: QueueUnit, settings: JobSettings) -> float:
    """Return how many seconds a released job may take until its pods run; 0: forever."""
    if settings.running_timeout_seconds:
        return settings.running_timeout_seconds
    return RUNNING_TIMEOUT_SECONDS if is_waited_for(unit) else 0.0


def move_unit(
    unit: QueueUnit,
    to: Phase,
    moment: Moment,
    *,
    message: str,
    cleared: tuple[str, ...] = (),
    noted: tuple[Condition, ...] = (),
    extra: Mapping[str, object] = NOTHING_MORE,
) -> PatchUnitStatus:
    """Return the write that moves a unit.

    `cleared`: own conditions that were True and are over; they turn False in the same write.
    `noted`: own conditions that it sets. `extra`: further fields of the status.
    """
    conditions = unit.status.conditions
    for condition_type in cleared:
        if is_condition_true(conditions, condition_type):
            over = Condition(type=condition_type, status="False", reason="Settled")
            conditions = with_condition(conditions, over, now=moment.stamp)
    for condition in noted:
        conditions = with_condition(conditions, condition, now=moment.stamp)
    changed = msgspec.structs.replace(
        unit, status=msgspec.structs.replace(unit.status, conditions=conditions)
    )
    status = status_of_move(
        changed, to, writer=Writer.CONTROLLERS, now=moment.stamp, message=message
    )
    return PatchUnitStatus(unit=unit, status={**status, **extra})


def set_condition(
    unit: QueueUnit, condition: Condition, moment: Moment, *, message: str = ""
) -> PatchUnitStatus:
    """Return the write that sets one condition; with `message` the unit's own message as well."""
    conditions = with_condition(unit.status.conditions, condition, now=moment.stamp)
    status: dict[str, Any] = {
        "conditions": [condition_body(each) for each in conditions],
        "lastUpdateTime": moment.stamp,
    }
    if message:
        status["message"] = message
    return PatchUnitStatus(unit=unit, status=status)
