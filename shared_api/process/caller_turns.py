"""Turns of threads: each waits for its caller's share of a bounded server, or is refused.

The rules are in `shared_api.caller_shares`; here are a clock, a lock, and threads that wait.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from shared_api.caller_shares import CallerShares, Outcome, ShareLimits
from shared_api.process.alarm import Alarm
from shared_api.process.clock import Clock
from shared_api.question_errors import Code, QuestionError


def turn_refused(retry_after: int) -> QuestionError:
    """Return the refusal of a caller who has had its share.

    Args:
        retry_after: Whole seconds after which to ask again, at least 1.
    """
    detail = f"too many such questions at once; ask again in {retry_after} s"
    return QuestionError(Code.RESOURCE_EXHAUSTED, detail, retry_after)


class Event(Protocol):
    """The signal that a waiting thread or task waits for."""

    def set(self) -> object:
        """End the wait."""


EventT = TypeVar("EventT", bound=Event)


class Turn(Generic[EventT]):
    """A request that waits for its turn.

    Attributes:
        decided: Set once it has begun, or is refused.
        retry_after: If it is refused, whole seconds after which to ask again; else 0.

    Args:
        decided: Not set yet.
    """

    __slots__ = ("decided", "retry_after")

    def __init__(self, decided: EventT) -> None:
        self.decided = decided
        self.retry_after = 0


def announce(outcome: Outcome[Turn[EventT]]) -> None:
    """Tell the requests whose turn was decided."""
    for turn in outcome.begun:
        turn.decided.set()
    for refusal in outcome.refused:
        refusal.ticket.retry_after = refusal.retry_after
        refusal.ticket.decided.set()


class CallerTurns:
    """Shares places and seconds among the callers of many threads; thread-safe.

    Args:
        limits: How much there is to share.
        clock: The time.
    """

    def __init__(self, limits: ShareLimits, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards _shares
        self._shares: CallerShares[Turn[Alarm]] = CallerShares(limits, clock.monotonic())

    @contextmanager
    def take(self, caller: str) -> Iterator[None]:
        """Run the block in the caller's share, and charge its time to it; may wait before.

        Args:
            caller: Who asks (`shared_api.caller_shares`, `user_key` and `address_key`).

        Raises:
            QuestionError: RESOURCE_EXHAUSTED: the caller has had its share for now.
        """
        turn = self._begin(caller)
        try:
            yield
        finally:
            with self._lock:
                announce(self._shares.end(turn, self._clock.monotonic()))

    def _begin(self, caller: str) -> Turn[Alarm]:
        turn = Turn(Alarm())
        with self._lock:
            announce(self._shares.ask(caller, turn, self._clock.monotonic()))
        while not turn.decided.is_set():
            with self._lock:
                seconds = self._shares.seconds_to_tick(self._clock.monotonic())
            self._clock.wait(turn.decided, seconds)
            with self._lock:
                announce(self._shares.tick(self._clock.monotonic()))
        if turn.retry_after:
            raise turn_refused(turn.retry_after)
        return turn
