"""Withdraws the aggregated API when no replica serves it.

While the APIService is there and its Service does not answer, no namespace of the cluster is
deleted: the namespace controller waits until it can discover every group. Taking the Service out of
the object is not enough, since the API server keeps the group as it has last seen it, and marks it
as stale. So the object is deleted; the insight program creates it again once it serves.
"""

from __future__ import annotations

from typing import Final

import structlog

from queue_insight.api_registration.api_service import NAME, ApiServices
from shared_api.client.errors import ApiFailure, Conflict, Forbidden, NotFound
from shared_api.process.clock import Clock
from shared_api.process.trouble_log import TroubleLog

LOOK_SECONDS: Final = 10.0
"""Between two looks: one request for one object."""

_SUBJECT: Final = "guard of the aggregated API"

log = structlog.get_logger("visibility_guard")


class VisibilityGuard:
    """The step of the thread that withdraws the API.

    Args:
        services: The APIService.
        clock: The time.
        patience_seconds: For how long it may be unavailable: a restart of the program takes less.
    """

    def __init__(self, services: ApiServices, clock: Clock, patience_seconds: float) -> None:
        self._services = services
        self._clock = clock
        self._patience = patience_seconds
        self._down_since: float | None = None
        self._trouble = TroubleLog("visibility")

    def step(self) -> float:
        """Look once; delete the APIService if it has been unavailable for too long."""
        try:
            self._look()
            self._trouble.end(_SUBJECT)
        except (NotFound, Conflict):
            self._down_since = None  # withdrawn by another replica, or just published
        except Forbidden as refusal:
            text = f"needs the rights get and delete on apiservices {NAME}: {refusal}"
            self._trouble.begin(_SUBJECT, text)
        except ApiFailure as failure:
            self._trouble.begin(_SUBJECT, str(failure))
        return LOOK_SECONDS

    def _look(self) -> None:
        seen = self._services.read()
        condition = seen.unavailable
        if condition is None:
            self._down_since = None
            return
        now = self._clock.monotonic()
        if self._down_since is None:
            self._down_since = now
        if now - self._down_since < self._patience:
            return
        self._services.delete(seen)
        self._down_since = None
        log.warning(
            "the aggregated API is withdrawn, since nobody answers for it and namespaces could not "
            "be deleted; it comes back when it is served",
            apiservice=NAME,
            reason=condition.reason,
            said=condition.message,
        )
