"""Runs an informer for a kind whose CRD may be added or removed, and whose version may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic

import structlog

from shared_api.client.errors import ApiFailure
from shared_api.client.resource_client import ResourceType
from shared_api.informer.indexed_store import T
from shared_api.informer.shared_informer import SharedInformer
from shared_api.process.clock import Clock

POLL_SECONDS: Final = 5.0
"""Interval between checks whether the kind is served; a change must be noticed within 10 s."""

PENDING_LOOKS: Final = 2
"""Consecutive checks that must find the kind missing before its informer stops: API servers
restart."""

log = structlog.get_logger("kind_watch")


class KindWatch(Generic[T]):
    """Watches a kind that the server may not have: its informer runs while the kind is served.

    Args:
        name: The kind, for logs and probes.
        find: Returns the version of the kind to watch, after asking the API server; None if it has
            none; a text if the kind must not be watched now, with the reason ("waits for its
            turn"). Raises `ApiFailure`.
        make_informer: Makes a new informer of a version, with its handlers; an informer cannot be
            started twice.
        clock: The time, for the interval between checks.
        start: Starts a new informer; None if the caller runs its step (tests).
        on_gone: Called when the kind is no longer served.
        is_expected: Whether a missing kind is logged as a warning; otherwise as information.
    """

    def __init__(
        self,
        name: str,
        *,
        find: Callable[[], ResourceType[T] | str | None],
        make_informer: Callable[[ResourceType[T]], SharedInformer[T]],
        clock: Clock,
        start: Callable[[SharedInformer[T]], None] | None = None,
        on_gone: Callable[[], None] | None = None,
        is_expected: bool = True,
    ) -> None:
        self.name = name
        self.informer: SharedInformer[T] | None = None
        self.resource_type: ResourceType[T] | None = None
        """The version that is watched; None while the kind is not served."""
        self._find = find
        self._make_informer = make_informer
        self._clock = clock
        self._start = start
        self._on_gone = on_gone
        self._is_expected = is_expected
        self._poll_at = 0.0
        self._is_checked = False
        self._missing = 0
        self._trouble = ""
        self._why_not = ""

    def step(self) -> float:
        """Check whether the kind is served, if due; return the seconds until the next check."""
        rest = self._poll_at - self._clock.monotonic()
        if rest > 0:
            return rest
        self._poll_at = self._clock.monotonic() + POLL_SECONDS
        try:
            found = self._find()
            self._trouble = ""
        except ApiFailure as failure:
            self._trouble = str(failure)
            return POLL_SECONDS
        if isinstance(found, ResourceType):
            self._missing, self._why_not = 0, ""
            if found != self.resource_type:
                self._begin(found)
        else:
            self._miss(found or "is not served, waiting for its CRD")
        self._is_checked = True
        return POLL_SECONDS

    def is_served(self) -> bool:
        """Return whether the kind was served at the last check."""
        return self.informer is not None

    def is_ready(self) -> bool:
        """Return whether the state of the kind is known: it is cached, or not served."""
        if self.informer is None:
            return self._is_checked
        return self.informer.has_synced()

    def check(self) -> tuple[bool, str]:
        """Return (ok, detail) for `/readyz`."""
        if self.informer is not None:
            return self.informer.check_synced()
        if self._is_checked:
            return True, f"{self.name} {self._why_not}"
        return False, f"{self.name}: {self._trouble or 'not looked for yet'}"

    def _begin(self, version: ResourceType[T]) -> None:
        log.info("kind is served", kind=self.name, version=version.version)
        if self.informer is not None:
            self.informer.stop()  # it watched another version of the same objects
        informer = self._make_informer(version)
        self.resource_type, self.informer = version, informer
        if self._start is not None:
            self._start(informer)

    def _miss(self, why: str) -> None:
        """Record that there is nothing to watch now, and why; log a new reason."""
        self._missing += 1
        is_news, self._why_not = why != self._why_not, why
        if self.informer is not None:
            if self._missing >= PENDING_LOOKS:
                self._end(self.informer)
        elif is_news:
            write = log.warning if self._is_expected else log.info
            write("kind is not followed", kind=self.name, why=why)

    def _end(self, informer: SharedInformer[T]) -> None:
        log.warning("kind is not followed any more", kind=self.name, why=self._why_not)
        self.resource_type, self.informer = None, None
        informer.stop()
        if self._on_gone is not None:
            self._on_gone()
