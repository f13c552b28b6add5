"""Jobs and held pods as they are cached: without unread fields, and equal parts shared.

Ten thousand jobs are kept here. Most are created from few templates.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from queue_controllers.jobframework.pod_template import ScheduledContainer, ScheduledPodSpec
from shared_api.objects.compactor import Compactor

WHOLE: Final = (ScheduledPodSpec, ScheduledContainer)
"""Parts that objects share. Not the templates: those of Jobs have the uid among their labels."""

T = TypeVar("T")


class JobTrimmer:
    """Trims objects that were just decoded and are not shared yet; any thread."""

    def __init__(self) -> None:
        self._compactor = Compactor(WHOLE)

    def slim(self, job: T, before: T | None = None) -> T:
        """Return the object as it is kept; `before`: the version before it, trimmed."""
        if not isinstance(job, msgspec.Struct):
            return job  # an extension's own class: its fields are not known
        known = before if isinstance(before, msgspec.Struct) else None
        return self._compactor.compact(job, known)
