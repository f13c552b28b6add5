"""Whether a unit starts by waiting, and after how many ends. Pure.

On a copy of the engine, admitted units end one after the other, in the order in which they are
expected to. What fits then starts, in the order of the queues, and ends in its turn. So it goes on
until the unit starts, or nothing moves. No unit arrives, and nothing else passes but a backoff of
the unit itself.

Only units end that hold what the unit lacks, as long as there are any: the end of another one says
nothing about the wait. That a unit never starts is proved when nothing is left that could end,
pods of no unit included, and what refuses it is a limit or the order of its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_insight.insight.explain import Verdict, are_final
from queue_insight.insight.question import Deciding, Question, find_deciding
from queue_insight.insight.trials import Edit, SpentError, decide_until_rest, end, replacement
from queue_scheduler.cache.known_units import occupying_units
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Dequeue, Moment, Reason, Refusal, Trait, reasons_with
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.queueing.queue_questions import class_heads
from queue_scheduler.quota.resource_quota_spec import PODS
from shared_api.queue_unit_phases import Phase
from shared_api.well_known_labels import JOB_COUNTS

MAX_ENDS: Final = 1_000
"""Ends that are followed: 0.12 s where 10,000 units of some kinds wait, a tenth of what the trials
of an answer may take."""
MAX_STEPS: Final = 30_000
"""Steps in one answer: a second at most. An end and a decision are a step each."""
CLASSES_PER_STEP: Final = 15
"""A step takes some 30 µs, and 2 µs more for each class of waiting units that may be woken: with
each 15 classes it counts as one more."""

NEVER_ENDS: Final = 2**62
"""The end of a unit that declares none."""


class Course(Enum):
    """How waiting ends."""

    STARTS = auto()
    """The unit starts."""
    NEVER = auto()
    """It is proved that it does not start, whatever ends."""
    HELD = auto()
    """It is on hold, which no end of a unit changes."""
    AFTER_OTHER_PODS = auto()
    """It starts only when pods end that are of no admitted unit."""
    TOO_FAR = auto()
    """It has not started after as many ends as are followed."""
    UNKNOWN = auto()
    """It has not started; what refuses it does not follow from what is admitted."""


class Lookahead(msgspec.Struct, frozen=True, kw_only=True):
    """What waiting leads to.

    Attributes:
        course: How it ends.
        admitted: Units that are admitted now and end before.
        started: Units that start before, and end before.
        also: The units that start before, `namespace/name`, in that order.
    """

    course: Course
    admitted: int = 0
    started: int = 0
    also: tuple[str, ...] = ()

    @property
    def ends(self) -> int:
        """How many units end before."""
        return self.admitted + self.started


_OF_ONE_QUOTA: Final = reasons_with(Trait.FIXED_LIMIT) | {
    Reason.NON_PREEMPTIBLE_OVER_MIN,
    Reason.OVER_MAX_JOBS,
}
"""Limits of a quota on what is charged to it and below it."""
_COUNTED: Final = JOB_COUNTS | {PODS}
"""What every unit holds, though it is in no request."""
_NOT_BY_ENDS: Final = frozenset(
    {
        *(Reason.WAITING, Reason.WRITE_FAILED, Reason.REFUSED_BY_PLUGIN),
        *(Reason.ROOM_FOR_PREEMPTOR, Reason.WAITING_FOR_NODES_OF_OTHERS, Reason.RESERVED_FOR),
    }
)
"""Reasons that may pass without an end: then nothing is proved."""


def look_ahead(question: Question) -> Lookahead:
    """Return what waiting leads to."""
    if question.explanation.never_starts:
        return Lookahead(course=Course.NEVER)
    first: tuple[Edit, ...] = ()
    if Reason.IN_BACKOFF in question.reasons:
        record = question.record
        status = replace(record.unit.status, phase=Phase.ENQUEUED.value)
        first = (replacement(replace(record.unit, status=status), record),)
    elif question.explanation.verdict is Verdict.HELD:
        return Lookahead(course=Course.HELD)
    return _Run(question, first).follow()


def expected_order(engine: Engine, wall: int) -> Callable[[CachedUnit], tuple[int, str, str]]:
    """Return the order in which admitted units are expected to end.

    First those that declare an end, then those that were admitted first.

    Args:
        engine: The engine.
        wall: The time, in seconds since the epoch.
    """
    ends = {uid: each.at(wall) for uid, each in engine.usage.ends}

    def place(record: CachedUnit) -> tuple[int, str, str]:
        since = record.unit.status.last_allocate_time or ""
        return (ends.get(record.uid, NEVER_ENDS), since, record.key)

    return place


def competes_with(engine: Engine, info: QueueUnitInfo) -> Callable[[CachedUnit], bool]:
    """Return whether a unit is of a unit's quota or queue, or shares a limit with its quota."""
    domains = engine.plugins.domains(info.quota)
    shares: dict[str, bool] = {info.quota: True}

    def competes(record: CachedUnit) -> bool:
        other = record.info
        if other is None:
            return False
        if other.quota not in shares:
            shares[other.quota] = not domains.isdisjoint(engine.plugins.domains(other.quota))
        return other.queue == info.queue or shares[other.quota]

    return competes


