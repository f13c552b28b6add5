r"""Tells of living pods whose labels name another quota than their unit.

koord-scheduler charges a pod to the quota that its label names now, and nothing forbids to change
that label. Such pods are charged there, and the unit keeps what it was granted (`cache.usage`): so
two quotas are charged for one job, which nothing else would say::

    occupies quota, and has pods elsewhere --> PodsElsewhere=True, with the quotas; an event
    otherwise, where that condition is True --> PodsElsewhere=False

Nothing is decided by the condition. So changes of pods are gathered for some seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from queue_scheduler.cache.known_units import charged_elsewhere
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.unit_reconciler import (
    RequeueAfter,
    Result,
    SendStatus,
    UnitAccess,
    UnitReconciler,
    UnitSweep,
)
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.objects.meta import Condition, find_condition, is_condition_true
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import (
    NO_PODS_ELSEWHERE,
    PODS_ELSEWHERE,
    condition_body,
    with_condition,
)
from shared_api.timestamps import rfc3339

SWEEP_SECONDS: Final = 5.0
"""Between two looks for units whose pods have moved; as often as reasons are looked for."""

MAX_NAMES: Final = 5
"""Quotas that a message names; labels of one job's pods hardly ever name more than one other."""


class PodsElsewhere:
    """Writes the condition PodsElsewhere, and tells of it in an event.

    Args:
        access: How units are read and written.
        clock: The time.
    """

    def __init__(self, access: UnitAccess, clock: Clock) -> None:
        self._shared = access.shared
        self._report = access.report
        self._clock = clock
        self._reconciler = UnitReconciler(access, self._reconcile, _find_units)
        self._sweep = UnitSweep(access, clock, self._reconciler, SWEEP_SECONDS, self._add_moved)

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Reconcile a unit whose condition may be over; the engine must have it already."""
        if new is not None and is_condition_true(new.status.conditions, PODS_ELSEWHERE):
            self._reconciler.add(new.metadata.key)

    def step(self) -> float:
        """Reconcile one unit; return after how many seconds to be called again."""
        return self._sweep.step()

    def _add_moved(self) -> None:
        for key in self._shared.ask(lambda engine: engine.pods.take_moved()):
            self._reconciler.add(key)

    def _reconcile(self, key: str) -> Result:
        record, quotas = self._shared.ask(_read_quotas, key)
        if record is None:
            return None
        if record.state in {UnitState.ASSUMED, UnitState.CONFLICT}:
            return RequeueAfter(SWEEP_SECONDS)
        unit = record.unit
        wanted = build_condition(record, quotas)
        known = find_condition(unit.status.conditions, PODS_ELSEWHERE)
        if known is None:
            if wanted.status == "False":
                return None
        elif (known.status, known.message) == (wanted.status, wanted.message):
            return None
        now = rfc3339(self._clock.now())
        conditions = with_condition(unit.status.conditions, wanted, now=now)
        status = {
            "conditions": [condition_body(each) for each in conditions],
            "lastUpdateTime": now,
        }
        return SendStatus(
            unit, status, lambda written: self._record_event(written, wanted), _condition_of
        )

    def _record_event(self, unit: QueueUnit, condition: Condition) -> None:
        if condition.status != "True":
            return
        meta = unit.metadata
        self._report(
            Notice(
                kind=QUEUE_UNITS.kind,
                key=meta.key,
                uid=meta.uid,
                reason=PODS_ELSEWHERE,
                note=condition.message,
            )
        )


def build_condition(record: CachedUnit, quotas: Sequence[str]) -> Condition:
    """Return the condition of a unit whose pods are charged to these other quotas, too."""
    if not quotas:
        return Condition(
            type=PODS_ELSEWHERE,
            status="False",
            reason=NO_PODS_ELSEWHERE,
            message="No living pod of it is charged to another quota",
        )
    names = ", ".join(quotas[:MAX_NAMES])
    others = " and others" if len(quotas) > MAX_NAMES else ""
    own = "" if record.info is None else record.info.quota
    message = (
        f"Labels of living pods name {'quota' if len(quotas) == 1 else 'quotas'} {names}{others}:"
        f" these are charged there, as by koord-scheduler. Quota {own} stays charged for all that"
        " was granted, since replacements name it, until the unit ends or the labels name it again"
    )
    return Condition(type=PODS_ELSEWHERE, status="True", reason=PODS_ELSEWHERE, message=message)


def _read_quotas(engine: Engine, key: str) -> tuple[CachedUnit | None, tuple[str, ...]]:
    record = engine.record(key)
    return record, () if record is None else tuple(charged_elsewhere(engine.units, record))


def _find_units(engine: Engine) -> list[str]:
    return [
        record.key
        for record in engine.units
        if engine.pods.names_other_quota(record.uid)
        or is_condition_true(record.unit.status.conditions, PODS_ELSEWHERE)
    ]


def _condition_of(status: QueueUnitStatus) -> object:
    condition = find_condition(status.conditions, PODS_ELSEWHERE)
    return None if condition is None else (condition.status, condition.message)
