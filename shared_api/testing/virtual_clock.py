"""A clock that tests advance.

There are two ways to use it:

- *One thread* (most tests): ``VirtualClock()``. ``sleep`` and ``wait`` advance the time themselves,
  because nothing else could. The test calls ``advance`` between steps.
- *Several threads*: ``VirtualClock(blocking=True)``. ``sleep`` and ``wait`` block their thread
  until the test advances the time past their deadline. ``wait_for_sleepers(n)`` returns when n
  threads sleep, so no test needs a real sleep to find out.

The wall time is the monotonic time plus an offset; ``jump_wall_clock`` changes only the offset, as
an NTP step or an administrator does.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from shared_api.process.clock import Waitable

EPOCH = datetime(2026, 11, 1, 10, 0, 0, tzinfo=UTC)
"""The initial wall time, an arbitrary fixed point in time."""

REAL_POLL_SECONDS = 0.002
"""How often a blocked ``wait`` checks its event, which can be set without notifying the clock."""

REAL_PATIENCE_SECONDS = 60.0
"""How long ``wait_for_sleepers`` waits for threads before it fails."""


class VirtualClock:
    """A ``Clock`` under the control of a test."""

    def __init__(self, *, start: float = 1000.0, blocking: bool = False) -> None:
        """Start at ``start`` monotonic seconds; set ``blocking`` for use with threads."""
        self._blocking = blocking
        # Guards changes of the fields below; notified when the time advances and when a sleeper
        # comes or goes.
        self._moved = threading.Condition()
        self._monotonic = start
        self._wall_offset = EPOCH - timedelta(seconds=start)
        self._sleepers = 0  # so far; numbers them
        self._deadlines: dict[int, float] = {}  # of the sleeping threads, by their number

    def monotonic(self) -> float:
        """Return the virtual monotonic time in seconds."""
        return self._monotonic  # without the lock: tests ask millions of times

    def now(self) -> datetime:
        """Return the virtual wall time."""
        with self._moved:
            return self._wall_offset + timedelta(seconds=self._monotonic)

    def sleep(self, seconds: float) -> None:
        """Return after this many virtual seconds: advance the time, or wait for ``advance``."""
        self.wait(threading.Event(), max(seconds, 0.0))

    def wait(self, event: Waitable, seconds: float | None) -> bool:
        """Wait for the event, or for virtual seconds to pass; return whether the event is set.

        Raises:
            RuntimeError: The only thread would wait forever: there is no limit, and no other thread
                to set the event.
        """
        if event.is_set() or (seconds is not None and seconds <= 0):
            return event.is_set()
        if not self._blocking:
            if seconds is None:
                raise RuntimeError("waiting without a limit in a single-threaded VirtualClock")
            self.advance(seconds)
            return event.is_set()
        return self._block(event, float("inf") if seconds is None else self.monotonic() + seconds)

    def advance(self, seconds: float) -> None:
        """Advance the time, and wake every sleeper whose deadline has passed."""
        assert seconds >= 0, f"monotonic time cannot go back by {-seconds} s"
        with self._moved:
            self._monotonic += seconds
            self._moved.notify_all()

    def jump_wall_clock(self, seconds: float) -> None:
        """Move only the wall time, forward or back."""
        with self._moved:
            self._wall_offset += timedelta(seconds=seconds)

    def next_deadline(self) -> float | None:
        """Return the earliest monotonic time that a blocked thread waits for; None without one."""
        with self._moved:
            finite = [when for when in self._deadlines.values() if when != float("inf")]
            return min(finite, default=None)

    def wait_for_sleepers(self, count: int) -> None:
        """Block, in real time, until at least this many threads sleep on this clock.

        Raises:
            TimeoutError: Fewer threads sleep after ``REAL_PATIENCE_SECONDS``.
        """
        with self._moved:
            if not self._moved.wait_for(
                lambda: len(self._deadlines) >= count, REAL_PATIENCE_SECONDS
            ):
                raise TimeoutError(f"{len(self._deadlines)} of {count} threads sleep on the clock")

    def _block(self, event: Waitable, deadline: float) -> bool:
        with self._moved:
            self._sleepers += 1
            sleeper = self._sleepers
            self._deadlines[sleeper] = deadline
            self._moved.notify_all()
        try:
            while not event.wait(REAL_POLL_SECONDS):
                if self.monotonic() >= deadline:
                    break
        finally:
            with self._moved:
                del self._deadlines[sleeper]
                self._moved.notify_all()
        return event.is_set()