class _Run:
    """A copy of the engine in which units end."""

    def __init__(self, question: Question, first: tuple[Edit, ...]) -> None:
        self._key, self._first = question.key, first
        self._engine = question.trials.copy()
        self._moment = Moment(0.0, question.trials.wall)
        classes = sum(1 for queue in self._engine.queues for _ in class_heads(queue))
        self._cost = 1 + classes // CLASSES_PER_STEP
        self._left = MAX_STEPS
        self._is_late = question.trials.is_late
        self._admitted = 0
        # Units that start in this copy, and whether they have ended.
        self._started: dict[str, bool] = {}
        place = expected_order(self._engine, int(question.trials.wall.timestamp()))
        running = sorted(occupying_units(self._engine.units), key=place)
        # In the order in which they end.
        self._running = dict.fromkeys(each.key for each in running)
        self._without_pods = False

    def follow(self) -> Lookahead:
        """End units until the unit starts, or nothing moves."""
        try:
            starts = self._apply(self._first)
            while not starts:
                key = self._find_next()
                if key is None and self._without_pods:
                    return self._result(self._why_not())
                if key is not None and self._ended == MAX_ENDS:
                    return self._result(Course.TOO_FAR)
                starts = self._end_pods() if key is None else self._end(key)
        except SpentError:
            return self._result(Course.TOO_FAR)
        return self._result(Course.AFTER_OTHER_PODS if self._without_pods else Course.STARTS)

    @property
    def _ended(self) -> int:
        return self._admitted + sum(self._started.values())

    def _result(self, course: Course) -> Lookahead:
        return Lookahead(
            course=course,
            admitted=self._admitted,
            started=sum(self._started.values()),
            also=tuple(self._started),
        )

    def _deciding(self) -> Deciding | None:
        return find_deciding(self._engine, self._key, self._moment.wall)

    def _why_not(self) -> Course:
        """Return what is known of a unit that does not start when all others have ended."""
        found = self._deciding()
        blockers = () if found is None else found.blockers
        is_open = any(map(_may_pass_without_an_end, blockers))
        is_asked = not self._engine.plugins.without_fork
        return Course.NEVER if blockers and is_asked and not is_open else Course.UNKNOWN

    def _find_next(self) -> str | None:
        """Return the unit that ends next; None: none is left that matters."""
        found = self._deciding()
        info = None if found is None else found.record.info
        if found is None or info is None or are_final(found.blockers):
            return None
        engine = self._engine
        for matters in (
            _holds_what_is_short(engine, found.blockers, all),
            _holds_what_is_short(engine, found.blockers, any),
            competes_with(engine, info),
            lambda _: True,
        ):
            for key in self._running:
                record = engine.record(key)
                if record is not None and matters(record):
                    return key
        return None

    # --- what follows -------------------------------------------------------------------------

    def _end(self, key: str) -> bool:
        """End a unit; return whether the unit that is asked about starts."""
        self._spend()
        del self._running[key]
        if key in self._started:
            self._started[key] = True
        else:
            self._admitted += 1
        return self._apply((end((key,)),))

    def _end_pods(self) -> bool:
        """End all pods, those of no unit included; return whether the unit starts."""
        self._without_pods = True
        wakes = [self._engine.forget_pod(key) for key in list(self._engine.living_pods)]
        return self._decide(name for names in wakes for name in names)

    def _apply(self, edits: Iterable[Edit]) -> bool:
        return self._decide([name for edit in edits for name in edit(self._engine)])

    def _decide(self, queues: Iterable[str]) -> bool:
        for decision in decide_until_rest(self._engine, self._moment, queues, self._spend):
            if isinstance(decision, Dequeue):
                if decision.unit == self._key:
                    return True
                self._started[decision.unit] = False
                self._running[decision.unit] = None
            else:
                for victim in decision.victims:
                    self._running.pop(victim.unit, None)
        return False

    def _spend(self) -> None:
        if self._left < self._cost or self._is_late():
            raise SpentError
        self._left -= self._cost


def _may_pass_without_an_end(blocker: Refusal) -> bool:
    resets = blocker.budget is not None and blocker.budget.resets_at is not None
    return resets or blocker.reason in _NOT_BY_ENDS


def _holds_what_is_short(
    engine: Engine, blockers: Iterable[Refusal], enough: Callable[[Iterable[bool]], bool]
) -> Callable[[CachedUnit], bool]:
    """Return whether a unit holds what is short under limits of single quotas.

    Args:
        engine: The engine.
        blockers: What refuses a unit.
        enough: `all` for units that hold some under each limit, `any` for those under one of them.
    """
    short = {(each.quota, each.resource) for each in blockers if each.kind in _OF_ONE_QUOTA}
    chains: dict[str, tuple[str, ...]] = {}

    def holds(record: CachedUnit) -> bool:
        charge = engine.usage.charge_of(record.uid)
        if charge is None or not short:
            return False
        if charge.quota not in chains:
            chains[charge.quota] = engine.plugins.chain(charge.quota)
        chain = chains[charge.quota]
        return enough(
            quota in chain and (key in _COUNTED or bool(charge.amounts.get(key)))
            for quota, key in short
        )

    return holds
