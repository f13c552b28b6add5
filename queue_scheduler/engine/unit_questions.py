"""Questions about one unit that take several parts of the engine.

They change nothing, and the next decision depends on none of them.
"""

from __future__ import annotations

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import with_pods
from queue_scheduler.queueing.queue_questions import refusal_of


def refusal_of_unit(engine: Engine, key: str) -> Refusal | None:
    """Return why a unit does not start; None: it is neither pending nor on hold."""
    record = engine.record(key)
    if record is None:
        return None
    if record.hold is not None:
        return record.hold
    queue = engine.queues.find(record.info.queue) if record.info else None
    if record.state is UnitState.CONFLICT:
        return Refusal(reason=Reason.WRITE_FAILED, detail="its admission was not written")
    if record.state is not UnitState.WAITING or queue is None or record.info is None:
        return None
    return with_pods(engine.plugins, record.info, refusal_of(queue, record.info).shown)
