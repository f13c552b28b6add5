"""defaultgroup: every unit waits in the queue `default`, which the reconciler creates.

It does not map units to quotas: a plugin after it in the configuration may.
"""

from __future__ import annotations

from typing import Final

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.extension_points import Mapped, QueueDirectory, Unmapped
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import DEFAULT_QUEUE

NAME: Final = "defaultgroup"
"""The name under which upstream's configuration lists this plugin."""


class DefaultGroupPlugin:
    """Maps all units to one queue; has no state."""

    name = NAME

    def map_unit(self, unit: QueueUnit, queues: QueueDirectory) -> Mapped | Unmapped:
        """Place every unit in the one queue."""
        if queues.queue(DEFAULT_QUEUE) is not None:
            return Mapped(quota="", queue=DEFAULT_QUEUE)
        refusal = Refusal(reason=Reason.NO_QUEUE, other=DEFAULT_QUEUE)
        return Unmapped(refusal, (f"queue/{DEFAULT_QUEUE}",), DEFAULT_QUEUE)

    def why_not_ready(self, queue: Queue) -> Refusal | None:
        """Return None: units of every quota may wait in it, and no other queue has units."""
        return None

    def fork(self) -> DefaultGroupPlugin:
        """Return itself: there is no state."""
        return self
