"""Copies of the engine's state for the debug API, so that answers are built without its lock.

One hold of the lock copies the facts of one queue, or of one batch of units: some microseconds. The
copied values are immutable and shared; of a queue, or of all units, the pointers are copied (10 ns
each). So an answer is not a consistent view of one moment: a unit that leaves the queue while it is
copied is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import count, islice
from operator import itemgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_scheduler.cache.known_units import (
    charged_elsewhere,
    count_admitted,
    count_pending,
    held_for,
    quotas_in_use,
)
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.cache.usage import Charge
from queue_scheduler.cycles.engine_reader import EngineReader
from queue_scheduler.decision import Reason, Refusal, Trait, reasons_with
from queue_scheduler.engine.backfill import Promise
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_questions import list_quotas, with_pods
from queue_scheduler.framework.queue_unit_info import OrderKey, unit_key
from queue_scheduler.preemption.found_victims import FoundVictims
from queue_scheduler.queueing.class_queue import ASIDE
from queue_scheduler.queueing.pending_classes import PendingClasses
from queue_scheduler.queueing.queue_options import QueueOptions
from queue_scheduler.queueing.queue_questions import (
    queue_head,
    refusal_of,
    refused_at,
    refused_classes,
)
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import QUOTA_FULLNAME, read_annotation, read_available_quotas

BATCH: Final = 50
"""Units that are read in one hold of the lock: about 2 us each."""


class UnitFacts(msgspec.Struct, frozen=True):
    """One unit; `position` counts from 1 and is 0 for a unit that is not pending.

    `promise` is set for a unit that `holds_up` others, which wait so as not to delay it.
    `refused_at` is when the refusal was found, in seconds since the epoch; None if it is current.
    `elsewhere` is what its pods are charged to other quotas, which their labels name.
    """

    record: CachedUnit
    position: int
    refusal: Refusal | None
    charge: Charge | None
    holds_up: bool = False
    promise: Promise | None = None
    refused_at: int | None = None
    elsewhere: dict[str, Amounts] = {}

    @property
    def unit(self) -> QueueUnit:
        """The unit's object."""
        return self.record.unit


class WouldPreempt(msgspec.Struct, frozen=True):
    """Units that a waiting unit would preempt; `is_enabled`: whether it may do so now."""

    is_enabled: bool
    found: FoundVictims


class QueueSnapshot(msgspec.Struct, frozen=True):
    """One queue.

    Attributes:
        queue: Its object.
        policy: The policy in force.
        options: Its further settings.
        quotas: See `quotas_of_queue`.
        pending: Number of units that are pending or on hold.
        admitted: Number of units that occupy quota.
        head: The first pending unit that may start (`queue_head`).
        refusal: Of the refused unit nearest to the front, or else of a unit on hold. If the queue
            is stopped, it says so.
        refused_at: When the refusal was found, in seconds since the epoch; None if it is current.
        held: Keys of the units on hold that a change of the queue might make pending.
        share_used: How many times its share the quota has used that its turn goes by, in
            hundredths; None: turns do not go by use, or it has no units.
    """

    queue: Queue
    policy: str
    options: QueueOptions
    quotas: list[str]
    pending: int
    admitted: int
    head: UnitFacts | None
    refusal: Refusal | None
    refused_at: int | None
    held: tuple[str, ...]
    share_used: int | None = None


class QueuePage(msgspec.Struct, frozen=True):
    """Some units of a queue, in order; the length of the queue, and whether more units follow."""

    units: tuple[UnitFacts, ...]
    length: int
    has_more: bool


