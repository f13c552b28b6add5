"""The changes that were found last, so that a view shows them without trying them again."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Final

from queue_insight.debug_api.explain_views import ChangeView, ExplainView
from shared_api.debug_api.views import View
from shared_api.process.clock import Clock

KEPT_SECONDS: Final = 300.0
"""How long they are shown: the cluster goes on."""
MAX_KEPT: Final = 100
"""Units; each takes some 10 kB, or a hundred if a change starts many others."""


class KnownChanges(View):
    """The smallest changes that would have started a unit at `found_at`.

    `complete`: all kinds of changes were looked for.
    """

    found_at: datetime
    changes: list[ChangeView]
    complete: bool


class KeptChanges:
    """Keeps them for all visitors, before anything is hidden; callable from any thread.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards _kept
        self._kept: dict[str, tuple[float, KnownChanges]] = {}  # by uid, the oldest first

    def put(self, uid: str, found: ExplainView) -> None:
        """Keep what was found for a unit."""
        known = KnownChanges(
            found_at=self._clock.now(),
            changes=found.changes or [],
            complete=found.changes_complete is not False,
        )
        until = self._clock.monotonic() + KEPT_SECONDS
        with self._lock:
            self._kept.pop(uid, None)
            while len(self._kept) >= MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[uid] = (until, known)

    def find(self, uid: str) -> KnownChanges | None:
        """Return what was found for a unit; None: nothing, or too long ago."""
        with self._lock:
            until, known = self._kept.get(uid, (0.0, None))
        return known if until > self._clock.monotonic() else None
