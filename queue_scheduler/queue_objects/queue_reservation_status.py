"""Writes into `QueueReservation.status` the next windows, and the spec in force.

The spec in force is written also while the present one can be read: it is the last valid one once
that cannot be, for the next process.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import plugin_with_quota
from queue_scheduler.queue_objects.status_writer import MIN_INTERVAL_SECONDS
from queue_scheduler.reservations.queue_reservations import UNREADABLE, StatedReservation
from shared_api.client.resource_types import QUEUE_RESERVATIONS
from shared_api.objects.field_schema import MESSAGE_LENGTH
from shared_api.objects.meta import Condition, Timestamp, find_condition
from shared_api.objects.queue import READY
from shared_api.objects.queue_reservation import (
    MAX_SHOWN,
    QueueReservation,
    QueueReservationSpec,
    ReservedWindow,
)
from shared_api.queue_unit_phases import condition_body, with_condition
from shared_api.timestamps import rfc3339

NO_WINDOW: Final = "NoWindow"
QUOTA_MISSING: Final = "QuotaMissing"

MAX_LISTED: Final = 8
"""Quotas that the condition names."""


class ReservationFigures(msgspec.Struct, frozen=True):
    """What the status of a reservation shows.

    Attributes:
        generation: The generation that it is made from.
        windows: The present window, if it is in one, and the next ones.
        in_force: The spec in force, if there is one.
        reason: Reason of the condition `Ready`, which is True if that is the reason.
        message: Of the condition.
    """

    generation: int
    windows: tuple[ReservedWindow, ...]
    in_force: tuple[QueueReservationSpec, ...]
    reason: str
    message: str


class QueueReservationStatuses:
    """The statuses of reservations (`StatusKind`)."""

    resource_type: Final = QUEUE_RESERVATIONS

    def names(self, engine: Engine) -> list[str]:
        """Return the names of all reservations."""
        return [stated.api_object.metadata.name for stated in engine.reservations]

    def find(self, engine: Engine, name: str) -> tuple[QueueReservation, float] | None:
        """Return a reservation, and the fewest seconds between two writes; None: it is gone."""
        stated = engine.reservations.find(name)
        return None if stated is None else (stated.api_object, MIN_INTERVAL_SECONDS)

    def read(self, engine: Engine, name: str) -> ReservationFigures | None:
        """Return what the status of a reservation is to show; None: it is gone."""
        stated = engine.reservations.find(name)
        if stated is None:
            return None
        windows = () if stated.rule is None else stated.rule.windows
        reason, message = _judge(engine, stated)
        return ReservationFigures(
            generation=stated.api_object.metadata.generation,
            windows=tuple(
                ReservedWindow(start=_time(start), end=_time(end))
                for start, end in windows[:MAX_SHOWN]
            ),
            in_force=() if stated.spec is None else (stated.spec,),
            reason=reason,
            message=message[:MESSAGE_LENGTH],
        )

    def is_shown(self, reservation: QueueReservation, figures: ReservationFigures) -> bool:
        """Return whether the status shows this already."""
        status = reservation.status
        condition = find_condition(status.conditions, READY)
        return (
            (status.observed_generation, status.windows, status.in_force)
            == (figures.generation, figures.windows, figures.in_force)
            and condition is not None
            and (condition.status == "True", condition.reason, condition.message)
            == (figures.reason == READY, figures.reason, figures.message)
        )

    def build_patch(
        self, reservation: QueueReservation, figures: ReservationFigures, now: Timestamp
    ) -> dict[str, Any]:
        """Return the merge patch of a reservation's status, guarded by its version."""
        condition = Condition(
            type=READY,
            status="True" if figures.reason == READY else "False",
            reason=figures.reason,
            message=figures.message,
            observed_generation=figures.generation,
        )
        conditions = with_condition(reservation.status.conditions, condition, now=now)
        return {
            "metadata": {"resourceVersion": reservation.metadata.resource_version},
            "status": {
                "observedGeneration": figures.generation,
                "windows": msgspec.to_builtins(figures.windows),
                "inForce": msgspec.to_builtins(figures.in_force),
                "conditions": [condition_body(each) for each in conditions],
            },
        }


def _judge(engine: Engine, stated: StatedReservation) -> tuple[str, str]:
    """Return reason and message of the condition."""
    if stated.problem:
        return UNREADABLE, stated.problem
    rule = stated.rule
    if rule is None or not rule.windows:
        return NO_WINDOW, _why_none(stated)
    plugins = engine.plugins
    missing = [each for each in rule.quotas or () if not plugin_with_quota(plugins, each)]
    if missing:
        more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
        named = ", ".join(missing[:MAX_LISTED])
        return QUOTA_MISSING, f"there is no quota {named}{more}; it counts once there is"
    text = "units must have ended before each window, by the time that they declare"
    if rule.grace is not None:
        text += f"; what still runs {rule.grace} seconds before one is evicted"
    return READY, text


def _why_none(stated: StatedReservation) -> str:
    if stated.rule is not None and stated.rule.goes_on:
        return "no window begins within 400 days"
    return "its last window is over, or begins in more than 400 days"


def _time(second: int) -> Timestamp:
    return rfc3339(datetime.fromtimestamp(second, UTC))
