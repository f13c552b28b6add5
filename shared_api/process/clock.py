"""The time, as an argument.

Code that needs the time, or has to wait, gets a ``Clock``. Production uses ``SystemClock``; tests
use ``shared_api.testing.virtual_clock.VirtualClock`` and advance it by hand.

Two times are kept apart: ``monotonic()`` measures durations (leases, deadlines, backoff) and
cannot be moved by an administrator or an NTP step; ``now()`` is for what users read (conditions,
events, ``renewTime``).
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Waitable(Protocol):
    """Something to wait for: a ``threading.Event``, or an ``Alarm`` where a single thread waits."""

    def is_set(self) -> bool:
        """Return whether a wait would return at once."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for at most `timeout` seconds; return whether it is set."""


class Clock(Protocol):
    """Reads the time and waits; safe to use from any thread."""

    def monotonic(self) -> float:
        """Return the seconds since some fixed point in time; never decreases."""

    def now(self) -> datetime:
        """Return the wall time in UTC; it may jump, so it must not be used to measure durations."""

    def sleep(self, seconds: float) -> None:
        """Block for this many seconds; return at once for zero or less."""

    def wait(self, event: Waitable, seconds: float | None) -> bool:
        """Wait until the event is set or the seconds have passed; return whether the event is set.

        None waits without a limit.
        """


class SystemClock:
    """The clock of the machine."""

    monotonic = staticmethod(time.monotonic)
    """The machine's monotonic time. The function itself: every step of every thread calls it."""

    def now(self) -> datetime:
        """Return the machine's wall time."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        if seconds > 0:
            time.sleep(seconds)

    def wait(self, event: Waitable, seconds: float | None) -> bool:
        """Block this thread until the event is set or the time is up."""
        if seconds is None:
            return event.wait()
        # Above TIMEOUT_MAX (292 years) the interpreter raises, and callers may pass infinity.
        return event.wait(min(max(seconds, 0.0), threading.TIMEOUT_MAX))