class Snapshots:
    """Reads the engine in small pieces.

    Args:
        shared: The engine.
        now: Returns the time.
    """

    def __init__(self, shared: EngineReader, now: Callable[[], datetime]) -> None:
        self._shared = shared
        self._now = now

    def queue_names(self) -> list[str]:
        """Return the names of all queues, sorted."""
        return sorted(self._shared.ask(lambda engine: [queue.name for queue in engine.queues]))

    def queues(self, names: Iterable[str]) -> list[QueueSnapshot]:
        """Return the queues of these names, in this order, without those that are gone."""
        read = (self._shared.ask(_read_queue, name) for name in names)
        found = [facts for facts in read if facts is not None]
        known = frozenset(self._shared.ask(lambda engine: list_quotas(engine.plugins)))
        return [
            replace(
                facts,
                quotas=quotas_of_queue(facts.queue, facts.quotas, known),
                refusal=facts.refusal or self._refusal_of_held(facts),
                head=None if facts.head is None else self._with_promise(facts.head),
            )
            for facts in found
        ]

    def held(self, facts: QueueSnapshot) -> Iterator[UnitFacts]:
        """Iterate lazily over the units of a queue that are on hold, by key."""
        units = self.units((key, 0) for key in sorted(facts.held))
        return (unit for unit in units if unit.record.state is UnitState.ON_HOLD)

    def _refusal_of_held(self, facts: QueueSnapshot) -> Refusal | None:
        if not facts.pending:
            return None
        # Ignore units whose quota this queue does not accept.
        found = (unit.refusal for unit in self.held(facts) if unit.record.info is not None)
        return next(found, None)

    def page(self, name: str, offset: int, limit: int) -> QueuePage:
        """Return a page of a queue's pending units; empty if there is no such queue."""
        pending = self._shared.ask(_copy_pending, name)
        if pending is None:
            return QueuePage((), 0, has_more=False)
        keys = map(unit_key, islice(pending.in_order(), offset, offset + limit))
        units = self.units(zip(keys, count(offset + 1)))
        waiting = tuple(unit for unit in units if _waits_in(unit.record, name))
        return QueuePage(waiting, pending.length, has_more=pending.length > offset + limit)

    def units(self, places: Iterable[tuple[str, int]]) -> Iterator[UnitFacts]:
        """Yield the units of these keys and positions that exist, read in batches.

        Args:
            places: Each with `namespace/name`, and its position in its queue; 0: it has none.
        """
        rest = iter(places)
        while batch := tuple(islice(rest, BATCH)):
            yield from map(self._with_promise, self._shared.ask(_read_units, batch))

    def unit(self, key: str) -> UnitFacts | None:
        """Return a unit with its position, or None if it is unknown."""
        unit = self._shared.ask(_read_unit_with_position, key)
        return None if unit is None else self._with_promise(unit)

    def refresh(self, unit: UnitFacts) -> tuple[UnitFacts, WouldPreempt | None]:
        """Return a waiting unit with its current reason, and the units that it would preempt.

        The scheduler considers a refused unit again when it may fit, not when numbers change: the
        limit of its last refusal may have room by now, and another may not. Victims are found even
        if the queue does not preempt. A fork is asked, since the choice may take some milliseconds.
        """
        engine, key = self._shared.fork(), unit.record.key
        if not engine.plugins.without_fork:
            refusal = _refusal_now(engine, key)
            if refusal is not None:
                unit = replace(unit, refusal=refusal, refused_at=None)
        return unit, _find_victims(engine, key, self._now())

    def _with_promise(self, unit: UnitFacts) -> UnitFacts:
        """Return a unit with its promise, which takes the engine's lock for longer."""
        if not unit.holds_up:
            return unit
        key, wall = unit.record.key, int(self._now().timestamp())
        promise = self._shared.ask(lambda engine: engine.backfill.promise_of_unit(key, wall))
        return replace(unit, promise=promise)


def quotas_of_queue(queue: Queue, used: Iterable[str], known: Container[str]) -> list[str]:
    """Return the quotas that concern a queue, sorted.

    These are the quota that has its name or for which it was created, if that exists, those that
    its annotation lists ("*" for all), and those of the units that wait in it or were admitted
    through it.

    Args:
        queue: The queue.
        used: Quotas of its units (`quotas_in_use`).
        known: The quotas that exist.
    """
    name = queue.metadata.name
    made_for = read_annotation(queue.metadata.annotations, QUOTA_FULLNAME)
    named = {each for each in (name, made_for) if each is not None and each in known}
    listed = read_available_quotas(queue.metadata.annotations)
    return sorted(named | listed | {*used})


_PAST_FILTERS: Final = reasons_with(Trait.PAST_FILTERS)


def _refusal_now(engine: Engine, key: str) -> Refusal | None:
    """Return the current reason of a pending unit; None if it is not pending."""
    record = engine.record(key)
    info = None if record is None else record.info
    queue = None if info is None else engine.queues.find(info.queue)
    if record is None or info is None or queue is None or record.state is not UnitState.WAITING:
        return None
    last = refusal_of(queue, info)
    if refused_at(queue, info) is None:
        return with_pods(engine.plugins, info, last.shown)
    refusal = engine.admission.why_refused(info)
    if refusal is not None and last.guard is not None:
        return last.shown
    if refusal is None and last.reason not in _PAST_FILTERS:
        return Refusal(reason=Reason.WAITING, quota=info.quota)
    return with_pods(engine.plugins, info, refusal or last)


