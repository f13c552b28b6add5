"""Registers where this replica serves the group, and removes that when it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from queue_insight.api_registration.api_service import (
    NAME,
    ApiService,
    ApiServices,
    ServiceReference,
)
from queue_insight.visibility.ca_bundle import has_authority, with_authority, without_authority
from shared_api.client.errors import Conflict, NotFound
from shared_api.process.clock import Clock

TRIES: Final = 5
"""Conflicts in a row: replicas that start together each write once."""

MISSING_SECONDS: Final = 60.0
"""How long an APIService that was there must be gone before it is created again: whoever uninstalls
the chart deletes it first, and this program a moment later."""
MAX_MISSING_SECONDS: Final = 3600.0
"""The same when it has been deleted again and again: the API server cannot reach this program, and
each time the APIService is there, no namespace is deleted for a minute."""
LASTING_SECONDS: Final = 600.0
"""One that was there for so long was not deleted because nobody answered."""

GONE_SECONDS: Final = 2.0
"""Between deleting an APIService and creating it again: the API server is to see both."""

log = structlog.get_logger("visibility")


class Registration:
    """Publishes the Service and the authority of this replica; one thread calls it.

    Args:
        services: The APIService.
        service: What answers for the group.
        clock: The time.
    """

    def __init__(self, services: ApiServices, service: ServiceReference, clock: Clock) -> None:
        self._services = services
        self._service = service
        self._clock = clock
        self._there_since: float | None = None  # None: it has not been seen since it was gone
        self._gone_since: float | None = None
        self._pause = 0.0  # for how long it must be gone; a first one is created at once

    def publish(self, authority: bytes) -> None:
        """Make the API server trust an authority, and ask the Service.

        Args:
            authority: Certificate of this replica's authority (PEM).

        Raises:
            NotFound: The APIService has just been deleted; it is created again later.
            ApiFailure: The API server refuses, or does not answer.
        """
        _despite_conflicts(lambda: self._publish_once(authority))

    def _publish_once(self, authority: bytes) -> None:
        now = self._clock.now()
        try:
            seen = self._services.read()
        except NotFound:
            if not self._may_create():
                raise
            self._services.create(self._service, with_authority("", authority, now))
            log.info("created the APIService", apiservice=NAME)
            self._note_there()
            return
        if seen.spec.service is None:
            self._replace(seen, authority)
            return
        self._note_there()
        bundle = seen.spec.ca_bundle
        if seen.spec.service == self._service and has_authority(bundle, authority):
            return
        self._services.update(seen, self._service, with_authority(bundle, authority, now))
        log.info("the API server knows where to ask", apiservice=NAME)

    def _replace(self, seen: ApiService, authority: bytes) -> None:
        """Replace an APIService without a Service, as the chart installs it.

        The API server shows the OpenAPI of an APIService only if it had a Service from its creation
        on (`OpenAPIAggregationController.AddAPIService` of kube-aggregator).
        """
        with suppress(NotFound):  # another replica does the same
            self._services.delete(seen)
        self._clock.sleep(GONE_SECONDS)
        # Who installs one wants the API: it is not awaited for how long it is gone.
        self._there_since, self._gone_since, self._pause = None, None, 0.0
        self._publish_once(authority)

    def _note_there(self) -> None:
        if self._there_since is None:
            self._there_since = self._clock.monotonic()
        self._gone_since = None

    def _may_create(self) -> bool:
        """Return whether it has never been seen, or is gone for long enough."""
        now = self._clock.monotonic()
        if self._gone_since is None:
            self._gone_since = now
            if self._there_since is not None:
                lasted = now - self._there_since >= LASTING_SECONDS
                longer = MISSING_SECONDS if lasted else max(MISSING_SECONDS, 2 * self._pause)
                self._pause = min(longer, MAX_MISSING_SECONDS)
            self._there_since = None
        return now - self._gone_since >= self._pause

    def withdraw(self, authority: bytes) -> None:
        """Take this replica's authority back; the last one deletes the APIService.

        Raises:
            ApiFailure: The API server refuses, or does not answer.
        """
        with suppress(NotFound):
            _despite_conflicts(lambda: self._withdraw_once(authority))

    def _withdraw_once(self, authority: bytes) -> None:
        seen = self._services.read()
        if not has_authority(seen.spec.ca_bundle, authority):
            return
        rest = without_authority(seen.spec.ca_bundle, authority, self._clock.now())
        if rest:
            self._services.update(seen, self._service, rest)
        else:
            self._services.delete(seen)
            log.info("deleted the APIService: no replica is left that serves it", apiservice=NAME)


def _despite_conflicts(write: Callable[[], None]) -> None:
    """Read and write again when another replica has written in between.

    Raises:
        Conflict: It has, at each try.
    """
    for left in reversed(range(TRIES)):
        try:
            write()
            return
        except Conflict:
            if not left:
                raise
