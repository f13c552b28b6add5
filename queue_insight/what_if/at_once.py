"""What edits change at this moment. Pure.

Two copies of the engine run until they rest: one as it is, and one that is told of the edits first.
So what would start anyway is not credited to the edits. Time stands still, no job ends, and units
that are evicted leave at once with their pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from queue_insight.insight.trials import (
    SpentError,
    decide_until_rest,
    end_pauses,
    let_leave,
    let_requeue,
)
from queue_insight.what_if.apply import apply_edits
from queue_insight.what_if.edit import AppliedEdit, Edit
from queue_scheduler.cache.admitted_units import runs_whole
from queue_scheduler.cache.known_units import in_key_order
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Moment, Preempt, Refusal
from queue_scheduler.engine.drained_queues import is_drained
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.unit_writes.eviction_patches import QUEUE_STOPPED
from shared_api.evictions import DEACTIVATED, REQUEUE_REQUESTED
from shared_api.objects.meta import find_condition
from shared_api.queue_unit_phases import PODS_READY, is_being_evicted
from shared_api.timestamps import read_past

NODE_GONE: Final = "NodeGone"
"""Why a unit leaves that has pods on a node that is removed."""

MAX_DECISIONS: Final = 50_000
"""Decisions of each copy: some seconds. With 10,000 units that all start, a fifth is used."""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that leaves its place.

    Attributes:
        unit: `namespace/name`.
        queue: Its queue.
        quota: Its quota.
        reason: Why: `Preempted` or `Reclaimed` for another unit, `QueueStopped`, `Deactivated`, or
            `NodeGone`.
        lost_seconds: How long its pods have run since their last checkpoint; 0 if they do not
            all run.
        by: The unit that it leaves for; "": none.
    """

    unit: str
    queue: str
    quota: str
    reason: str
    lost_seconds: int
    by: str = ""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that starts.

    Attributes:
        unit: `namespace/name`.
        queue: Its queue.
        quota: Its quota.
        before: Why it does not start without the edits; None if it only waits for its turn, or does
            not exist.
    """

    unit: str
    queue: str
    quota: str
    before: Refusal | None


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that waits, for another reason than without the edits.

    Attributes:
        unit: `namespace/name`.
        queue: Its queue.
        quota: Its quota; "" if it is mapped to none.
        refusal: Why it waits, or None if it has no turn.
        before: Why it waits without the edits, or None if it does not wait, or has no turn.
        would_start: Whether it starts without the edits.
    """

    unit: str
    queue: str
    quota: str
    refusal: Refusal | None
    before: Refusal | None
    would_start: bool


class AtOnce(msgspec.Struct, frozen=True, kw_only=True):
    """What edits change at this moment; units are in the order of their names, starts as they come.

    Attributes:
        applied: What became of each edit.
        started: Units that start because of the edits.
        refused: Units that wait for another reason, or would have started.
        evicted: Units that leave because of the edits.
        spared: Units that would leave without the edits.
        is_complete: Whether both copies came to rest.
        without_plugins: Plugins that could not be asked, since they cannot be forked.
    """

    applied: tuple[AppliedEdit, ...]
    started: tuple[Start, ...]
    refused: tuple[Wait, ...]
    evicted: tuple[Eviction, ...]
    spared: tuple[str, ...]
    is_complete: bool
    without_plugins: tuple[str, ...] = ()


def answer_at_once(engine: Engine, edits: Iterable[Edit], moment: Moment) -> AtOnce:
    """Return what edits change at this moment.

    Args:
        engine: A fork; it must not be used afterwards.
        edits: The edits, in the order in which they are made.
        moment: The time.

    Raises:
        EditError: An edit is wrong, or cannot be tried.
    """
    twin = engine.fork()
    edited = _Copy(twin, moment)
    applied = apply_edits(twin, edits, moment.wall)
    for each in applied:
        edited.let_leave(each.stranded, NODE_GONE)
        edited.let_requeue(each.requeued)
    plain = _Copy(engine, moment)
    is_complete = plain.come_to_rest() and edited.come_to_rest()
    started, refused = _compare(plain, edited)
    return AtOnce(
        applied=applied,
        started=tuple(started),
        refused=tuple(refused),
        evicted=tuple(
            each for key, each in sorted(edited.evicted.items()) if key not in plain.evicted
        ),
        spared=tuple(sorted(plain.evicted.keys() - edited.evicted.keys())),
        is_complete=is_complete,
        without_plugins=engine.plugins.without_fork,
    )


