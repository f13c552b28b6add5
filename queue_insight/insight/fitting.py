"""Which pending units nothing keeps from starting, so that they should be admitted now. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from queue_scheduler.cache.known_units import unit_at
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_questions import class_heads
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue


def heads_of_classes(engine: Engine) -> Iterator[tuple[SchedulingQueue, CachedUnit]]:
    """Yield the first unit of each class of each queue: what is true of it stands for the class."""
    for queue in engine.queues:
        for place in class_heads(queue):
            yield queue, unit_at(engine.units, place)


def fits_now(engine: Engine, queue: SchedulingQueue, record: CachedUnit, moment: Moment) -> bool:
    """Return whether nothing keeps a pending unit from starting, by its limits and by its order.

    The same that `explain` answers, so the engine must be a fork.
    """
    info = record.info
    return info is not None and not engine.admission.every_refusal(queue, info, moment)
