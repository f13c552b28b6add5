"""What is to happen when, in virtual time: one heap for all events. Pure.

Time stands still while an event is played, and goes on to the next one. The events of one object
can be made void together, without looking for them: they carry the number of the object's plan.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from heapq import heappop, heappush
from math import inf

from queue_scheduler.decision import Moment


class Agenda:
    """The time, and what is to happen.

    Attributes:
        now: The time, in seconds of the monotonic clock.
        wall: The same as wall time.
    """

    def __init__(self, start: Moment) -> None:
        self.now, self.wall = start.now, start.wall
        self._start = start
        # Time, a number that keeps the order of planning where times are equal, what to do.
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._plans: dict[str, int] = {}

    @property
    def next_at(self) -> float:
        """When the next event is due, in seconds of the monotonic clock; `inf`: there is none."""
        return self._due[0][0] if self._due else inf

    def at(self, wall: datetime) -> float:
        """Return a wall time as seconds of the monotonic clock."""
        return self._start.now + (wall - self._start.wall).total_seconds()

    def call_at(self, now: float, act: Callable[[], None]) -> None:
        """Schedule an event at a time; at once if that has passed."""
        self._count += 1
        heappush(self._due, (max(now, self.now), self._count, act))

    def plan(self, key: str, after_seconds: float | None, act: Callable[[str], None]) -> None:
        """Schedule an event of an object, unless its plans are void by then.

        Args:
            key: The object, with which `act` is called.
            after_seconds: When; None or `inf`: never.
            act: What is done.
        """
        if after_seconds is None:
            return
        number = self._plans.setdefault(key, self._count)

        def act_if_valid() -> None:
            if self._plans.get(key) == number:
                act(key)

        self.call_at(self.now + after_seconds, act_if_valid)

    def void(self, key: str) -> None:
        """Make everything void that is planned for an object."""
        self._plans.pop(key, None)

    def advance(self, now: float) -> None:
        """Advance time to then; it never goes back."""
        if now > self.now:
            self.now = now
            self.wall = self._start.wall + timedelta(seconds=now - self._start.now)

    def play_next(self) -> None:
        """Advance time to the next event, and play all that are due then, in order."""
        self.advance(self.next_at)
        due = self._due
        while due and due[0][0] <= self.now:
            heappop(due)[2]()
