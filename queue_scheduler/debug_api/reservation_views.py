"""Reservations, as the debug API answers them: windows, and what runs into the next one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final

from queue_scheduler.debug_api.hiding import OfUnit, Owner
from queue_scheduler.debug_api.views import quota_of
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.reservation_questions import (
    RunningInto,
    RunningUnits,
    count_waiting,
)
from queue_scheduler.reservations.queue_reservations import StatedReservation
from queue_scheduler.reservations.schedules import Window
from shared_api.debug_api.views import FieldsOf, View
from shared_api.objects.meta import find_condition
from shared_api.objects.queue import READY
from shared_api.timestamps import rfc3339

MAX_WINDOWS: Final = 16
"""Windows of a reservation: twice those of its status."""
MAX_UNITS: Final = 32
"""Units that run into a window and are named; others are counted."""

_of_unit = FieldsOf[RunningInto]()


class RunningIntoView(View):
    """A unit that still runs when a window begins.

    `ends` is when it ends by what it declares, "" if it declares no time.
    """

    namespace: Annotated[str, Owner()] = _of_unit(lambda each: each.record.unit.metadata.namespace)
    name: str = _of_unit(lambda each: each.record.unit.metadata.name)
    queue: str = _of_unit(lambda each: each.record.queue_name)
    quota: str = _of_unit(lambda each: quota_of(each.record))
    ends: str = _of_unit(lambda each: "" if each.end is None else _time(each.end))


class WindowView(View):
    """One window: from `start` until before `end`."""

    start: str
    end: str


class ReservationView(View):
    """One reservation.

    `ready`, `reason` and `message` are those of its condition Ready; the reason is "" until there
    is one. `all` and `quotas` say whose units it concerns, `at_start` what becomes of units that
    still run when a window begins (`Continue` or `Evict`). `windows` are the present one and the
    next ones, 16 at most; all of this by the last valid spec, if the present one cannot be read.

    `runs_into` is how many units run into the first of these windows, by what they declare: in a
    window, all that run. `units` are the first of them: those that declare no time, then those that
    end last. `others` counts the rest: there are too many, or the caller may not read their
    namespaces. `waiting` is how many pending units wait for a window of this reservation.
    """

    name: str
    ready: bool
    reason: str
    message: str
    all: bool
    quotas: list[str]
    at_start: str
    windows: list[WindowView]
    runs_into: int
    units: Annotated[list[RunningIntoView], OfUnit(counted="others")]
    others: int
    waiting: int


class ReservationPage(View):
    """Reservations by name; `leader` says whether this replica decides or only follows."""

    leader: bool
    total: int
    offset: int
    limit: int
    items: list[ReservationView]


def view_reservations(
    engine: Engine, second: int, offset: int, limit: int, *, leader: bool
) -> ReservationPage:
    """Return a page of reservations.

    Args:
        engine: A fork, as all units are looked through.
        second: The time, in seconds since the epoch.
        offset: Reservations to leave out.
        limit: Reservations at most.
        leader: Whether this replica decides.
    """
    known = sorted(engine.reservations, key=lambda each: each.api_object.metadata.name)
    page = known[offset : offset + limit]
    return ReservationPage(
        leader=leader,
        total=len(known),
        offset=offset,
        limit=limit,
        items=_view_all(engine, page, second) if page else [],
    )


def _view_all(
    engine: Engine, reservations: Iterable[StatedReservation], second: int
) -> list[ReservationView]:
    running, waiting = RunningUnits(engine, second), count_waiting(engine)
    return [
        _view(stated, second, running, waiting.get(stated.api_object.metadata.name, 0))
        for stated in reservations
    ]


def _view(
    stated: StatedReservation, second: int, running: RunningUnits, waiting: int
) -> ReservationView:
    name = stated.api_object.metadata.name
    spec = stated.api_object.spec if stated.spec is None else stated.spec
    ready = find_condition(stated.api_object.status.conditions, READY)
    windows = () if stated.rule is None else stated.rule.windows
    left = [each for each in windows if each.end > second][:MAX_WINDOWS]
    count, units = running.find(name, left[0], MAX_UNITS) if left else (0, [])
    return ReservationView(
        name=name,
        ready=ready is not None and ready.status == "True",
        reason="" if ready is None else ready.reason,
        message="" if ready is None else ready.message,
        all=spec.scope.all,
        quotas=list(spec.scope.quotas),
        at_start=spec.at_start,
        windows=[_view_window(each) for each in left],
        runs_into=count,
        units=[RunningIntoView.of(each) for each in units],
        others=count - len(units),
        waiting=waiting,
    )


def _view_window(window: Window) -> WindowView:
    return WindowView(start=_time(window.start), end=_time(window.end))


def _time(second: int) -> str:
    return rfc3339(datetime.fromtimestamp(second, UTC))
