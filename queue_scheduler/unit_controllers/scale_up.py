r"""Grants running units the pods that their jobs have grown by.

A job that is scaled up while it runs gets the pods at once, from its own controller, and they are
charged to its quota as soon as they live. What is decided here is whether they are *granted*:
whether they fit the quota like any other demand, and are then kept for the job while its pods come
and go.

    unit has grown --> reconciled -> fits --> patch --> written
                                          \-> refused, or a conflict: reconciled again
                                \-> refused: reconciled again every few seconds

No start depends on this, so a refused growth takes no place in the queue, and is tried again every
`AGAIN_SECONDS`.
"""

from __future__ import annotations

from typing import Any, Final

import structlog

from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Growth
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.growth import has_grown
from queue_scheduler.unit_controllers.unit_reconciler import (
    RequeueAfter,
    Result,
    SendStatus,
    UnitAccess,
    UnitReconciler,
)
from shared_api.client.errors import ApiFailure, NotFound
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import admission_body
from shared_api.timestamps import rfc3339

AGAIN_SECONDS: Final = 5.0
"""The pause before a refused growth is retried: a try costs microseconds."""

READ_AGAIN_SECONDS: Final = 2.0
"""The pause before a unit that could not be read is read again."""

log = structlog.get_logger("scale_up")


class ScaleUp:
    """Grants units what they have grown by.

    Args:
        access: How units are read and written.
    """

    def __init__(self, access: UnitAccess, clock: Clock) -> None:
        self._shared = access.shared
        self._note_written = access.note_written
        self._read_unit = access.read_unit
        self._clock = clock
        # A key is worked on by one thread at a time, the step's or a writer's.
        self._pending: dict[str, Growth] = {}
        self._reconciler = UnitReconciler(access, self._reconcile, _find_grown)
        self.step = self._reconciler.step

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Reconcile a unit that has grown; the engine must have it already."""
        if new is not None and has_grown(new):
            self._reconciler.add(new.metadata.key)

    def _reconcile(self, key: str) -> Result:
        pending = self._pending.get(key)
        if pending is not None and not self._settle(pending):
            return RequeueAfter(READ_AGAIN_SECONDS)
        self._pending.pop(key, None)
        answer = self._shared.grow(key)
        if not isinstance(answer, Growth):
            return None if answer is None else RequeueAfter(AGAIN_SECONDS)
        self._pending[key] = answer
        record = self._shared.ask(_growing_record, answer)
        if record is None:
            del self._pending[key]
            return None  # news that came just now have ended it, and bring it back
        status = build_growth_status(answer, rfc3339(self._clock.now()))
        return SendStatus(record.unit, status, self._on_written)

    def _on_written(self, unit: QueueUnit) -> None:
        self._pending.pop(unit.metadata.key, None)

    def _settle(self, growth: Growth) -> bool:
        """Read what the server holds after a write that was not confirmed; False: ask later."""
        if self._shared.ask(_growing_record, growth) is None:
            return True  # news have come
        namespace, _, name = growth.unit.partition("/")
        try:
            unit = self._read_unit(namespace, name)
        except NotFound:
            del self._pending[growth.unit]
            self._shared.apply(Engine.on_growth_failed, growth)
            return False  # by then the watch has reported it
        except ApiFailure as failure:
            log.warning("unit cannot be read yet", unit=growth.unit, error=str(failure))
            return False
        if unit.metadata.resource_version == growth.resource_version:
            self._shared.apply(Engine.on_growth_failed, growth)
        else:
            self._note_written(unit)
            self._shared.apply(Engine.on_queue_unit, unit)
        return True


def _growing_record(engine: Engine, growth: Growth) -> CachedUnit | None:
    return engine.growths.record_of(growth)


def _find_grown(engine: Engine) -> list[str]:
    return [record.key for record in engine.units if has_grown(record.unit)]


def build_growth_status(growth: Growth, now: Timestamp) -> dict[str, Any]:
    """Return the status that grants a growth, to be merged; the counts of pods stay as they are."""
    admissions = [admission_body(each) for each in growth.admissions]
    return {"lastUpdateTime": now, "admissions": admissions}
