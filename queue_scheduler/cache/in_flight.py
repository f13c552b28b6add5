"""Admitted units that their queue's next decision depends on. Pure.

A queue that waits for pods rests while a unit of it is *in flight*: admitted, its pods not running.
A strict queue offers nothing of less priority than a unit whose nodes are *asked for*. Both are
levels, read off the record of a unit: so what counts is the same after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable

from queue_scheduler.cache.unit_state import (
    CachedUnit,
    UnitState,
    is_in_flight,
    priority_to_overtake,
)
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.queueing.strict_mode import NodeRequests
from shared_api.objects.meta import Uid
from shared_api.queue_unit_phases import Phase


def asks_for_nodes(record: CachedUnit) -> bool:
    """Return whether nodes are being looked for, or will be once the decision is written."""
    if record.state is UnitState.ASSUMED:
        return record.to is Phase.SCHED_READY
    return record.state is UnitState.ADMITTED and record.unit.status.phase == Phase.SCHED_READY


def are_alike(before: CachedUnit, after: CachedUnit) -> bool:
    """Return whether a unit counts for its queue as it did before."""
    is_same = is_in_flight(before) == is_in_flight(after)
    return is_same and asks_for_nodes(before) == asks_for_nodes(after)


def enter(line: SchedulingQueue, record: CachedUnit) -> bool:
    """Count a booked or decided unit; return whether that may change the queue's next decision."""
    counts = False
    if line.options.waits_for_pods and is_in_flight(record):
        line.in_flight[record.uid] = priority_to_overtake(record)
        counts = True
    if line.options.is_strict and asks_for_nodes(record):
        line.requests.add(record.uid, record.priority)
        counts = True
    return counts


def leave(line: SchedulingQueue, uid: Uid) -> bool:
    """Undo `enter`."""
    was_in_flight = uid in line.in_flight
    line.in_flight.pop(uid, None)
    return line.requests.discard(uid) or was_in_flight


def count_again(line: SchedulingQueue, records: Iterable[CachedUnit]) -> None:
    """Find the units that count, by what the queue asks for now."""
    line.in_flight, line.requests = {}, NodeRequests()
    for record in records:
        if record.info is not None and record.info.queue == line.name:
            enter(line, record)


def check_counts(line: SchedulingQueue, records: Iterable[CachedUnit]) -> None:
    """Recompute what counts; raise AssertionError with the story if it differs."""
    twin = SchedulingQueue(line.queue, line.policy)
    twin.options = line.options
    count_again(twin, records)
    assert line.in_flight == twin.in_flight, f"queue {line.name}: in flight {twin.in_flight}"
    asked, want = line.requests.as_dict(), twin.requests.as_dict()
    assert asked == want, f"queue {line.name}: nodes asked for {asked}, should be {want}"
    highest = max(want.values(), default=None)
    assert line.requests.highest == highest, f"queue {line.name}: {line.requests.highest}"
