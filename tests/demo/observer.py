"""Puts the events of several watches into their real order, and checks them.

Each kind has its own connection, so a pod's end may arrive after the admission for which it freed
quota. The resourceVersion orders all kinds (they are revisions of one store), so events are held
back for a moment and checked in that order. If an event arrives later than that, the observer
checks everything again, so that no event is missed.
"""

from __future__ import annotations

import bisect
from typing import Final

from tests.demo.account_book import AccountBook
from tests.demo.event_feed import Seen

HOLD_SECONDS: Final = 1.0
"""Longer than one watch lags behind another on a responsive machine."""


class Observer:
    """Gets events by `add` in any order; complaints are valid after `settle`. For one thread."""

    def __init__(self, hold_seconds: float = HOLD_SECONDS) -> None:
        self._hold_seconds = hold_seconds
        self._log: list[Seen] = []
        """All events by version; the first `_judged` are in the book."""
        self._judged = 0
        self._is_stale = False
        self.charge = AccountBook()
        self.violations: list[str] = []
        self.late_count = 0

    def add(self, seen: Seen) -> None:
        """Add an event."""
        place = bisect.bisect_right(self._log, seen.version, key=lambda one: one.version)
        self._log.insert(place, seen)
        if place < self._judged:
            self.late_count += 1
            self._is_stale = True
            self._judged += 1

    def settle(self, now: float) -> None:
        """Check events older than the hold, but none with a version after a younger one."""
        if self._is_stale:
            judged, self._judged = self._judged, 0
            self._is_stale = False
            self.charge, self.violations = AccountBook(), []
            self._judge(judged)
        ready = self._judged
        while ready < len(self._log) and self._log[ready].at <= now - self._hold_seconds:
            ready += 1
        self._judge(ready)

    def settle_all(self) -> None:
        """Check all events, when there are no more to come."""
        self.settle(float("inf"))

    @property
    def event_count(self) -> int:
        """The number of events added."""
        return len(self._log)

    def _judge(self, until: int) -> None:
        for seen in self._log[self._judged : until]:
            self.violations += self.charge.apply(seen)
        self._judged = until
