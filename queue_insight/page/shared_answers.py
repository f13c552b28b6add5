"""What is the same for many visitors, computed once for each state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from shared_api.process.clock import Clock

T = TypeVar("T")


class NumberedState(Protocol):
    """What answers are about."""

    @property
    def number(self) -> int:
        """The number of the engine's state."""
        ...

    @property
    def leader(self) -> bool:
        """Whether the replica decides."""
        ...


class SharedAnswers(Generic[T]):
    """Answers about the newest known state; callable from any thread.

    An answer may be of a newer state than it is asked for, since it is computed from what is known
    then; it is never of an older one.

    Args:
        clock: The time.
        kept_seconds: For how long they are used, since some of what they say (ages, forecasts)
            changes although the state does not.
        most: How much is kept.
        size_of: Returns how much of that an answer takes.
    """

    def __init__(
        self,
        clock: Clock,
        kept_seconds: float,
        most: int,
        size_of: Callable[[T], int] = lambda _: 1,
    ) -> None:
        self._clock = clock
        self._seconds = kept_seconds
        self._most = most
        self._size_of = size_of
        # Guards what follows. Held while an answer is computed: whoever asks meanwhile mostly asks
        # for the same.
        self._lock = threading.Lock()
        self._kept: dict[Hashable, T] = {}
        self._size = 0
        self._of: tuple[int, bool] | None = None
        self._until = 0.0

    def get(self, state: NumberedState, key: Hashable, build: Callable[[], T]) -> T:
        """Return an answer, computed now or just before."""
        of = (state.number, state.leader)
        with self._lock:
            now = self._clock.monotonic()
            if of != self._of or now >= self._until:
                self._forget()
                self._of, self._until = of, now + self._seconds
            if key in self._kept:
                return self._kept[key]
            answer = build()
            size = self._size_of(answer)
            if self._size + size > self._most:
                self._forget()
            self._kept[key] = answer
            self._size += size
            return answer

    def _forget(self) -> None:
        self._kept.clear()
        self._size = 0
