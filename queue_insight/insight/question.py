"""The unit that is asked about, at rest, and the limits that decide on it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from queue_insight.insight.explain import Explanation, find_blockers
from queue_insight.insight.trials import Trials
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Reason, Refusal, Trait, reasons_with
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import NO_DEMAND, QueueUnitInfo
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.resource_list import Amounts, maximum

BEHIND: Final = reasons_with(Trait.OTHER_UNIT)
"""Reasons of a unit that waits for another one, which `Refusal.other` names."""

MAX_AHEAD: Final = 4
"""A unit waits behind a head of its queue; that one may wait behind a head of another band."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A unit that does not start by itself.

    Attributes:
        trials: Tries changes.
        engine: A fork at rest, to read from and to ask questions that may change it.
        record: The unit.
        explanation: Why it waits.
    """

    trials: Trials
    engine: Engine
    record: CachedUnit
    explanation: Explanation

    @property
    def key(self) -> str:
        """`namespace/name` of the unit."""
        return self.record.key

    @property
    def reasons(self) -> frozenset[Reason]:
        """The reasons for which it waits."""
        return frozenset(blocker.reason for blocker in self.explanation.blockers)

    @property
    def info(self) -> QueueUnitInfo | None:
        """The unit with its demand; None if it has no place, or no demand that can be read."""
        info = self.record.info
        return None if info is None or info.demand == NO_DEMAND else info

    @property
    def queue(self) -> SchedulingQueue | None:
        """Its queue; None if there is none."""
        return None if self.record.info is None else self.engine.queues.find(self.record.info.queue)


class Deciding(NamedTuple):
    """The unit that decides when another one starts, and all that keeps it from starting."""

    record: CachedUnit
    blockers: tuple[Refusal, ...]


def find_deciding(engine: Engine, key: str, wall: datetime) -> Deciding | None:
    """Return why the unit waits that decides when this one starts: itself, or the one ahead of it.

    None if the unit is unknown.
    """
    found = None
    for _ in range(MAX_AHEAD + 1):
        record = engine.record(key)
        if record is None:
            break
        found = Deciding(record, tuple(find_blockers(engine, record, wall)))
        ahead = next((each.other for each in found.blockers if each.reason in BEHIND), None)
        if ahead is None:
            break
        key = ahead
    return found


_GUARDS: Final = reasons_with(Trait.GUARD)
"""Reasons that are about evictions, not about what the unit asks for."""


def find_missing(refusals: Iterable[Refusal]) -> Amounts:
    """Return how much less a unit would have to ask for, by what its limits say."""
    missing: Amounts = {}
    for refusal in refusals:
        if refusal.resource and refusal.requested and refusal.reason not in _GUARDS:
            missing = maximum(missing, {refusal.resource: refusal.missing or 1})
    return missing
