"""Whether a job that names a queue of Kueue is Kueue's: whether Kueue is installed at all.

Every user may write its label. Without Kueue, such a job would never be queued. That
AdmissionChecks of its group are served says nothing, since this project reads them itself: Kueue is
installed if its Workloads are served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from queue_controllers.decision.job_settings import LeaveToKueue
from shared_api.client.discovery import RawReader, is_served
from shared_api.client.errors import ApiFailure
from shared_api.process.clock import Clock

GROUP: Final = "kueue.x-k8s.io"
VERSIONS: Final = ("v1beta2", "v1beta1", "v1")
"""Versions of Workload, the most probable one first."""

LOOK_SECONDS: Final = 5.0
"""The polling interval: as in `kind_watch`, a new or removed kind must be noticed within 10 s."""

PENDING_LOOKS: Final = 2
"""How often in a row it must be missing before it is gone: API servers restart."""

log = structlog.get_logger("kueue_presence")


class KueuePresence:
    """Checks periodically whether Kueue is installed, if the setting leaves that open.

    Args:
        client: Asked for discovery.
        clock: Spaces the checks.
        setting: Whether Kueue's jobs are left alone.
        on_changed: Called when that has changed: all jobs must be reconciled again.
    """

    def __init__(
        self,
        client: RawReader,
        clock: Clock,
        setting: LeaveToKueue,
        *,
        on_changed: Callable[[], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._setting = setting
        self._on_changed = on_changed
        self._is_served: bool | None = None
        self._missing = 0
        self._look_at = 0.0

    def is_known(self) -> bool:
        """Return whether the answer is known yet."""
        return self._setting is not LeaveToKueue.AUTO or self._is_served is not None

    def leaves_jobs(self) -> bool:
        """Return whether jobs with Kueue's label are left alone now."""
        if self._setting is LeaveToKueue.AUTO:
            return self._is_served is not False
        return self._setting is LeaveToKueue.TRUE

    def step(self) -> float:
        """Check, when it is time; return how many seconds to rest."""
        if self._setting is not LeaveToKueue.AUTO:
            return LOOK_SECONDS
        rest = self._look_at - self._clock.monotonic()
        if rest > 0:
            return rest
        self._look_at = self._clock.monotonic() + LOOK_SECONDS
        try:
            there = any(is_served(self._client, GROUP, each, "workloads") for each in VERSIONS)
        except ApiFailure as failure:
            log.warning("could not look for Kueue", error=str(failure))
            return LOOK_SECONDS
        self._missing = 0 if there else self._missing + 1
        if there or self._is_served is None or self._missing >= PENDING_LOOKS:
            self._take(there=there)
        return LOOK_SECONDS

    def _take(self, *, there: bool) -> None:
        was, self._is_served = self._is_served, there
        if there == was:
            return
        log.info("jobs with the label of Kueue", left_alone=there)
        if was is not None:
            self._on_changed()