class _Copy:
    """A copy of the engine, and what happens in it.

    Attributes:
        engine: The copy.
        started: Units that it starts, in that order.
        evicted: Units that leave, by their keys.
    """

    def __init__(self, engine: Engine, moment: Moment) -> None:
        self.engine = engine
        self.started: dict[str, None] = {}
        self.evicted: dict[str, Eviction] = {}
        self._moment = moment
        self._left = MAX_DECISIONS

    def let_leave(self, keys: Iterable[str], reason: str, by: str = "") -> None:
        """Release the quota of those units that occupy it, and note them as evicted."""
        for key in keys:
            record = self.engine.record(key)
            if record is not None and record.occupies:
                self._note(record, reason, by)
                for _ in let_leave(self.engine, (key,)):
                    pass  # all queues are asked later

    def let_requeue(self, keys: Iterable[str]) -> None:
        """Release the quota of units that are then pending again: they may start again at once."""
        for key in keys:
            record = self.engine.record(key)
            if record is not None and record.occupies:
                self._note(record, REQUEUE_REQUESTED, "")
                for _ in let_requeue(self.engine, (key,)):
                    pass  # as above

    def come_to_rest(self) -> bool:
        """Let all queues decide until they rest; return whether they came to rest."""
        engine, moment = self.engine, self._moment
        for record, reason in list(_find_leaving(engine)):
            self.let_leave((record.key,), reason)
        end_pauses(engine)
        queues = [queue.name for queue in engine.queues]
        try:
            decided = decide_until_rest(engine, moment, queues, self._spend, self._note_victims)
            for decision in decided:
                if not isinstance(decision, Preempt):
                    self.started[decision.unit] = None
        except SpentError:
            return False
        return True

    def _spend(self) -> None:
        if not self._left:
            raise SpentError
        self._left -= 1

    def _note_victims(self, decision: Preempt) -> bool:
        """Note the victims of an eviction, before they leave; return that they do."""
        for victim in decision.victims:
            record = self.engine.record(victim.unit)
            if record is not None:
                self._note(record, decision.reason, decision.unit)
        return True

    def _note(self, record: CachedUnit, reason: str, by: str) -> None:
        self.started.pop(record.key, None)
        self.evicted[record.key] = Eviction(
            unit=record.key,
            queue=record.queue_name,
            quota=_quota_of(record),
            reason=reason,
            lost_seconds=_lost_seconds(record, self._moment.wall),
            by=by,
        )


def _find_leaving(engine: Engine) -> Iterator[tuple[CachedUnit, str]]:
    """Yield admitted units that are asked to leave because they are inactive, or drained."""
    for record in engine.units:
        if record.state is UnitState.ADMITTED and not is_being_evicted(record.unit):
            if record.unit.spec.active is False:
                yield record, DEACTIVATED
            elif is_drained(engine, record):
                yield record, QUEUE_STOPPED


def _lost_seconds(record: CachedUnit, wall: datetime) -> int:
    ready = find_condition(record.unit.status.conditions, PODS_READY)
    since = read_past(ready.last_transition_time if ready else None, wall)
    if since is None or not runs_whole(record.unit):
        return 0
    return max(0, int((wall - since).total_seconds()))


def _compare(plain: _Copy, edited: _Copy) -> tuple[list[Start], list[Wait]]:
    started, refused = [], []
    before, after = plain.engine, edited.engine
    for key in edited.started:
        has_returned = key in edited.evicted
        if has_returned or not (_occupies(before.record(key)) or key in plain.evicted):
            record = after.record(key)
            assert record is not None, f"{key} was decided"
            started.append(
                Start(
                    unit=key,
                    queue=record.queue_name,
                    quota=_quota_of(record),
                    before=refusal_of_unit(before, key),
                )
            )
    for record in in_key_order(after.units):
        if not record.occupies and record.key not in edited.evicted:
            wait = _compare_wait(before, after, record)
            if wait is not None:
                refused.append(wait)
    return started, refused


def _compare_wait(before: Engine, after: Engine, record: CachedUnit) -> Wait | None:
    """Return why a unit waits, if it is for another reason than without the edits."""
    key = record.key
    if record.state is UnitState.ENDED:
        return None
    refusal, refusal_before = refusal_of_unit(after, key), refusal_of_unit(before, key)
    would_start = _occupies(before.record(key))
    is_known = before.record(key) is not None
    if is_known and not would_start and _essence(refusal) == _essence(refusal_before):
        return None
    return Wait(
        unit=key,
        queue=record.queue_name,
        quota=_quota_of(record),
        refusal=refusal,
        before=refusal_before,
        would_start=would_start,
    )


def _essence(refusal: Refusal | None) -> tuple[object, ...]:
    """Return what makes two refusals the same reason: the limit, not its numbers."""
    if refusal is None:
        return ()
    return (refusal.reason, refusal.quota, refusal.quota_namespace, refusal.resource)


def _occupies(record: CachedUnit | None) -> bool:
    return record is not None and record.occupies


def _quota_of(record: CachedUnit) -> str:
    return "" if record.info is None else record.info.quota
