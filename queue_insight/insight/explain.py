"""Why a unit waits: everything that keeps it from starting, asked of the engine that decides.

A refused unit has one recorded reason, found when it was last decided. Here all reasons are asked
for anew, so that a user who removes one is not surprised by the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Final

import msgspec

from queue_scheduler.cache.admission_check_rules import READY
from queue_scheduler.cache.known_units import every_hold
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Moment, Reason, Refusal, Trait, reasons_with
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.fair_questions import find_account_ahead, find_queue_ahead
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_questions import every_refusal, with_pods
from queue_scheduler.framework.queue_unit_info import NO_DEMAND
from shared_api.lifecycle import LifecycleState, lifecycle_state

NEVER: Final = reasons_with(Trait.TOO_LARGE)
"""Reasons of a unit that does not start as it is, whatever becomes free."""


class Verdict(StrEnum):
    """Where a unit stands, for its user."""

    WAITING = "waiting"
    """In its queue."""
    HELD = "held"
    """In no queue: something is missing, or forbids it to start."""
    ADMITTED = "admitted"
    """It has its quota."""
    FINISHED = "finished"
    """Its job has ended."""


_VERDICTS: Final = {
    UnitState.ON_HOLD: Verdict.HELD,
    UnitState.WAITING: Verdict.WAITING,
    UnitState.DETACHED: Verdict.WAITING,
    UnitState.CONFLICT: Verdict.WAITING,
    UnitState.ASSUMED: Verdict.ADMITTED,
    UnitState.ADMITTED: Verdict.ADMITTED,
    UnitState.ENDED: Verdict.FINISHED,
}


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer about one unit.

    Attributes:
        record: What the engine knows of it.
        verdict: Where it stands.
        position: Its position in its queue, from 1; 0 if it is in none.
        blockers: All that keeps it from starting; amounts that are short in order, the scarcest
            first. For an admitted unit, why it gets no more pods. () for a unit in its queue: it
            starts when it has its turn.
        without_plugins: Plugins that could not be asked, since they cannot be forked.
    """

    record: CachedUnit
    verdict: Verdict
    position: int
    blockers: tuple[Refusal, ...]
    without_plugins: tuple[str, ...] = ()

    @property
    def state(self) -> LifecycleState:
        """How far it is; see `lifecycle_state_of`."""
        return lifecycle_state_of(self.record)

    @property
    def open_checks(self) -> dict[str, str]:
        """The states of its admission checks that are not ready, by name."""
        checks = self.record.unit.status.admission_checks
        return {each.name: each.state for each in checks if each.state != READY}

    @property
    def never_starts(self) -> bool:
        """Whether waiting does not help: see `are_final`."""
        return are_final(self.blockers)


def lifecycle_state_of(record: CachedUnit) -> LifecycleState:
    """Return the state of a unit; while its admission is being written, the one after that.

    A phase that is unknown to this version counts as Enqueued, as it does for the scheduler.
    """
    if record.state is UnitState.ASSUMED and record.to is not None:
        phase: str = record.to
    else:
        phase = record.unit.status.phase
    is_in_queue = record.state is not UnitState.ON_HOLD
    state = lifecycle_state(phase, is_in_queue=is_in_queue)
    if state is not None:
        return state
    return LifecycleState.WAITING if is_in_queue else LifecycleState.ON_HOLD


def are_final(blockers: Iterable[Refusal]) -> bool:
    """Return whether a unit with these blockers never starts as it is, whatever is free.

    It is larger than a limit, or longer than every time between two windows.
    """
    return any(map(_is_final, blockers))


def _is_final(blocker: Refusal) -> bool:
    if blocker.window is not None:
        return blocker.window.longest_gap is not None
    is_too_large = blocker.requested > blocker.limit
    return blocker.reason in NEVER or (blocker.reason is Reason.USER_LIMIT and is_too_large)


def needs_fork(engine: Engine) -> bool:
    """Return whether `explain` may only be asked of a fork of this engine now."""
    return not engine.rounds.is_idle


def explain(engine: Engine, key: str, wall: datetime) -> Explanation | None:
    """Return why a unit waits, or that it does not; None if the unit is unknown.

    Args:
        engine: A fork, or the engine itself unless it `needs_fork`: nothing is registered.
        key: `namespace/name` of the unit.
        wall: The time.
    """
    record = engine.record(key)
    if record is None:
        return None
    position = 0
    queue = None if record.info is None else engine.queues.find(record.info.queue)
    if record.state is UnitState.WAITING and record.info is not None and queue is not None:
        position = queue.position_of(record.info)
    return Explanation(
        record=record,
        verdict=_VERDICTS[record.state],
        position=position,
        blockers=scarcest_first(find_blockers(engine, record, wall)),
        without_plugins=engine.plugins.without_fork,
    )


def scarcest_first(blockers: Sequence[Refusal]) -> tuple[Refusal, ...]:
    """Return refusals with amounts in order of scarcity; other reasons stay in their places.

    What is larger than a limit comes first: waiting does not help. Then the scarcest resource is
    the one of which the least part of what is requested is left.
    """
    amounts = iter(sorted((each for each in blockers if each.missing), key=_left_part))
    return tuple(next(amounts) if each.missing else each for each in blockers)


def _left_part(refusal: Refusal) -> tuple[bool, Fraction]:
    """Return which part of what is requested is left; below 0 where a limit is exceeded."""
    left = Fraction(refusal.limit - refusal.used, refusal.requested or 1)
    return (refusal.reason not in NEVER, left)


def find_blockers(engine: Engine, record: CachedUnit, wall: datetime) -> list[Refusal]:
    """Return `Explanation.blockers`, without counting the units ahead.

    Args:
        engine: As for `explain`.
        record: The unit.
        wall: The time.
    """
    verdict = _VERDICTS[record.state]
    queue = None if record.info is None else engine.queues.find(record.info.queue)
    if record.state is UnitState.WAITING and record.info is not None and queue is not None:
        found = engine.admission.every_refusal(queue, record.info, Moment(0.0, wall))
        for find_ahead in (find_account_ahead, find_queue_ahead):
            behind = find_ahead(engine, queue, record.info)
            found += [] if behind is None else [behind]
        return [with_pods(engine.plugins, record.info, each) for each in found]
    if verdict is Verdict.HELD:
        return list(_find_holds(engine, record))
    refusal = None
    if verdict is Verdict.WAITING:
        refusal = refusal_of_unit(engine, record.key)
    elif verdict is Verdict.ADMITTED:
        refusal = engine.growths.refusal_of(record.key)
    return [] if refusal is None else [refusal]


def _find_holds(engine: Engine, record: CachedUnit) -> Iterator[Refusal]:
    """Yield all that keeps a unit out of its queue, then the limits that would refuse it there."""
    assert record.hold is not None, f"{record.key} is on hold without a reason"
    yield record.hold
    reasons = {record.hold.reason}
    for refusal in every_hold(engine.units, record):
        if refusal.reason not in reasons:
            reasons.add(refusal.reason)
            yield refusal
    info = record.info
    if info is not None and info.demand != NO_DEMAND:
        yield from every_refusal(engine.plugins, info)
