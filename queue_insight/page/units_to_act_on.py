"""Units that need a user, and pending ones that stand in no queue: read from an engine."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from queue_scheduler.cache.known_units import held_for
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from shared_api.objects.meta import find_condition, is_condition_true
from shared_api.queue_unit_phases import ADMITTED, PODS_READY
from shared_api.timestamps import read_time
from shared_api.unit_problems import Ready, reason_to_act, reason_without_pods

_CHARGED: Final = frozenset({UnitState.ASSUMED, UnitState.ADMITTED})


class UnitGroup(msgspec.Struct, frozen=True):
    """Units that need a user for the same reason.

    Attributes:
        reason: The reason.
        is_admitted: Whether they are admitted and their pods do not run; otherwise they wait.
        keys: The units, `namespace/name`, in order.
    """

    reason: str
    is_admitted: bool
    keys: tuple[str, ...]


def find_units_to_act_on(engine: Engine) -> tuple[UnitGroup, ...]:
    """Return the units that wait until a user acts, by reason.

    It is the rule of `koord-queue check`, over what is known before it is written into objects.
    """
    found: dict[str, list[str]] = {}
    reasons = _Reasons(engine)
    for record in engine.units:
        reason = reasons.of(record)
        if reason:
            found.setdefault(reason, []).append(record.key)
    return _groups_of(found, is_admitted=False)


def find_pods_not_running(engine: Engine) -> tuple[tuple[str, Ready], ...]:
    """Return the admitted units whose pods do not run, and what their conditions say of that."""
    found = ((each, _read_ready(each)) for each in engine.units)
    return tuple((each.key, ready) for each, ready in found if ready is not None)


def find_long_without_pods(
    units: Iterable[tuple[str, Ready]], now: datetime
) -> tuple[UnitGroup, ...]:
    """Return those of `find_pods_not_running` that need a user at a time, by reason.

    Time alone makes it so, so it is asked anew of a state that has not changed.
    """
    found: dict[str, list[str]] = {}
    for key, ready in units:
        reason = reason_without_pods(ready, now)
        if reason:
            found.setdefault(reason, []).append(key)
    return _groups_of(found, is_admitted=True)


def _groups_of(found: dict[str, list[str]], *, is_admitted: bool) -> tuple[UnitGroup, ...]:
    return tuple(
        UnitGroup(reason, is_admitted, tuple(sorted(keys)))
        for reason, keys in sorted(found.items())
    )


class _Reasons:
    """The reasons to act of units that wait; those of one class of a queue wait for the same."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._by_class: dict[Hashable, str] = {}

    def of(self, record: CachedUnit) -> str:
        if record.hold is not None:
            return reason_to_act(record.hold.reason.value)
        info = record.info
        if record.state is not UnitState.WAITING or info is None:
            return ""
        of_class = (info.queue, info.class_key)
        found = self._by_class.get(of_class)
        if found is None:
            refusal = refusal_of_unit(self._engine, record.key)
            found = "" if refusal is None else reason_to_act(refusal.reason.value)
            self._by_class[of_class] = found
        return found


def _read_ready(record: CachedUnit) -> Ready | None:
    """Return the condition of an admitted unit whose pods do not run; None for others."""
    status = record.unit.status
    if record.state not in _CHARGED or not status.admissions:
        return None
    ready = find_condition(status.conditions, PODS_READY)
    if ready is None or not is_condition_true(status.conditions, ADMITTED):
        return None
    return Ready(ready.status, ready.reason, read_time(ready.last_transition_time))


def find_unqueued(engine: Engine) -> tuple[str, ...]:
    """Return the pending units that no view of a queue shows, `namespace/name`, in order.

    A queue shows what waits in it, and what is on hold until the queue itself is changed.
    """
    shown = {key for queue in engine.queues for key in _held_by(engine, queue.name)}
    held = (each.key for each in engine.units if each.state is UnitState.ON_HOLD)
    return tuple(sorted(key for key in held if key not in shown))


def _held_by(engine: Engine, queue: str) -> Iterator[str]:
    return iter(held_for(engine.units, queue))
