"""Tells the engine when the windows of reservations are, which the time zone database says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.reservations.expansion import expand_all
from queue_scheduler.reservations.queue_reservations import keys_of, schedules_of
from queue_scheduler.reservations.schedules import Schedule, ScheduleKey
from shared_api.objects.queue_reservation import QueueReservation
from shared_api.process.clock import Clock

LOOK_SECONDS: Final = 3600.0
"""Between two looks at which windows come next, unless one is over before: they reach far ahead."""


class ReservationSchedules:
    """Follows QueueReservations; the engine is told a reservation after this.

    Args:
        shared: The engine.
        clock: The wall time.
    """

    def __init__(self, shared: SharedEngine, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock

    def on_reservation(self, old: QueueReservation | None, new: QueueReservation | None) -> None:
        """Tell the engine the schedules that a new or changed reservation names."""
        if new is not None:
            known = self._shared.ask(_list_known)
            # The step may renew some meanwhile: the engine takes the same one twice, to no effect.
            self._tell({key: known.get(key) for key in sorted(schedules_of(new))})

    def step(self) -> float:
        """Renew the schedules that reservations have; return the seconds to rest."""
        known = self._shared.ask(_list_known)
        self._tell(known)
        now = self._now()
        ends = [each.windows[0].end - now for each in known.values() if each and each.windows]
        return float(min([LOOK_SECONDS, *(end for end in ends if end > 0)]))

    def _tell(self, known: Mapping[ScheduleKey, Schedule | None]) -> None:
        schedules = expand_all(known, self._now())
        differ = tuple(each for each in schedules if not each.is_like(known[each.key]))
        if differ:
            self._shared.apply(Engine.on_schedules, differ)

    def _now(self) -> int:
        return int(self._clock.now().timestamp())


def _list_known(engine: Engine) -> dict[ScheduleKey, Schedule | None]:
    """Return what the engine knows of the schedules that its reservations have."""
    keys = frozenset[ScheduleKey]().union(*map(keys_of, engine.reservations))
    return {key: engine.reservations.schedules.find(key) for key in sorted(keys)}
