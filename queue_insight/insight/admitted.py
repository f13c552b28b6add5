"""An admitted unit: what it was admitted on, what it borrows, and what could evict it.

Whether it may be evicted is asked of the rules that choose victims (`preemption.candidates`).
"""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from queue_scheduler.cache.known_units import unit_at
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import Loan, Reclaimer
from queue_scheduler.framework.plugin_questions import loan_of
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.preemption.protection import Kept, spared_by_queue
from queue_scheduler.queueing.queue_questions import class_heads
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.quota.quota_decision import AppliedLimit, MinRunTime

MOST_SEARCHES: Final = 10
"""Searches for victims, for one answer: each may read all running units, some milliseconds."""


class Evictor(msgspec.Struct, frozen=True, gc=False):
    """A pending unit that would have an admitted one evicted, and the reason of that eviction."""

    info: QueueUnitInfo
    reason: str


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about one admitted unit.

    Attributes:
        limits: What it was compared with when it was admitted; None: that is not known here.
        loan: What its quota borrows; None if its quota does not borrow, or it has none.
        kept: Why it is not evicted now; None if it may be.
        kept_until: Until when; None: that has no known end.
        queue_preempts: Whether its queue lets units of higher priority evict units.
        is_in_reach: Whether it lets them evict this unit, which may run.
        queue_spares_until: Until when its queue, or one above it, spares it
            (`preempt-min-runtime`); None: it does not, or no longer.
        reclaimed_from: From when each quota of `reclaimers` may take from it that spares it now
            (`reclaim-min-runtime`).
        evictors: The pending units that would choose it now, if it were their turn; asked for only
            by `find_evictors`.
        has_more: Whether there are more that were not asked.
    """

    limits: tuple[AppliedLimit, ...] | None
    loan: Loan | None
    kept: Kept | None
    kept_until: datetime | None
    queue_preempts: bool
    is_in_reach: bool
    queue_spares_until: datetime | None = None
    reclaimed_from: dict[str, datetime] = {}
    evictors: tuple[Evictor, ...] = ()
    has_more: bool = False

    @property
    def reclaimers(self) -> tuple[Reclaimer, ...]:
        """The quotas that may reclaim from it now."""
        return () if self.loan is None else self.loan.reclaimers

    @property
    def is_possible_victim(self) -> bool:
        """Whether it may be evicted now, by some unit."""
        by_queue = self.is_in_reach and self.queue_spares_until is None
        by_quota = any(each.quota not in self.reclaimed_from for each in self.reclaimers)
        return self.kept is None and (by_queue or by_quota)


def describe_admitted(engine: Engine, key: str, wall: datetime) -> Admitted | None:
    """Return what is known of an admitted unit; None if it is not admitted. Changes nothing.

    Args:
        engine: The engine, or a fork.
        key: `namespace/name` of the unit.
        wall: The time.
    """
    record = engine.record(key)
    if record is None or record.info is None or not record.occupies:
        return None
    candidates, queue = engine.candidates, engine.queues.find(record.info.queue)
    protection = candidates.protection(wall)
    kept = protection.why_kept(record)
    on, loan = record.admitted_on, loan_of(engine.plugins, record.uid)
    by_queue = spared_by_queue(engine.queues, record.info.queue)
    by_quota = {
        each.quota: candidates.spared_until(
            record, MinRunTime(each.min_run_seconds, each.quota), wall
        )
        for each in (() if loan is None else loan.reclaimers)
    }
    return Admitted(
        limits=None if on is None else tuple(on.limits()),
        loan=loan,
        kept=kept,
        kept_until=None if kept is None else protection.until(record, kept),
        queue_preempts=queue is not None and queue.rules.lets_evict,
        is_in_reach=queue is not None and candidates.may_be_preempted(queue, record),
        queue_spares_until=candidates.spared_until(record, by_queue, wall),
        reclaimed_from={name: until for name, until in by_quota.items() if until is not None},
    )


def find_evictors(engine: Engine, key: str, wall: datetime) -> tuple[tuple[Evictor, ...], bool]:
    """Return the pending units that would choose a unit as a victim, and whether more might.

    Only the first of the units that the filters judge alike is asked. Rounds of evictions in
    progress are not considered.

    Args:
        engine: A fork: the search takes milliseconds.
        key: `namespace/name` of the admitted unit.
        wall: The time.
    """
    record = engine.record(key)
    if record is None or not record.occupies:
        return (), False
    pending = (
        (queue, info)
        for queue in sorted(engine.queues, key=lambda each: each.name)
        if not queue.rules.is_stopped
        for info in _heads(engine, queue)
        if engine.candidates.reaches(queue, info, record)
    )
    searched = list(islice(pending, MOST_SEARCHES + 1))
    found = []
    for queue, info in searched[:MOST_SEARCHES]:
        would = engine.admission.would_evict(queue, info, wall)
        if would is not None and any(each.uid == record.uid for each in would.victims):
            found.append(Evictor(info, would.reason))
    return tuple(found), len(searched) > MOST_SEARCHES


def _heads(engine: Engine, queue: SchedulingQueue) -> list[QueueUnitInfo]:
    """Return the first unit of each class of a queue, in order."""
    records = (unit_at(engine.units, key) for key in sorted(class_heads(queue)))
    return [record.info for record in records if record.info is not None]
