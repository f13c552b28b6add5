"""The engines that questions are asked of: the one that follows, and those of earlier times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.insight_program.followed_engine import Followed, FollowedEngine
from queue_insight.record.log_query import LogPage, LogQuery
from queue_scheduler.cycles.engine_reader import EngineReader
from queue_scheduler.engine.engine import Engine
from shared_api.process.clock import Clock

NOT_RECORDED: Final = "nothing is recorded: the insight program has no --record-dir"


class Source(NamedTuple):
    """An engine to ask.

    Attributes:
        shared: The engine; its `fork` may be changed.
        state_at: The time that its answers are about.
        is_leader: Whether the replica decided.
        now: Returns the time, for how long units have run and the like.
    """

    shared: EngineReader
    state_at: datetime
    is_leader: bool
    now: Callable[[], datetime]

    def fork(self) -> Engine:
        """Return a copy of the engine."""
        return self.shared.fork()


class Past(Protocol):
    """Restores engines of earlier times."""

    def at(self, moment: datetime) -> Source:
        """Return the engine as it was.

        Raises:
            NoStateError: The record does not reach that far.
        """

    def log(self, query: LogQuery) -> LogPage:
        """Return a page of what was decided.

        Raises:
            NoStateError: The record cannot be read.
        """


class WithoutPast:
    """A `Past` without a record: each question raises NoStateError."""

    def at(self, moment: datetime) -> Source:
        """Raise NoStateError."""
        raise NoStateError(NOT_RECORDED)

    def log(self, query: LogQuery) -> LogPage:
        """Raise NoStateError."""
        raise NoStateError(NOT_RECORDED)


class Sources:
    """Finds the engine for a question.

    Attributes:
        clock: The time.

    Args:
        engine: The engine that follows the scheduler's.
        past: The engines of earlier times.
        clock: The time.
    """

    def __init__(self, engine: FollowedEngine, past: Past, clock: Clock) -> None:
        self._engine = engine
        self._past = past
        self.clock = clock

    def current(self) -> Source:
        """Return the engine that follows the scheduler's.

        Raises:
            NoStateError: It has nothing yet.
        """
        followed = self.followed()
        return Source(self._engine, followed.state_at, followed.is_leader, self.clock.now)

    def at(self, moment: datetime | None) -> Source:
        """Return the engine as it was at a time; None: the current one.

        Raises:
            NoStateError: There is none.
        """
        return self.current() if moment is None else self._past.at(moment)

    def log(self, query: LogQuery) -> LogPage:
        """Return a page of what was decided.

        Raises:
            NoStateError: Nothing is recorded, or the record cannot be read.
        """
        return self._past.log(query)

    def followed(self) -> Followed:
        """Return how far the current engine is.

        Raises:
            NoStateError: It has nothing yet.
        """
        followed = self._engine.followed
        if followed is None:
            msg = "the insight program has no state yet: the scheduler fills its caches; ask again"
            raise NoStateError(msg)
        return followed
