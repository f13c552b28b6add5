"""The time, as an argument.

Code that needs the time, or has to wait, gets a ``Clock``. Production has ``SystemClock``; tests
have ``shared_api.testing.virtual_clock.VirtualClock`` and turn it by hand.

Two times are told apart everywhere: ``monotonic()`` for "how long" (leases, deadlines, backoff),
which no administrator and no NTP step can move, and ``now()`` for what users read (conditions,
events, ``renewTime``).
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Waitable(Protocol):
    """What can be waited for: a ``threading.Event``, or an ``Alarm`` where one thread waits."""

    def is_set(self) -> bool:
        """Return whether a wait would return at once."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most so many seconds; return whether it is."""
        ...


class Clock(Protocol):
    """What the time is, and how to wait for it; safe to use from any thread."""

    def monotonic(self) -> float:
        """Return seconds since some fixed moment; never goes back."""
        ...

    def now(self) -> datetime:
        """Return the wall time in UTC; may jump, so nothing may be measured with it."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return when this many seconds have passed; at once for zero and less."""
        ...

    def wait(self, event: Waitable, seconds: float | None) -> bool:
        """Wait until the event is set or the seconds have passed (None: no limit).

        Returns whether the event is set.
        """
        ...


class SystemClock:
    """The machine's own time."""

    monotonic = staticmethod(time.monotonic)
    """The machine's monotonic time; itself, since every step of every thread asks for it."""

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
        # Above TIMEOUT_MAX (292 years) the interpreter raises; a caller's "infinite" must not.
        return event.wait(min(max(seconds, 0.0), threading.TIMEOUT_MAX))
