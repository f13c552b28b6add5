"""The QueueReservations, and what of each is in force. Pure.

One whose spec cannot be read keeps what it had: the last valid spec, which its status repeats for
the next process. Its windows are followed as if it were the present one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from queue_scheduler.decision import Notice
from queue_scheduler.reservations.reservation_rules import (
    ReservationError,
    ReservationRule,
    read_reservation,
)
from queue_scheduler.reservations.schedules import Schedule, ScheduleKey, Schedules, key_of
from shared_api.objects.queue_reservation import QueueReservation, QueueReservationSpec
from shared_api.well_known_labels import DEFAULT_QUEUE_NAMESPACE

UNREADABLE: Final = "UnreadableReservation"
"""Reason of the event on a reservation, and of its condition Ready."""

_SLACK: Final = 64
"""So many schedules may be known that no reservation has: one is told before its reservation."""


class StatedReservation(msgspec.Struct, frozen=True, gc=False):
    """A reservation, and what of it is in force.

    Attributes:
        api_object: The reservation.
        spec: The last valid spec; None: there was none.
        rule: The same as it counts; None: it does not.
        problem: Why the present spec is not in force, as a text for users; "": it is.
    """

    api_object: QueueReservation
    spec: QueueReservationSpec | None = None
    rule: ReservationRule | None = None
    problem: str = ""


class QueueReservations:
    """The reservations by name.

    Args:
        namespace: The one namespace in which they count, that of the queues.

    Attributes:
        namespace: The same.
        are_served: Whether the cluster has the kind; None: not known yet.
        schedules: When windows are.
    """

    def __init__(self, namespace: str = DEFAULT_QUEUE_NAMESPACE) -> None:
        self.are_served: bool | None = None
        self.namespace = namespace
        self.schedules = Schedules()
        self._stated: dict[str, StatedReservation] = {}
        # By reservation: a replica that does not lead never takes them.
        self._notices: dict[str, Notice] = {}

    def __iter__(self) -> Iterator[StatedReservation]:
        return iter(self._stated.values())

    def find(self, name: str) -> StatedReservation | None:
        """Return the reservation of a name; None: there is none."""
        return self._stated.get(name)

    def rules(self) -> tuple[ReservationRule, ...]:
        """Return what is in force, by name."""
        stated = (self._stated[name].rule for name in sorted(self._stated))
        return tuple(rule for rule in stated if rule is not None)

    # --- facts --------------------------------------------------------------------------------

    def put(self, reservation: QueueReservation) -> None:
        """Take a new or changed reservation; its schedules must be known (`keys_of`)."""
        if reservation.metadata.namespace != self.namespace:
            return
        name = reservation.metadata.name
        before = self._stated.get(name)
        if before is not None and before.api_object.metadata.uid != reservation.metadata.uid:
            before = None
        self._put(reservation, before)
        self._forget_schedules()

    def put_schedules(self, schedules: Iterable[Schedule]) -> None:
        """Take when windows are."""
        differ = self.schedules.put(schedules)
        for stated in [each for each in self if not keys_of(each).isdisjoint(differ)]:
            self._put(stated.api_object, stated)

    def drop(self, name: str) -> None:
        """Forget a reservation."""
        self._stated.pop(name, None)
        self._notices.pop(name, None)
        self._forget_schedules()

    def set_served(self, *, are_served: bool) -> None:
        """Record whether the cluster has the kind; without it there are no reservations."""
        self.are_served = are_served
        for name in () if are_served else tuple(self._stated):
            self.drop(name)

    def take_notices(self) -> list[Notice]:
        """Return, once, what users are to see as events on reservations."""
        notices, self._notices = self._notices, {}
        return list(notices.values())

    def _put(self, reservation: QueueReservation, before: StatedReservation | None) -> None:
        stated = self._read(reservation, before)
        name = reservation.metadata.name
        if stated.problem and (before is None or before.problem != stated.problem):
            self._notices[name] = _build_notice(stated)
        self._stated[name] = stated

    def _read(
        self, reservation: QueueReservation, before: StatedReservation | None
    ) -> StatedReservation:
        spec = reservation.spec
        try:
            return StatedReservation(reservation, spec, self._rule_of(reservation, spec))
        except ReservationError as error:
            problem = f"{error}; the last valid spec stays in force"
        last = _recorded(reservation) if before is None else before.spec
        rule = None if before is None else before.rule
        if last is not None:
            try:
                rule = self._rule_of(reservation, last)
            except ReservationError:
                # The status is the scheduler's own, but any administrator may have written it; and
                # a time zone that there was may be gone.
                last = None if before is None else last
        return StatedReservation(reservation, last, rule, problem)

    def _rule_of(
        self, reservation: QueueReservation, spec: QueueReservationSpec
    ) -> ReservationRule:
        schedule = self.schedules.find(key_of(spec))
        return read_reservation(reservation.metadata.name, spec, schedule)

    def _forget_schedules(self) -> None:
        if len(self.schedules) > 2 * len(self._stated) + _SLACK:
            self.schedules.keep(frozenset[ScheduleKey]().union(*map(keys_of, self)))

    # --- copies -------------------------------------------------------------------------------

    def copy(self) -> QueueReservations:
        """Return an independent copy, without the notices."""
        twin = QueueReservations(self.namespace)
        twin.are_served, twin.schedules = self.are_served, self.schedules.copy()
        twin._stated = dict(self._stated)
        return twin


def keys_of(stated: StatedReservation) -> frozenset[ScheduleKey]:
    """Return the schedules that a reservation follows, or may have to."""
    return schedules_of(stated.api_object) | (
        frozenset() if stated.spec is None else {key_of(stated.spec)}
    )


def schedules_of(reservation: QueueReservation) -> frozenset[ScheduleKey]:
    """Return the schedules that a reservation names: of its spec, and of its last valid one."""
    recorded = _recorded(reservation)
    return frozenset(map(key_of, (reservation.spec, *(() if recorded is None else (recorded,)))))


def _recorded(reservation: QueueReservation) -> QueueReservationSpec | None:
    """Return the last valid spec, as the status has recorded it."""
    return next(iter(reservation.status.in_force), None)


def _build_notice(stated: StatedReservation) -> Notice:
    meta = stated.api_object.metadata
    return Notice(
        kind="QueueReservation",
        key=meta.key,
        uid=meta.uid,
        reason=UNREADABLE,
        note=stated.problem,
    )
