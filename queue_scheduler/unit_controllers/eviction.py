r"""Does the job's part for units that nobody manages: frees them, and notes that they run.

The controllers mark the units whose jobs they look after. All others are made by hand or by a
program that only reads what is admitted; for them the scheduler does both parts, by what stands in
the unit and by its pods::

    booked, spec.active false                     --> Evicted=True/Deactivated
    booked, Evicted=True, no living pod           --> free: in line again, or in backoff
    booked, every admission lowered to 0 replicas --> free: its job side has given the place back
    admitted, running reaches replicas everywhere --> Running
    admitted, its queue waits for pods too long   --> Evicted=True/BackoffTimeout

A unit is never freed while a pod of it lives. Whether its job has ended nobody can see from here:
Succeed and Failed are written by whoever made the unit.
"""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any, Final

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles.eviction_patches import build_put_back, build_request
from queue_scheduler.engine.deadlines import is_due, pods_end_at
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unmanaged_units import is_asked_for, is_concerned, is_leaving
from queue_scheduler.unit_controllers.unit_reconciler import (
    Look,
    SendStatus,
    UnitAccess,
    UnitReconciler,
    look_again_at,
)
from shared_api.evictions import (
    BACKOFF_TIMEOUT,
    DEACTIVATED,
    LATE,
    ends_in_backoff,
    eviction_reason,
    is_given_back,
)
from shared_api.objects.meta import find_condition
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import (
    EVICTED,
    Phase,
    Writer,
    is_being_evicted,
    status_of_move,
)
from shared_api.timestamps import rfc3339

LONGEST_REST_SECONDS: Final = 60.0
"""A time is over by the wall clock, which somebody may set; rests are measured by the other."""

TOLD_INACTIVE: Final = "Evicted because the queue unit is deactivated"
GIVEN_BACK: Final = "Enqueued: its admissions were lowered to 0 replicas"
RUNNING: Final = "Running"


class UnitEvictions:
    """Looks at units without a job side whose object or pods ask for something.

    Args:
        access: The ways in and out.
        clock: The time.
        rng: Chance, for the length of a backoff.
    """

    def __init__(self, access: UnitAccess, clock: Clock, rng: random.Random) -> None:
        self._shared = access.shared
        self._clock = clock
        self._rng = rng
        # Units that are freed once their last pod has gone; few, and never for long.
        self._waiting: dict[str, None] = {}
        self._looks = UnitReconciler(access, self._look_at, _find_concerned)

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Look at a unit that came or changed; the engine must have been told before."""
        if new is not None and is_concerned(new):
            self._looks.add(new.metadata.key)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Look again at units that wait for pods when one has gone; after the engine was told."""
        if old is not None and (new is None or not new.is_living):
            for key in tuple(self._waiting):
                self._looks.add(key)

    def step(self) -> float | None:
        """Look at one unit; return how long there is none to look at, None: until woken."""
        return self._looks.step()

    def _look_at(self, key: str) -> Look:
        # Before the pods are counted: one that goes meanwhile brings the unit here again.
        self._waiting[key] = None
        unit, has_pods = self._shared.ask(_read_unit, key)
        if unit is not None and is_leaving(unit) and has_pods and is_concerned(unit):
            return None
        self._waiting.pop(key, None)
        if unit is None or not is_concerned(unit):
            return None
        now = self._clock.now()
        if is_asked_for(unit):
            return SendStatus(unit, self._build_status(unit, now))
        until = pods_end_at(unit, now)
        if not is_due(until, now):
            return look_again_at(until, now, LONGEST_REST_SECONDS)
        return SendStatus(unit, build_request(unit, BACKOFF_TIMEOUT, LATE, now))

    def _build_status(self, unit: QueueUnit, now: datetime) -> dict[str, Any]:
        if is_being_evicted(unit):
            return build_freed(unit, now, self._rng)
        if unit.spec.active is False:
            return build_request(unit, DEACTIVATED, TOLD_INACTIVE, now)
        given_back = is_given_back(unit)
        to = Phase.ENQUEUED if given_back else Phase.RUNNING
        message = GIVEN_BACK if given_back else RUNNING
        return status_of_move(unit, to, writer=Writer.SCHEDULER, now=rfc3339(now), message=message)


def _find_concerned(engine: Engine) -> list[str]:
    return [
        key
        for key, record in engine.units.records.items()
        if record.state is UnitState.ADMITTED and is_concerned(record.unit)
    ]


def _read_unit(engine: Engine, key: str) -> tuple[QueueUnit | None, bool]:
    """Return a unit, and whether a pod of it lives."""
    record = engine.record(key)
    if record is None:
        return None, False
    return record.unit, engine.units.bookings.pods.has_living(record.uid)


def build_freed(unit: QueueUnit, now: datetime, rng: random.Random) -> dict[str, Any]:
    """Return the status of a unit whose eviction is carried out, to be merged."""
    if ends_in_backoff(unit):
        evicted = find_condition(unit.status.conditions, EVICTED)
        message = evicted.message if evicted is not None and evicted.message else "Backoff"
        return build_put_back(unit, message, now, rng)
    message = f"Enqueued after eviction: {eviction_reason(unit)}"
    return status_of_move(
        unit, Phase.ENQUEUED, writer=Writer.SCHEDULER, now=rfc3339(now), message=message
    )
