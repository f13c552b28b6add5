"""Writes into pending units why they wait: one stable reason, rarely, the most needed first.

A unit that starts within two seconds gets no such write. After that the condition
`QuotaReserved=False` carries the reason, and is written again only when the reason is another.
Numbers change all the time and are in the debug API. The writes use the low lane, after every write
of a phase.

    a reason that needs action (`NEEDS_ACTION`)           at once
    of the first `FIRST_UNITS` of a queue            behind these
    all others                                       `LATER_PER_SECOND`, while they wait

Where a queue starts units quickly (`QUICK_STARTS`), a unit that has come to its front is not yet
reported as one of its first if more units than stand before it have left the front since the last
sweep: it is likely to start before the next one. If it does not, it is reported then.

Only keys wait to be written. The reason is computed when the turn of a key comes, and a unit that
has started meanwhile has none. So twenty thousand units that come at once cost a few writes, for
the units that are most likely read; the debug API has the reasons of the others.

A unit whose job ran before it was queued, and whose namespace may not name its quota, gets the
condition like a pending unit. Once the namespace may name the quota, the unit is charged, and the
condition is True again.

A reason that needs action is an event as well, when its condition is written: so once per change of
the reason, at the rate of the low lane, and never for what a unit lacks for a moment while quotas
and queues arrive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from itertools import islice
from typing import Any, Final

import structlog

from queue_scheduler.cache.unit_state import UnitState, is_disowned
from queue_scheduler.cycles.dequeue_cycle import WritersCache
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Notice, Reason, Refusal, Trait, reasons_with
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.queueing.pending_classes import PendingClasses
from queue_scheduler.refusal_texts import stable_message
from shared_api.client.errors import Conflict, NotFound
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.writes import Outcome, Rejected, WriteSink, Written, status_report
from shared_api.objects.meta import Condition, Timestamp, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import QUOTA_RESERVED, condition_body, with_condition
from shared_api.timestamps import rfc3339
from shared_api.waiting_reasons import NEEDS_ACTION
from shared_api.work_queue import WorkQueue

FIRST_REPORT_SECONDS: Final = 2.0
"""No reason is written to a unit that starts sooner."""

SWEEP_SECONDS: Final = 5.0
"""Between two passes over the queues whose reasons changed."""

MIN_REST_SECONDS: Final = 0.25
"""Between two steps, so that the thread wakes once for all units whose two seconds end in it."""

REASONS_WITH_EVENT: Final = reasons_with(Trait.NEEDS_CORRECTION)
"""Reasons that are events as well: the unit, its quota or its queue must be corrected."""

FIRST_UNITS: Final = 20
"""First units of a queue: about as many as `kubectl get queueunits` shows without scrolling."""

QUICK_STARTS: Final = 5
"""How many of a queue's first units must have left it since the last sweep for it to be quick: one
a second. Nearly all that leave have started; those that were deleted count as well."""

LATER_PER_SECOND: Final = 5.0
"""Reasons of units further back; a twentieth of the low lane as shipped."""

LATER_AT_ONCE: Final = 5
"""How many of them at once after a pause, so that units of a short queue do not wait."""

UNITS_PER_STEP: Final = 200
"""Bounds the time until newer changes are considered."""

MAX_FIRST_IN_FLIGHT: Final = 100
"""Reports on the first units of queues that are in flight: a second of the low lane, so that
reasons that need action never wait longer behind them."""

MAX_IN_FLIGHT: Final = 500
"""Reports in flight. Others wait as keys: the low lane sends a hundred a second by default, and as
writes they would take some kilobytes each, and be outdated when they are sent."""

CHARGED_AGAIN: Final = "Quota is reserved: its namespace may name the quota"
"""The message of an adopted unit that is charged after it was not."""

log = structlog.get_logger("pending_reason")


class _Rank(Enum):
    """The order of reports; lower values first."""

    AT_ONCE = 0
    FIRST = 1
    LATER = 2


_PENDING: Final = frozenset({UnitState.WAITING, UnitState.ON_HOLD})

_RANKED: Final = (_Rank.FIRST, _Rank.LATER)
"""Ranks whose reports wait for their turn; the others are written at once."""


class PendingReasonWriter:
    """Writes the reasons of units that were added, or whose reason may have changed.

    Args:
        shared: Has the reasons.
        writes: Takes the patches.
        cache: The units. Those of which only a part can be read are left to
            `undecodable_objects`.
        report: Takes the notices that become events.
        may_write: False while this process does not lead.
    """

    def __init__(
        self,
        shared: SharedEngine,
        writes: WriteSink,
        cache: WritersCache[QueueUnit],
        report: Callable[[Notice], None],
        may_write: Callable[[], bool],
        clock: Clock,
        due: WorkQueue[str],
    ) -> None:
        self._shared = shared
        self._writes = writes
        self._cache = cache
        self._report_notice = report
        self._may_write = may_write
        self._clock = clock
        self._due = due
        # Added to by the step, taken from by writers.
        self._in_flight: set[str] = set()
        self._swept: dict[str, int] = {}
        # At the last sweep: the first units of each queue, and those of them to report as such.
        self._fronts: dict[str, list[str]] = {}
        self._first: frozenset[str] = frozenset()
        # Keys to report on by rank, in order of arrival.
        self._ranked: dict[_Rank, dict[str, None]] = {rank: {} for rank in _RANKED}
        # Appended to by the informer's thread, taken from by the step.
        self._left: deque[str] = deque()
        self._later_at = 0.0
        self._sweep_at = 0.0
        self._report_from: float | None = None

    def on_unit_seen(self, key: str) -> None:
        """Consider this unit after its two seconds. From any thread.

        A follower keeps no keys, since these would grow with every unit that ever existed: the
        first sweep of a leader finds all pending units.
        """
        if self._may_write():
            self._due.add_after(key, FIRST_REPORT_SECONDS)

    def on_unit_left(self, key: str) -> None:
        """Forget a unit that no longer waits. From any thread."""
        if any(key in keys for keys in self._ranked.values()):
            self._left.append(key)

    def count_waiting(self) -> int:
        """Return how many units wait for the turn of their report."""
        return sum(map(len, self._ranked.values()))

    def step(self) -> float:
        """Report on some units; return how many seconds to rest."""
        if not self._may_write():
            return SWEEP_SECONDS
        now = self._clock.monotonic()
        if self._report_from is None:
            # The two seconds of earlier units begin here: until now there were no decisions, and
            # the queues of quotas are being created.
            self._report_from = now + FIRST_REPORT_SECONDS
        if now < self._report_from:
            return self._report_from - now
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_SECONDS
            for changed in self._find_changed():
                # Not at once: the unit may be new, and start within its two seconds.
                self._due.add_after(changed, FIRST_REPORT_SECONDS)
        self._forget_left()
        ready = self._consider_due()
        if ready == 0.0 or self._report_ranked():
            return 0.0
        rests = [self._sweep_at - self._clock.monotonic()]
        if ready is not None:
            rests.append(ready)
        if self._ranked[_Rank.LATER]:
            rests.append(self._later_at - self._clock.monotonic())
        if self._ranked[_Rank.FIRST]:
            rests.append(0.0)  # until some that are in flight are written
        return max(MIN_REST_SECONDS, min(rests))

    def _consider_due(self) -> float | None:
        """Consider units whose time has come; return how many seconds to rest, or None."""
        for _ in range(UNITS_PER_STEP):
            if len(self._in_flight) >= MAX_IN_FLIGHT:
                return MIN_REST_SECONDS
            ready = self._due.work(self._consider)
            if ready != 0.0:
                return ready
        return 0.0

    def _forget_left(self) -> None:
        while self._left:
            key = self._left.popleft()
            for keys in self._ranked.values():
                keys.pop(key, None)

    def _report_ranked(self) -> bool:
        """Report on the units whose turn it is, by rank; return whether there may be more now."""
        for _ in range(UNITS_PER_STEP):
            rank = self._next_rank()
            if rank is None:
                return False
            keys = self._ranked[rank]
            key = next(iter(keys))
            del keys[key]
            try:
                is_written = self._report(key, rank)
            except Exception as error:  # noqa: BLE001 - it costs this unit a pause, and not the thread
                self._due.add_rate_limited(key, error=error)
                continue
            if is_written and rank is _Rank.LATER:
                now = self._clock.monotonic()
                pause = 1.0 / LATER_PER_SECOND
                earliest = now - (LATER_AT_ONCE - 1) * pause
                self._later_at = max(self._later_at, earliest) + pause
        return True

    def _next_rank(self) -> _Rank | None:
        in_flight = len(self._in_flight)
        if self._ranked[_Rank.FIRST]:
            return _Rank.FIRST if in_flight < MAX_FIRST_IN_FLIGHT else None
        may_go = self._clock.monotonic() >= self._later_at and in_flight < MAX_FIRST_IN_FLIGHT
        return _Rank.LATER if self._ranked[_Rank.LATER] and may_go else None

    def _find_changed(self) -> list[str]:
        """Return the units whose reason may be another than at the last sweep.

        A queue or quota that was deleted or created changes the reason of units on hold without a
        change of their objects; in a queue, classes are refused for another reason. Units that have
        come to the front of their queue are included.
        """
        before = self._first
        keys, copies = self._shared.ask(self._take_changed)
        keys.extend(sorted(self._first - before))
        for pending in copies:
            keys.extend(map(unit_key, pending.in_order()))
        return keys

    def _take_changed(self, engine: Engine) -> tuple[list[str], list[PendingClasses]]:
        """Return keys of units, and copies of queues, which are then read without the lock."""
        keys = engine.units.take_held_lately()
        before, self._swept = self._swept, {}
        fronts, self._fronts = self._fronts, {}
        first: set[str] = set()
        copies = []
        for queue in engine.queues:
            pending = queue.pending
            front = [*map(unit_key, islice(pending.in_order(), FIRST_UNITS))]
            first.update(_staying(engine, fronts.get(queue.name, []), front))
            self._fronts[queue.name] = front
            self._swept[queue.name] = pending.reasons_version
            if before.get(queue.name) != pending.reasons_version:
                copies.append(pending.copy())
        self._first = frozenset(first)
        return keys, copies

    def _consider(self, key: str) -> None:
        self._report(key, _Rank.AT_ONCE)
        self._due.forget(key)

    def _report(self, key: str, turn: _Rank) -> bool:
        """Submit the report on a unit if it is its rank's turn; return whether it was submitted.

        Otherwise its key waits for that turn.
        """
        record = self._shared.ask(Engine.record, key)
        if record is not None and record.state is UnitState.ADMITTED:
            return self._report_admitted(key, record.unit)
        if record is None or record.state not in _PENDING:
            return False
        refusal = self._shared.ask(refusal_of_unit, key)
        if refusal is None or refusal.reason is Reason.WAITING:
            # It has not been considered yet, which is no reason to report.
            self._due.add_after(key, FIRST_REPORT_SECONDS)
            return False
        if _is_reported(record.unit, refusal) or not self._cache.is_readable(key):
            return False
        rank = self._rank_of(key, refusal)
        if rank.value > turn.value:
            self._ranked[rank][key] = None
            return False
        self._submit(key, record.unit, refusal)
        return True

    def _report_admitted(self, key: str, unit: QueueUnit) -> bool:
        """Submit that an adopted unit is charged after all; return whether its object denies it."""
        if not is_disowned(unit) or not self._cache.is_readable(key):
            return False
        body = build_admitted_patch(unit, rfc3339(self._clock.now()))
        self._hand_over(key, unit, body, refusal=None)
        return True

    def _rank_of(self, key: str, refusal: Refusal) -> _Rank:
        if refusal.reason in NEEDS_ACTION:
            return _Rank.AT_ONCE
        return _Rank.FIRST if key in self._first else _Rank.LATER

    def _submit(self, key: str, unit: QueueUnit, refusal: Refusal) -> None:
        body = build_waiting_patch(unit, refusal, rfc3339(self._clock.now()))
        self._hand_over(key, unit, body, refusal)

    def _hand_over(
        self, key: str, unit: QueueUnit, body: dict[str, Any], refusal: Refusal | None
    ) -> None:
        for keys in self._ranked.values():
            keys.pop(key, None)
        meta = unit.metadata
        write = status_report(QUEUE_UNITS, meta.namespace, meta.name, body)
        self._in_flight.add(key)
        self._writes.submit(write, lambda outcome: self._on_outcome(key, refusal, outcome))

    def _on_outcome(self, key: str, refusal: Refusal | None, outcome: Outcome[Any]) -> None:
        self._in_flight.discard(key)
        match outcome:
            case Written(object=unit):
                self._cache.note_written(unit)
                self._shared.apply(Engine.on_queue_unit, unit)
                if refusal is not None and refusal.reason in REASONS_WITH_EVENT:
                    self._report_notice(build_notice(unit, refusal))
            case Rejected(error=Conflict() | NotFound()):
                pass  # the newer object brings it back here
            case Rejected(error=error):
                log.warning("the reason of a waiting unit is refused", unit=key, error=str(error))
            case _:
                self._due.add_after(key, SWEEP_SECONDS)


def _staying(engine: Engine, before: list[str], front: list[str]) -> list[str]:
    """Return the first units of a queue that are not likely to start before the next sweep.

    Args:
        engine: Knows which units have left the queue.
        before: The first units at the last sweep.
        front: The first units now.
    """
    if before == front:
        return front
    known = frozenset(before)
    records = (engine.record(key) for key in before)
    left = sum(record is None or record.state not in _PENDING for record in records)
    if left < QUICK_STARTS:
        return front
    return [key for place, key in enumerate(front) if place >= left or key in known]


def _is_reported(unit: QueueUnit, refusal: Refusal) -> bool:
    condition = find_condition(unit.status.conditions, QUOTA_RESERVED)
    return (
        condition is not None
        and condition.status == "False"
        and condition.reason == refusal.reason
        and condition.message == stable_message(refusal)
    )


def build_notice(unit: QueueUnit, refusal: Refusal) -> Notice:
    """Return the event for a unit; its message is that of the condition."""
    return Notice(
        kind=QUEUE_UNITS.kind,
        key=unit.metadata.key,
        uid=unit.metadata.uid,
        reason=refusal.reason.value,
        note=stable_message(refusal),
    )


def build_waiting_patch(unit: QueueUnit, refusal: Refusal, now: Timestamp) -> dict[str, Any]:
    """Return the merge patch that says why a unit waits; guarded by the version it was read at."""
    message = stable_message(refusal)
    condition = Condition(
        type=QUOTA_RESERVED, status="False", reason=refusal.reason.value, message=message
    )
    return _build_patch(unit, condition, message, now)


def build_admitted_patch(unit: QueueUnit, now: Timestamp) -> dict[str, Any]:
    """Return the merge patch that says that an adopted unit is charged; guarded like the other."""
    condition = Condition(
        type=QUOTA_RESERVED, status="True", reason="QuotaReserved", message=CHARGED_AGAIN
    )
    return _build_patch(unit, condition, CHARGED_AGAIN, now)


def _build_patch(
    unit: QueueUnit, condition: Condition, message: str, now: Timestamp
) -> dict[str, Any]:
    conditions = with_condition(unit.status.conditions, condition, now=now)
    return {
        "metadata": {"resourceVersion": unit.metadata.resource_version},
        "status": {
            "message": message,
            "lastUpdateTime": now,
            "conditions": [condition_body(each) for each in conditions],
        },
    }
