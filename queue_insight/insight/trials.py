"""Changes tried on copies of the engine: does a unit start? Pure.

"Starts" means: the change is told, every queue decides until it rests at this moment, and the unit
is decided. Units ahead of it take their share first. Time stands still: no job ends, no pause ends.

Each trial has a fork of its own, made from one engine that rests. A fork takes some milliseconds
at 10,000 pending units; to take a change back would need the reverse of each decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Dequeue, Moment, Preempt, Rest
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit, QueueUnitSpec
from shared_api.queue_unit_phases import Phase

Edit = Callable[[Engine], tuple[str, ...]]
"""Applies one changed object to an engine; returns the queues to wake."""

MAX_TRIALS: Final = 100
"""Trials for one answer: about 0.3 s at 10,000 pending units."""
MAX_DECISIONS: Final = 20_000
"""Decisions in all trials of one answer: about a second. A change that starts thousands of units
before the one that was asked about uses them up."""


class SpentError(Exception):
    """An answer has used up its trials, its decisions or its time."""


def never_late() -> bool:
    """Return that an answer may go on: something else than the time bounds it."""
    return False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from a change, at this moment.

    Attributes:
        engine: The fork, at rest, or as it was when the unit started. For reading, and for
            questions that may change it: nothing else uses it.
        starts: Whether the unit starts.
        also: The units that start before it, `namespace/name`, in that order; if it does not start,
            all that start.
        victims: The units that it evicts to start.
    """

    engine: Engine
    starts: bool
    also: tuple[str, ...]
    victims: tuple[str, ...] = ()


class Trials:
    """Tries changes for one unit.

    Attributes:
        rested: What happens without any change.
        is_late: Whether the answer must end now.
    """

    def __init__(
        self,
        engine: Engine,
        key: str,
        wall: datetime,
        is_late: Callable[[], bool] = never_late,
    ) -> None:
        """Bring an engine to rest.

        Args:
            engine: A fork; it belongs to the trials from now on.
            key: The unit, `namespace/name`.
            wall: The time of all trials.
            is_late: Returns whether the answer must end now.

        Raises:
            SpentError: The engine does not come to rest within the decisions of an answer.
        """
        self._engine = engine
        self._key = key
        self._moment = Moment(0.0, wall)
        self.is_late = is_late
        self._trials, self._decisions, self._reserved = MAX_TRIALS, MAX_DECISIONS, 0
        end_pauses(engine)
        self.rested = self._run(engine, (queue.name for queue in engine.queues))

    @property
    def wall(self) -> datetime:
        """The time of all trials."""
        return self._moment.wall

    @property
    def left(self) -> int:
        """How many trials are left."""
        return self._trials

    def copy(self) -> Engine:
        """Return a fork of the engine at rest, for questions that may change it."""
        return self._engine.fork()

    @contextmanager
    def halved(self) -> Iterator[None]:
        """Limit the block to half of the remaining decisions; after them it raises SpentError."""
        self._reserved = self._decisions // 2
        try:
            yield
        finally:
            self._reserved = 0

    def attempt(self, *edits: Edit) -> Outcome:
        """Return what follows from these changes together.

        Raises:
            SpentError: There are no trials or decisions left.
        """
        if not self._trials:
            raise SpentError
        self._trials -= 1
        return self._apply(self._engine.fork(), edits)

    def proceed(self, outcome: Outcome, *edits: Edit) -> Outcome:
        """Return what follows from more changes where the unit has not started.

        It costs no fork, and may differ from both changes at once: units decide in between. So it
        is for searching, and what it finds is to be tried again.

        Raises:
            SpentError: There are no decisions left.
        """
        return self._apply(outcome.engine, edits)

    def _apply(self, engine: Engine, edits: tuple[Edit, ...]) -> Outcome:
        return self._run(engine, [name for edit in edits for name in edit(engine)])

    def _run(self, engine: Engine, queues: Iterable[str]) -> Outcome:
        """Let queues decide until all rest, or the unit starts."""
        started, victims = list[str](), tuple[str, ...]()
        decided = decide_until_rest(
            engine, self._moment, queues, self._spend, lambda round_: round_.unit == self._key
        )
        for decision in decided:
            match decision:
                case Dequeue(unit=self._key):
                    return Outcome(engine=engine, starts=True, also=tuple(started), victims=victims)
                case Dequeue(unit=unit):
                    started.append(unit)
                case Preempt(unit=self._key):
                    victims = tuple(victim.unit for victim in decision.victims)
                case _:
                    pass
        return Outcome(engine=engine, starts=False, also=tuple(started))

    def _spend(self) -> None:
        if self._decisions <= self._reserved or self.is_late():
            raise SpentError
        self._decisions -= 1


