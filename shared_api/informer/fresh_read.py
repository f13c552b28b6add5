"""Whether a cache holds all that the server held when it was asked."""

from __future__ import annotations

from typing import Final, Protocol

from shared_api.informer.indexed_store import version_number
from shared_api.process.clock import Clock

FRESH_READ_PATIENCE_SECONDS: Final = 0.5
"""How long a fresh read waits for the watch before it asks for a list: a busy resource gets there
by itself in milliseconds, a quiet one only by its next bookmark, a minute later."""


class _Followed(Protocol):
    """What a fresh read asks of a reflector, whatever it follows."""

    @property
    def resource_version(self) -> str: ...

    def ask_for_list(self) -> None: ...


class FreshRead:
    """A version that the server had reached when asked, and whether a cache has got there.

    A new leader asks once per cache, and begins to decide when all are reached: then its caches
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
        self._void = void  # a version that the cache has, of a history that was replaced
        self._asked = False

    def is_reached(self) -> bool:
        """Return whether handlers have seen everything up to the target; never blocks.

        Call it again until it is: when the watch does not get there by itself, it asks for a list.
        """
        version = self._reflector.resource_version
        if version_number(version) >= self._target and version != self._void:
            return True
        if not self._asked and self._clock.monotonic() >= self._patience_until:
            self._asked = True
            self._reflector.ask_for_list()
        return False