def _find_victims(engine: Engine, key: str, wall: datetime) -> WouldPreempt | None:
    record = engine.record(key)
    info = None if record is None else record.info
    queue = None if info is None else engine.queues.find(info.queue)
    if record is None or info is None or queue is None or record.state is not UnitState.WAITING:
        return None
    found = engine.admission.would_evict(queue, info, wall)
    if found is not None and found.victims:
        return WouldPreempt(is_enabled=True, found=found)
    queue.set_options(replace(queue.rules.options, preempts=True))
    found = engine.admission.would_evict(queue, info, wall)
    if found is None or not found.victims:
        return None
    return WouldPreempt(is_enabled=False, found=found)


def _copy_pending(engine: Engine, name: str) -> PendingClasses | None:
    queue = engine.queues.find(name)
    return queue.pending.copy() if queue is not None else None


def _read_queue(engine: Engine, name: str) -> QueueSnapshot | None:
    queue = engine.queues.find(name)
    if queue is None:
        return None
    head = None if (place := queue_head(queue)) is None else _read_head(engine, queue, place)
    rules, refusal, at = queue.rules, None, None
    if rules.is_stopped:
        refusal = Refusal(reason=Reason.STOPPED_QUEUE, other=name)
    elif refused := min(_holding_back(queue), default=None, key=itemgetter(0)):
        refusal, at = refused[1].shown, refused[2] or 0
    return QueueSnapshot(
        queue=rules.api_object,
        policy=rules.policy.name,
        options=rules.options,
        quotas=quotas_in_use(engine.units, queue),
        pending=count_pending(engine.units, name),
        admitted=count_admitted(engine.units, name),
        head=head,
        refusal=refusal,
        refused_at=at,
        held=held_for(engine.units, name),
        share_used=_share_used(engine, queue),
    )


def _share_used(engine: Engine, queue: SchedulingQueue) -> int | None:
    use = engine.usage.quota_use
    quotas = queue.pending.by_quota or quotas_in_use(engine.units, queue)
    if use is None or not quotas:
        return None
    return round(100 * use.share_used(min(quotas, key=use.ranks)))


def _holding_back(queue: SchedulingQueue) -> Iterator[tuple[OrderKey, Refusal, int | None]]:
    """Yield the classes that are refused, but for those that stand aside: these name a user."""
    return (each for each in refused_classes(queue) if each[1].reason not in ASIDE)


def _read_head(engine: Engine, queue: SchedulingQueue, place: OrderKey) -> UnitFacts | None:
    return _read_unit(engine, unit_key(place), queue.pending.count_before(place) + 1)


def _read_units(engine: Engine, places: Sequence[tuple[str, int]]) -> list[UnitFacts]:
    found = (_read_unit(engine, key, position) for key, position in places)
    return [unit for unit in found if unit is not None]


def _read_unit(engine: Engine, key: str, position: int) -> UnitFacts | None:
    record = engine.record(key)
    if record is None:
        return None
    return UnitFacts(
        record,
        position,
        refusal_of_unit(engine, key),
        engine.usage.charge_of(record.uid),
        holds_up=engine.backfill.holds_up(key),
        refused_at=_refused_at(engine, key),
        elsewhere=charged_elsewhere(engine.units, record),
    )


def _refused_at(engine: Engine, key: str) -> int | None:
    record = engine.record(key)
    if record is None or record.state is not UnitState.WAITING or record.info is None:
        return None
    queue = engine.queues.find(record.info.queue)
    return None if queue is None else refused_at(queue, record.info)


def _read_unit_with_position(engine: Engine, key: str) -> UnitFacts | None:
    record = engine.record(key)
    position = 0
    if record is not None and record.state is UnitState.WAITING and record.info is not None:
        queue = engine.queues.find(record.info.queue)
        position = 0 if queue is None else queue.position_of(record.info)
    unit = _read_unit(engine, key, position)
    if unit is None or unit.refusal is not None:
        return unit
    return replace(unit, refusal=engine.growths.refusal_of(key))


def _waits_in(record: CachedUnit, name: str) -> bool:
    info = record.info
    return record.state is UnitState.WAITING and info is not None and info.queue == name
