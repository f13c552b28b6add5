"""What a QueueReservation means, and how its spec is read. Pure.

The API server has checked most of it, but not under every CRD that an object may have been stored
under; and no schema can tell whether there is such a day or time zone (`expansion`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from queue_scheduler.reservations.schedules import Schedule, Window
from shared_api.durations import DurationError, parse_duration
from shared_api.objects.queue_reservation import (
    CONTINUE,
    EVICT,
    MAX_QUOTAS,
    START,
    WAIT,
    QueueReservationSpec,
)
from shared_api.timestamps import rfc3339

FOR_EVER: Final = 10**10
"""Seconds, some 300 years: what is assumed of units that are to wait until windows are over."""


class ReservationError(ValueError):
    """A spec cannot be read; the message begins with the field."""


class ReservationRule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """When units must not run, and which.

    Attributes:
        name: The QueueReservation.
        quotas: The quotas whose units it concerns, with those below them; None: all.
        windows: When; ascending.
        goes_on: Whether windows follow the last one without end.
        at: When that was found out, in seconds since the epoch.
        margin: The seconds before a window at which units must have ended.
        assumed: The seconds that units are assumed to run that declare no time; None: these start
            until a window begins.
        grace: The seconds before a window at which units are evicted that still run, not more than
            `margin`; None: these run on.
    """

    name: str
    quotas: tuple[str, ...] | None
    windows: tuple[Window, ...]
    goes_on: bool
    at: int
    margin: int
    assumed: int | None
    grace: int | None = None

    def latest_undeclared(self, window: Window) -> int:
        """Return the last second before a window at which units start that declare no time."""
        if self.assumed is None:
            return window.start - (self.grace or 0) - 1
        return window.start - self.assumed - self.margin

    def evicts_for(self, second: int) -> Window | None:
        """Return the window for which units are evicted that run at a second; None: for none."""
        if self.grace is None:
            return None
        windows = (each for each in self.windows if each.end > second)
        return next((each for each in windows if each.start - self.grace <= second), None)

    def refuses_all_of(self, before: ReservationRule) -> bool:
        """Return whether it refuses all that one does whose place it takes, as of its `at`."""
        left = {each for each in before.windows if each.end > self.at}
        return (
            self.margin >= before.margin
            and (self.assumed or 0) >= (before.assumed or 0)
            and (self.grace or 0) >= (before.grace or 0)
            and (self.quotas is None or self.quotas == before.quotas)
            and left.issubset(self.windows)
        )


def describe_span(window: Window) -> str:
    """Return from when to when a window is, as a text for users."""
    return " to ".join(rfc3339(datetime.fromtimestamp(each, UTC)) for each in window)


def read_reservation(
    name: str, spec: QueueReservationSpec, schedule: Schedule | None
) -> ReservationRule:
    """Return what a spec means.

    Args:
        name: Of the reservation.
        spec: The spec.
        schedule: When its windows are; None: there are more schedules than are kept.

    Raises:
        ReservationError: It cannot be read.
    """
    scope = spec.scope
    if scope.all is bool(scope.quotas):
        raise ReservationError("scope: set either all or quotas")
    if "" in scope.quotas:
        raise ReservationError("scope.quotas: a name is empty")
    if len(scope.quotas) > MAX_QUOTAS:
        raise ReservationError(f"scope.quotas: at most {MAX_QUOTAS} are read")
    if schedule is None:
        raise ReservationError("start: there are too many reservations at other times")
    if schedule.problem:
        raise ReservationError(schedule.problem)
    margin, grace = _read_seconds("margin", spec.margin), _read_grace(spec)
    return ReservationRule(
        name=name,
        quotas=None if scope.all else tuple(dict.fromkeys(scope.quotas)),
        windows=schedule.windows,
        goes_on=schedule.goes_on,
        at=schedule.at,
        margin=max(margin, grace or 0),  # what starts is not evicted if it ends as it declares
        assumed=_read_undeclared(spec.undeclared),
        grace=grace,
    )


def _read_grace(spec: QueueReservationSpec) -> int | None:
    if spec.at_start not in {CONTINUE, EVICT}:
        raise ReservationError(f"atStart: must be {CONTINUE} or {EVICT}")
    grace = _read_seconds("grace", spec.grace)
    return grace if spec.at_start == EVICT else None


def _read_undeclared(text: str) -> int | None:
    if text == START:
        return None
    if text == WAIT:
        return FOR_EVER
    seconds = _read_seconds("undeclared", text)
    if not seconds:
        raise ReservationError(f"undeclared: must be more than 0, or {WAIT} or {START}")
    return seconds


def _read_seconds(field: str, text: str) -> int:
    """Return the seconds of a duration, rounded up."""
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise ReservationError(f"{field}: {error}") from error
    return -(-seconds.numerator // seconds.denominator)
