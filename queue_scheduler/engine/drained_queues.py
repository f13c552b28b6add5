"""Queues whose admitted units are evicted (stop policy HoldAndDrain). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from queue_scheduler.cache.known_units import count_admitted
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_options import StopPolicy
from shared_api.queue_unit_phases import is_being_evicted


def find_to_ask(records: Iterable[CachedUnit], queues: frozenset[str]) -> Iterable[CachedUnit]:
    """Iterate over the units that occupy quota through these queues and are not being evicted."""
    for record in records:
        if (
            record.state is UnitState.ADMITTED
            and record.info is not None
            and record.info.queue in queues
            and not is_being_evicted(record.unit)
        ):
            yield record


def find_drained(engine: Engine) -> frozenset[str]:
    """Return the drained queues that have admitted units."""
    return frozenset(
        queue.name
        for queue in engine.queues
        if queue.rules.options.stop is StopPolicy.HOLD_AND_DRAIN
        and count_admitted(engine.units, queue.name)
    )


def is_drained(engine: Engine, record: CachedUnit) -> bool:
    """Return whether a unit is evicted because its queue is drained."""
    queue = None if record.info is None else engine.queues.find(record.info.queue)
    return queue is not None and queue.rules.options.stop is StopPolicy.HOLD_AND_DRAIN
