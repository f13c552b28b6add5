"""A kind whose CRD may come and go, and whose version may change: its informer follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic

import structlog

from shared_api.client.errors import ApiFailure
from shared_api.client.resource_client import ResourceType
from shared_api.informer.indexed_store import T
from shared_api.informer.shared_informer import SharedInformer
from shared_api.process.clock import Clock

LOOK_SECONDS: Final = 5.0
"""How often it is looked whether the kind is served; that must be noticed within 10 s."""

PENDING_LOOKS: Final = 2
"""How often in a row a kind must be missing before its informer stops: API servers restart."""

log = structlog.get_logger("kind_watch")


class KindWatch(Generic[T]):
    """Follows a kind that may not be there: its informer runs while the kind is served.

    Args:
        name: Of the kind, for logs and probes.
        find: Asks the API server for the version of the kind to follow, None when it has none; or
            says why it is not to be watched ("waits for its turn"); raises `ApiFailure`.
        make_informer: Makes a fresh informer of a version (one cannot be started twice) with its
            handlers.
        clock: When to look again.
        start: Starts an informer that was made; None where others run its step (tests).
        on_gone: Called when the kind has gone.
        is_expected: Whether it is a warning that the kind is missing; otherwise it is only noted.
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
        """The version that is followed; None while the kind is not served."""
        self._find = find
        self._make_informer = make_informer
        self._clock = clock
        self._start = start
        self._on_gone = on_gone
        self._is_expected = is_expected
        self._look_at = 0.0
        self._was_asked = False
        self._missing = 0
        self._trouble = ""
        self._why_not = ""

    def step(self) -> float:
        """Look whether the kind is served, when it is time; return when to look again."""
        rest = self._look_at - self._clock.monotonic()
        if rest > 0:
            return rest
        self._look_at = self._clock.monotonic() + LOOK_SECONDS
        try:
            found = self._find()
            self._trouble = ""
        except ApiFailure as failure:
            self._trouble = str(failure)
            return LOOK_SECONDS
        if isinstance(found, ResourceType):
            self._missing, self._why_not = 0, ""
            if found != self.resource_type:
                self._begin(found)
        else:
            self._miss(found or "is not served, waiting for its CRD")
        self._was_asked = True
        return LOOK_SECONDS

    def is_served(self) -> bool:
        """Return whether the kind was there at the last look."""
        return self.informer is not None

    def is_ready(self) -> bool:
        """Return whether nothing more can be known of the kind now: cached, or not served."""
        if self.informer is None:
            return self._was_asked
        return self.informer.has_synced()

    def check(self) -> tuple[bool, str]:
        """Judge for `/readyz`."""
        if self.informer is not None:
            return self.informer.check_synced()
        if self._was_asked:
            return True, f"{self.name} {self._why_not}"
        return False, f"{self.name}: {self._trouble or 'not looked for yet'}"

    def _begin(self, version: ResourceType[T]) -> None:
        log.info("kind is served", kind=self.name, version=version.version)
        if self.informer is not None:
            self.informer.stop()  # it followed another version, of the same objects
        informer = self._make_informer(version)
        self.resource_type, self.informer = version, informer
        if self._start is not None:
            self._start(informer)

    def _miss(self, why: str) -> None:
        """Note that there is nothing to watch now, and why; a new reason is reported."""
        self._missing += 1
        is_news, self._why_not = why != self._why_not, why
        if self.informer is not None:
            if self._missing >= PENDING_LOOKS:
                self._end(self.informer)
        elif is_news:
            tell = log.warning if self._is_expected else log.info
            tell("kind is not followed", kind=self.name, why=why)

    def _end(self, informer: SharedInformer[T]) -> None:
        log.warning("kind is not followed any more", kind=self.name, why=self._why_not)
        self.resource_type, self.informer = None, None
        informer.stop()
        if self._on_gone is not None:
            self._on_gone()
