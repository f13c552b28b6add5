"""Puts what several watches tell into the one order in which it happened, and has it judged.

Each kind comes on a connection of its own, so a pod's end may arrive after the admission that it
made room for. The resourceVersion is the order of all kinds (they are revisions of one store), so
events are held back for a moment and judged in that order. One that comes later still makes the
observer judge everything anew: late news changes the verdict, never escapes it.
"""

from __future__ import annotations

import bisect
from typing import Final

from tests.demo.account_book import AccountBook
from tests.demo.event_feed import Seen

HOLD_SECONDS: Final = 1.0
"""Longer than a watch is ever behind another on a machine that is not stuck."""


class Observer:
    """Feed it with `add`, in any order; ask after `settle`. One thread."""

    def __init__(self, hold_seconds: float = HOLD_SECONDS) -> None:
        self._hold_seconds = hold_seconds
        self._log: list[Seen] = []
        """All of it, by version; the first `_judged` are in the book."""
        self._judged = 0
        self._is_stale = False
        self.charge = AccountBook()
        self.violations: list[str] = []
        self.late_count = 0

    def add(self, seen: Seen) -> None:
        """Take an event."""
        place = bisect.bisect_right(self._log, seen.version, key=lambda one: one.version)
        self._log.insert(place, seen)
        if place < self._judged:
            self.late_count += 1
            self._is_stale = True
            self._judged += 1

    def settle(self, now: float) -> None:
        """Judge what is older than the hold, but nothing that comes after something younger."""
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
        """Judge everything, when no more is to come."""
        self.settle(float("inf"))

    @property
    def event_count(self) -> int:
        """How many events it has been told."""
        return len(self._log)

    def _judge(self, until: int) -> None:
        for seen in self._log[self._judged : until]:
            self.violations += self.charge.apply(seen)
        self._judged = until
