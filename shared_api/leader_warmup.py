"""Decides when a new leader begins: when its caches hold all that its predecessor wrote.

A new leader waits until no write of its predecessor can be in flight (the election's settle time),
asks the server for the version that each cache must reach, and begins when all have reached it. The
order matters: if asked earlier, the server might not have that last write yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog

from shared_api.client.errors import ApiFailure
from shared_api.client.resource_client import WRITE_SECONDS
from shared_api.informer.fresh_read import FreshRead
from shared_api.leader_election import Leadership
from shared_api.process.clock import Clock

POLL_SECONDS: Final = 0.1
"""Interval between checks; the warm-up takes seconds, once per process."""

log = structlog.get_logger("leader_warmup")


class FreshCache(Protocol):
    """A cache that can be asked whether it is up to date."""

    def start_fresh_read(self) -> FreshRead:
        """Ask the server for its current version; return a value that knows when it is cached."""


class LeaderWarmup:
    """The gate before all decisions and writes.

    Args:
        leadership: Knows whether this process leads.
        are_caches_ready: Returns whether every cache is complete, or its kind not served.
        caches: Returns the caches that must have caught up.
        on_open: Called once, on the thread of `step`, when the gate opens.
        on_prepared: Called just before, with the seconds since this process might write.
        clock: The time.
    """

    def __init__(
        self,
        leadership: Leadership,
        *,
        are_caches_ready: Callable[[], bool],
        caches: Callable[[], Sequence[FreshCache]],
        on_open: Callable[[], None],
        on_prepared: Callable[[float], None],
        clock: Clock,
    ) -> None:
        self._leadership = leadership
        self._are_caches_ready = are_caches_ready
        self._caches = caches
        self._on_open = on_open
        self._on_prepared = on_prepared
        self._clock = clock
        self._writable_since: float | None = None
        self._reads: list[FreshRead] | None = None
        self._open = False

    def is_open(self) -> bool:
        """Return whether this process decides; once it does, it does so until it ends."""
        return self._open

    def may_write(self) -> bool:
        """Return whether this process decides, and a write that begins now ends while it leads.

        Code that writes without the dispatcher must check it before each write.
        """
        return self._open and self._leadership.writable_seconds() >= WRITE_SECONDS

    def step(self) -> float | None:
        """Continue the warm-up; return the seconds to rest (None if it is done)."""
        if self._open:
            return None
        may_write = self._leadership.writable_seconds() >= WRITE_SECONDS
        if may_write and self._writable_since is None:
            self._writable_since = self._clock.monotonic()
        if not may_write or not self._are_caches_ready():
            self._reads = None
            return POLL_SECONDS
        if self._reads is None:
            try:
                self._reads = [cache.start_fresh_read() for cache in self._caches()]
            except ApiFailure as failure:
                log.warning("could not ask how far the server is", error=str(failure))
                return max(POLL_SECONDS * 10, failure.retry_after_seconds)
        self._reads = [read for read in self._reads if not read.is_reached()]
        if self._reads:
            return POLL_SECONDS
        now = self._clock.monotonic()
        seconds = now - (now if self._writable_since is None else self._writable_since)
        log.info("caches are up to date, deciding from now on", preparing_seconds=round(seconds, 3))
        self._on_prepared(seconds)
        self._open = True
        self._on_open()
        return None
