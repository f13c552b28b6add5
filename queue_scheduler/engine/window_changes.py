"""When units must not run: what follows when reservations, schedules or quotas change. Pure.

Windows that come or go change which pending units have their declared time in their class; only
these are placed again. Where units may start that might not before, the refused ones are asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.decision import Reason
from queue_scheduler.engine.wake_up import WakeUp
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.queueing.class_queue import ClassGroup, UnitClass
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.reservations.reservation_rules import ReservationRule
from queue_scheduler.reservations.schedules import Schedule
from shared_api.objects.queue_reservation import QueueReservation


class WindowChanges:
    """Takes QueueReservations and their schedules."""

    def __init__(self, units: UnitCache, wake_up: WakeUp) -> None:
        self._units = units
        self._wake_up = wake_up
        self._windows = units.usage.windows

    def put(self, reservation: QueueReservation) -> tuple[str, ...]:
        """Take a new or changed reservation; return the queues to ask."""
        self._units.reservations.put(reservation)
        return self._renew()

    def drop(self, name: str) -> tuple[str, ...]:
        """Take a deleted reservation; return the queues to ask."""
        self._units.reservations.drop(name)
        return self._renew()

    def set_served(self, *, are_served: bool) -> tuple[str, ...]:
        """Record whether the cluster serves reservations; return the queues to ask."""
        self._units.reservations.set_served(are_served=are_served)
        return self._renew()

    def put_schedules(self, schedules: Iterable[Schedule]) -> tuple[str, ...]:
        """Take when windows are; return the queues to ask."""
        self._units.reservations.put_schedules(schedules)
        return self._renew()

    def on_quotas_changed(self) -> None:
        """Follow a change of quotas; the caller wakes."""
        windows = self._windows
        if windows.is_on:
            timed = self._find_timed()
            if windows.follow_chains():
                self._place_again(timed)
                self._wake_refused()

    # --- inside -------------------------------------------------------------------------------

    def _renew(self) -> tuple[str, ...]:
        windows = self._windows
        before = windows.rules
        rules = [rule for rule in self._units.reservations.rules() if rule.windows]
        if list(before) == rules:
            return ()
        timed = self._find_timed()
        windows.set_rules(rules)
        self._wake_up.on_windows_changed()
        self._place_again(timed)
        if not _refuse_all_of(rules, before):
            self._wake_refused()
        return self._wake_up.wake_affected()

    def _find_timed(self) -> set[str]:
        """Return the quotas with pending units that windows concern."""
        windows = self._windows
        return {quota for quota in self._units.queues.quotas() if windows.concern(quota)}

    def _place_again(self, timed_before: set[str]) -> None:
        differ = timed_before ^ self._find_timed()
        again: dict[str, None] = {}
        for queue in self._units.queues if differ else ():
            for quota in queue.pending.by_quota:
                if quota in differ:
                    again |= dict.fromkeys(map(unit_key, queue.pending.in_order(quota)))
        self._units.place_again(again)

    def _wake_refused(self) -> None:
        """Wake the classes that a window may have refused, or kept from evicting others."""
        for queue in self._units.queues:
            for number in _find_refused(queue):
                self._wake_up.wake((queue.name, number))


def _find_refused(queue: SchedulingQueue) -> list[int]:
    pending, may_evict = queue.pending, queue.rules.lets_evict
    entries: list[UnitClass | ClassGroup] = [*pending.numbered.values(), *pending.groups.values()]
    return [
        each.number
        for each in entries
        if each.own_refusal is not None
        and (may_evict or each.own_refusal.reason is Reason.RESERVED_FOR)
    ]


def _refuse_all_of(rules: Iterable[ReservationRule], before: Iterable[ReservationRule]) -> bool:
    """Return whether some reservations refuse all that those before have refused."""
    by_name = {rule.name: rule for rule in rules}
    return all(rule.name in by_name and by_name[rule.name].refuses_all_of(rule) for rule in before)
