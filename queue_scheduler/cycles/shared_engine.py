"""The engine behind its one lock, and the wake-up of the workers.

The lock is held for one call of the engine: microseconds, some milliseconds for a fork. Nothing
is called back, logged or sent under it. Names of queues to wake come out of the call and are
passed on after the lock is released.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeVar

from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.decision import BEGINNING, Decision, Growth, Refusal
from queue_scheduler.engine.audit import EngineFact
from queue_scheduler.engine.engine import Engine

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")

Fact = Callable[Concatenate[Engine, P], tuple[str, ...]]
"""A method of the engine that takes a change and returns the queues to wake."""


class SharedEngine:
    """Lets many threads use one engine.

    Args:
        engine: Must not be used directly afterwards.
        wake: Called, without the lock, with the names of queues whose workers should ask again.
        log: Receives every call that changes the engine, in order. None: calls are not recorded.
        now: The wall time, which the engine is told before the first call of each second while
            something is counted over time; None: it is not told.
    """

    def __init__(
        self,
        engine: Engine,
        wake: Callable[[Iterable[str]], None],
        log: CallLog | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._engine = engine
        self._now = now
        self._told = 0
        self._wake = wake
        self._log = log
        self._changes = 0
        # Guards the engine and all that hangs on it, the log, and the count.
        self._lock = threading.Lock()

    @property
    def changes(self) -> int:
        """How many calls may have changed the engine; equal counts mean an unchanged engine."""
        with self._lock:
            return self._changes

    def apply(self, fact: Fact[P], *args: P.args, **kwargs: P.kwargs) -> None:
        """Apply a change to the engine, and wake the queues that it returns.

        Example: `apply(Engine.on_queue_unit, unit)`.
        """
        with self._lock:
            late = self._tell_time()
            self._changes += 1
            if self._log is not None:
                self._log.append(fact, args, kwargs)
            woken = fact(self._engine, *args, **kwargs)
        if woken or late:
            self._wake((*late, *woken))

    def apply_derived(
        self,
        find: Callable[Concatenate[Engine, P], Iterable[EngineFact]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Compute changes from the engine's state, and apply them under the same hold of the lock.

        Args:
            find: Returns the changes; it is called under the lock and must change nothing itself.
            args: Its positional arguments after the engine.
            kwargs: Its keyword arguments.
        """
        woken: dict[str, None] = {}
        with self._lock:
            found = tuple(find(self._engine, *args, **kwargs))
            if found:
                woken |= dict.fromkeys(self._tell_time())
            for fact, about in found:
                self._changes += 1
                if self._log is not None:
                    self._log.append(fact, about, {})
                woken |= dict.fromkeys(fact(self._engine, *about))
        if woken:
            self._wake(woken)

    def decide_next(self, queue: str, now: float, wall: datetime = BEGINNING) -> Decision:
        """Return the next decision of a queue; wakes the queues that may continue because of it."""
        with self._lock:
            self._changes += 1
            if self._log is not None:
                self._log.append(Engine.decide_next, (queue, now, wall), {})
            if self._now is not None:
                self._told = max(self._told, int(wall.timestamp()))
            decision = self._engine.decide_next(queue, now, wall)
        if decision.wake:
            self._wake(decision.wake)
        return decision

    def grow(self, key: str) -> Growth | Refusal | None:
        """Grant what a running unit has grown by, if it fits; wakes the queues affected.

        Returns:
            The growth, why it is refused, or None if the unit has not grown.
        """
        with self._lock:
            late = self._tell_time()
            self._changes += 1
            if self._log is not None:
                self._log.append(Engine.grow, (key,), {})
            answer = self._engine.grow(key)
        if late:
            self._wake(late)
        if isinstance(answer, Growth) and answer.wake:
            self._wake(answer.wake)
        return answer

    def ask(
        self, question: Callable[Concatenate[Engine, P], AnswerT], *args: P.args, **kwargs: P.kwargs
    ) -> AnswerT:
        """Return the result of a short read of the engine, made under the lock.

        It is not recorded, so it may change nothing but take what the engine keeps for users.
        """
        with self._lock:
            return question(self._engine, *args, **kwargs)

    def copy_records(self) -> tuple[CachedUnit, ...]:
        """Return all units. Only pointers are copied under the lock: records are never changed."""
        return self.ask(lambda engine: tuple(engine.units))

    def fork(self) -> Engine:
        """Return a copy of the engine, for long questions without the lock."""
        with self._lock:
            return self._copy()

    def checkpoint(self, *, starts_log: bool = False) -> tuple[int, Engine]:
        """Return a copy of the engine, and the number of the last call before it.

        Args:
            starts_log: Whether the log keeps the calls from here on: nothing is lost between the
                copy and the first call that `CallLog.take` returns.
        """
        with self._lock:
            if self._log is None:
                return 0, self._copy()
            if starts_log:
                self._log.start()
            return self._log.last, self._copy()

    def _tell_time(self) -> tuple[str, ...]:
        """Tell the engine a new second; return the queues to wake. Called with the lock held.

        A call of `decide_next` has the time itself. After the clock was set back, nothing is told
        until it is later than before.
        """
        if self._now is None or not self._engine.counts_time:
            return ()
        wall = self._now()
        second = int(wall.timestamp())
        if second <= self._told:
            return ()
        self._told = second
        self._changes += 1
        if self._log is not None:
            self._log.append(Engine.on_time, (wall,), {})
        return self._engine.on_time(wall)

    def _copy(self) -> Engine:
        """Return a copy of the engine; called with the lock held.

        The new dicts would set off the garbage collector several times, and with 100,000 units one
        whole collection takes longer than the copy. It comes when the lock is released.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._engine.fork()
        finally:
            if collects:
                gc.enable()
