r"""Acts for units without job controllers: releases their quota, and notes that they run.

The controllers mark the units whose jobs they manage. All others are created by hand or by a
program that only reads what is admitted. For these the scheduler does both sides, by the unit's
object and its pods::

    charged, spec.active false                    --> Evicted=True/Deactivated
    charged, Evicted=True, no living pod          --> released: pending again, or in backoff
    charged, all admissions lowered to 0 replicas --> released: its client has given the quota back
    admitted, running reaches replicas everywhere --> Running
    admitted, its queue waits for pods too long   --> Evicted=True/BackoffTimeout

The quota of a unit is never released while one of its pods lives. Whether its job has ended cannot
be seen from here: Succeed and Failed are written by the client that created the unit.
"""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any, Final

from queue_scheduler.cache.pod_accounting import has_pods
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.engine.deadlines import is_due, pods_end_at
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unmanaged_units import is_concerned, is_leaving, requires_write
from queue_scheduler.unit_controllers.unit_reconciler import (
    Result,
    SendStatus,
    UnitAccess,
    UnitReconciler,
    requeue_at,
)
from queue_scheduler.unit_writes.eviction_patches import (
    build_deactivation,
    build_freed,
    build_request,
)
from shared_api.evictions import BACKOFF_TIMEOUT, RUNNING_TIMEOUT_MESSAGE, is_given_back
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import Phase, Writer, is_being_evicted, status_of_move
from shared_api.timestamps import rfc3339

LONGEST_REST_SECONDS: Final = 60.0
"""Times end by the wall clock, which may be set; rests are measured by the monotonic clock."""

GIVEN_BACK: Final = "Enqueued: its admissions were lowered to 0 replicas"
RUNNING: Final = "Running"


class UnitEvictions:
    """Reconciles units without controllers whose object or pods require a write.

    Args:
        access: How units are read and written.
        clock: The time.
        rng: Spreads the ends of backoffs.
    """

    def __init__(self, access: UnitAccess, clock: Clock, rng: random.Random) -> None:
        self._shared = access.shared
        self._clock = clock
        self._rng = rng
        # Units whose quota is released when their last pod is gone; few, and never for long.
        self._waiting: dict[str, None] = {}
        self._reconciler = UnitReconciler(access, self._reconcile, _find_concerned)
        self.step = self._reconciler.step

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Reconcile a unit that was added or changed; the engine must have it already."""
        if new is not None and is_concerned(new):
            self._reconciler.add(new.metadata.key)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Reconcile units that wait for pods to end, when one has; the engine must know already."""
        if old is not None and (new is None or not new.is_living):
            for key in tuple(self._waiting):
                self._reconciler.add(key)

    def _reconcile(self, key: str) -> Result:
        # Before the pods are counted: one that ends meanwhile then has the unit reconciled again.
        self._waiting[key] = None
        unit, has_pods = self._shared.ask(_read_unit, key)
        if unit is not None and is_leaving(unit) and has_pods and is_concerned(unit):
            return None
        self._waiting.pop(key, None)
        if unit is None or not is_concerned(unit):
            return None
        now = self._clock.now()
        if requires_write(unit):
            return SendStatus(unit, self._build_status(unit, now))
        until = pods_end_at(unit, now)
        if not is_due(until, now):
            return requeue_at(until, now, LONGEST_REST_SECONDS)
        return SendStatus(unit, build_request(unit, BACKOFF_TIMEOUT, RUNNING_TIMEOUT_MESSAGE, now))

    def _build_status(self, unit: QueueUnit, now: datetime) -> dict[str, Any]:
        if is_being_evicted(unit):
            return build_freed(unit, now, self._rng)
        if unit.spec.active is False:
            return build_deactivation(unit, now)
        given_back = is_given_back(unit)
        to = Phase.ENQUEUED if given_back else Phase.RUNNING
        message = GIVEN_BACK if given_back else RUNNING
        return status_of_move(unit, to, writer=Writer.SCHEDULER, now=rfc3339(now), message=message)


def _find_concerned(engine: Engine) -> list[str]:
    return [
        record.key
        for record in engine.units
        if record.state is UnitState.ADMITTED and is_concerned(record.unit)
    ]


def _read_unit(engine: Engine, key: str) -> tuple[QueueUnit | None, bool]:
    """Return a unit, and whether one of its pods lives; (None, False) if it is unknown."""
    record = engine.record(key)
    if record is None:
        return None, False
    return record.unit, has_pods(engine.living_pods, record.uid)
