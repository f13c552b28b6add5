"""What the debug API copies out of the engine, so that answers are built without its lock.

A hold of the lock copies the facts of one queue, or of one batch of units: some microseconds.
What is copied is immutable and shared, a line is copied by its pointers. So an answer is no
picture of one moment: a unit that left the line while it was copied is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from queue_scheduler.bookings import Charge
from queue_scheduler.decision import Refusal
from queue_scheduler.engine import Engine
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.shared_engine import SharedEngine
from queue_scheduler.unit_record import Standing, UnitRecord
from shared_api.objects.queue import Queue

BATCH: Final = 50
"""Units that are read in one hold of the lock: about 2 us each."""


class UnitFacts(msgspec.Struct, frozen=True):
    """One unit; `position` counts from 1 and is 0 where it is not in line."""

    record: UnitRecord
    position: int
    refusal: Refusal | None
    charge: Charge | None


class QueueFacts(msgspec.Struct, frozen=True):
    """One queue.

    Attributes:
        queue: Its object.
        policy: The policy in force.
        quotas: The quotas that concern it, sorted.
        pending: Units that wait or are held.
        admitted: Units that occupy quota.
        head: The first in line.
        refusal: Of the refused unit nearest to the front.
    """

    queue: Queue
    policy: str
    quotas: tuple[str, ...]
    pending: int
    admitted: int
    head: UnitFacts | None
    refusal: Refusal | None


class LinePage(msgspec.Struct, frozen=True):
    """Some units of a queue, in order, and whether there are more behind them."""

    units: tuple[UnitFacts, ...]
    has_more: bool


class Snapshots:
    """Reads the engine in small pieces.

    Args:
        shared: The engine.
    """

    def __init__(self, shared: SharedEngine) -> None:
        self._shared = shared

    def queue_names(self) -> list[str]:
        """Return the names of all queues, sorted."""
        return sorted(self._shared.ask(_queue_names))

    def queues(self, names: Iterable[str]) -> Iterator[QueueFacts]:
        """Iterate over queues of these names, in their order; without those that are gone."""
        for name in names:
            facts = self._shared.ask(_read_queue, name)
            if facts is not None:
                yield facts

    def page(self, name: str, offset: int, limit: int) -> LinePage:
        """Return a page of a queue's line; empty where there is no such queue."""
        line = self._shared.ask(_copy_line, name)
        if line is None:
            return LinePage((), has_more=False)
        keys = map(unit_key, islice(line.in_order(), offset, offset + limit))
        positions = {key: offset + n for n, key in enumerate(keys, start=1)}
        units = (
            msgspec.structs.replace(unit, position=positions[unit.record.key])
            for unit in self._units(positions)
            if _waits_in(unit.record, name)
        )
        return LinePage(tuple(units), has_more=line.length > offset + limit)

    def unit(self, key: str) -> UnitFacts | None:
        """Return a unit with its position, or None where it is unknown."""
        return self._shared.ask(_read_unit_in_line, key)

    def _units(self, keys: Iterable[str]) -> Iterator[UnitFacts]:
        """Read units lazily, one batch at a time; without positions and those that are gone."""
        rest = iter(keys)
        while batch := tuple(islice(rest, BATCH)):
            yield from self._shared.ask(_read_units, batch)


def _queue_names(engine: Engine) -> list[str]:
    return [line.name for line in engine.queues]


def _copy_line(engine: Engine, name: str) -> SchedulingQueue | None:
    line = engine.queues.line(name)
    return line.copy() if line is not None else None


def _read_queue(engine: Engine, name: str) -> QueueFacts | None:
    line = engine.queues.line(name)
    if line is None:
        return None
    quotas = tuple(line.quotas())
    # By quota: merging the line's classes costs more the more of them there are.
    firsts = [first for quota in quotas if (first := line.first_of(quota)) is not None]
    head = _read_unit(engine, unit_key(min(firsts)), 1) if firsts else None
    refused = min(line.last_refusals(), default=None, key=lambda pair: pair[0])
    return QueueFacts(
        queue=line.queue,
        policy=line.policy.name,
        quotas=tuple(sorted(quotas)),
        pending=engine.units.pending_count(name),
        admitted=engine.units.admitted_count(name),
        head=head,
        refusal=refused[1] if refused is not None else None,
    )


def _read_units(engine: Engine, keys: Sequence[str]) -> list[UnitFacts]:
    found = (_read_unit(engine, key, 0) for key in keys)
    return [unit for unit in found if unit is not None]


def _read_unit(engine: Engine, key: str, position: int) -> UnitFacts | None:
    record = engine.record(key)
    if record is None:
        return None
    return UnitFacts(record, position, engine.refusal_of(key), engine.charge_of(record.uid))


def _read_unit_in_line(engine: Engine, key: str) -> UnitFacts | None:
    record = engine.record(key)
    position = 0
    if record is not None and record.standing is Standing.WAITING and record.info is not None:
        line = engine.queues.line(record.info.queue)
        position = line.count_before(record.info.order_key) + 1 if line is not None else 0
    return _read_unit(engine, key, position)


def _waits_in(record: UnitRecord, name: str) -> bool:
    info = record.info
    return record.standing is Standing.WAITING and info is not None and info.queue == name
