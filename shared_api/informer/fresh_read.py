"""Determines when a cache has caught up with a state of the server."""

from __future__ import annotations

from typing import Final, Protocol

from shared_api.informer.indexed_store import version_number
from shared_api.process.clock import Clock

FRESH_READ_PATIENCE_SECONDS: Final = 3.0
"""How long a fresh read waits for the watch before it requests a list. A busy resource catches up
within milliseconds, a quiet one with the bookmark that was asked for, after 0.4 to 1.6 s. An API
server before 1.31 may leave it behind for longer; to list 20,000 units takes it seconds."""


class _Followed(Protocol):
    """The part of a reflector that a fresh read uses."""

    @property
    def resource_version(self) -> str: ...

    def request_list(self) -> None: ...


class FreshRead:
    """The version that the server had when it was asked, and whether a cache has reached it.

    A new leader makes one per cache, and starts to decide when all are reached: then its caches
    hold everything that its predecessor has written.
    """

    def __init__(
        self,
        reflector: _Followed,
        target: str,
        clock: Clock,
        patience_until: float,
        *,
        void: str | None = None,
    ) -> None:
        self._reflector = reflector
        self._target = version_number(target)
        self._clock = clock
        self._patience_until = patience_until
        self._void = void  # the cache's version of a replaced history, which never counts
        self._is_list_requested = False

    def is_reached(self) -> bool:
        """Return whether handlers have seen everything up to the target; never blocks.

        Call it until it returns True: if the watch does not reach the target in time, a call
        requests a list.
        """
        version = self._reflector.resource_version
        if version_number(version) >= self._target and version != self._void:
            return True
        if not self._is_list_requested and self._clock.monotonic() >= self._patience_until:
            self._is_list_requested = True
            self._reflector.request_list()
        return False
