"""Results of reviews, each until its time, up to a number."""

from __future__ import annotations

import threading

from shared_api.authorization.reviews import ReviewResult
from shared_api.process.clock import Clock


class ReviewCache:
    """Keeps results by a digest of what they are about; callable from any thread.

    Args:
        entries: The most results that are kept. When there are more, those whose time is over go,
            and if these are too few, the oldest.
        clock: The time.
    """

    def __init__(self, entries: int, clock: Clock) -> None:
        self._entries = entries
        self._clock = clock
        self._lock = threading.Lock()  # guards _kept
        self._kept: dict[bytes, ReviewResult] = {}  # the oldest first

    def get(self, digest: bytes) -> ReviewResult | None:
        """Return a result that still counts; None if there is none."""
        with self._lock:
            kept = self._kept.get(digest)
        return kept if kept is not None and kept.until > self._clock.monotonic() else None

    def put(self, digest: bytes, result: ReviewResult) -> None:
        """Keep a result until its time."""
        now = self._clock.monotonic()
        with self._lock:
            self._kept.pop(digest, None)
            if len(self._kept) >= self._entries:
                self._make_room(now)
            self._kept[digest] = result

    def _make_room(self, now: float) -> None:
        live = [(key, each) for key, each in self._kept.items() if each.until > now]
        # A tenth at once: to look through all of them for each new one would take too long.
        room = self._entries - max(1, self._entries // 10)
        self._kept = dict(live[max(0, len(live) - room) :])