def end_pauses(engine: Engine) -> None:
    """Let no queue of a fork rest because of a failed write: seconds are no answer to a user."""
    turns = engine.turns
    for queue in engine.queues:
        if turns.backs_off_until(queue.name) is not None:
            turns.end_back_off(queue, engine.plugins.domains)


def decide_until_rest(
    engine: Engine,
    moment: Moment,
    queues: Iterable[str],
    spend: Callable[[], None],
    leaves: Callable[[Preempt], bool] = lambda _: True,
) -> Iterator[Dequeue | Preempt]:
    """Let queues decide until all rest at this moment; yield what they decide.

    Args:
        engine: A fork.
        moment: The time, which stands still.
        queues: The queues to ask first.
        spend: Called before each decision; what it raises ends the questions.
        leaves: Returns whether the victims of an eviction leave at once.
    """
    ready = dict.fromkeys(queues)
    while ready:
        spend()
        name = next(iter(ready))
        decision = engine.decide_next(name, moment.now, moment.wall)
        if isinstance(decision, Rest):
            del ready[name]
        elif isinstance(decision, Preempt):
            ready |= dict.fromkeys(engine.on_preempted(decision))
            if leaves(decision):
                victims = (victim.unit for victim in decision.victims)
                ready |= dict.fromkeys(let_leave(engine, victims))
        ready |= dict.fromkeys(decision.wake)
        if isinstance(decision, Dequeue | Preempt):
            yield decision


# --- edits ----------------------------------------------------------------------------------------


def edit_spec(record: CachedUnit, spec: QueueUnitSpec) -> Edit:
    """Return the edit that replaces a unit's spec."""
    return replacement(replace(record.unit, spec=spec), record)


def replacement(unit: QueueUnit, record: CachedUnit) -> Edit:
    """Return the edit that replaces a unit by this version of it."""
    version = str(record.version + 1)
    newer = replace(unit, metadata=replace(unit.metadata, resource_version=version))
    return lambda engine: engine.on_queue_unit(newer)


def end(keys: Iterable[str]) -> Edit:
    """Return the edit that ends admitted units with all their pods."""
    ended = tuple(keys)

    def edit(engine: Engine) -> tuple[str, ...]:
        return tuple(name for key in ended for name in _leave(engine, key, Phase.SUCCEED))

    return edit


def let_leave(engine: Engine, keys: Iterable[str]) -> Iterator[str]:
    """Release the quota of units and their pods; they wait to be retried. Yield queues to wake."""
    for key in keys:
        yield from _leave(engine, key, Phase.TIMEOUT_BACKOFF)


def let_requeue(engine: Engine, keys: Iterable[str]) -> Iterator[str]:
    """Release the quota of units as `let_leave` does; they are pending in their place at once."""
    for key in keys:
        yield from _leave(engine, key, Phase.ENQUEUED)


def _leave(engine: Engine, key: str, phase: Phase) -> Iterator[str]:
    """Release the quota of a unit and its pods; yield the queues to wake."""
    record = engine.record(key)
    if record is None:
        return
    for pod in engine.pods.pods_of(record.unit):
        yield from engine.forget_pod(pod)
    status = replace(record.unit.status, phase=phase.value, admissions=(), conditions=())
    yield from replacement(replace(record.unit, status=status), record)(engine)
