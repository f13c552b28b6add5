"""What is kept of a unit that has ended: its waits and its run times. Pure.

The record keeps these, and forecasts learn from them. Times are seconds since the epoch.
"""

from __future__ import annotations

import msgspec

from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import PODS_READY, Phase
from shared_api.resource_list import Amounts
from shared_api.submitters import submitter_name
from shared_api.timestamps import read_seconds


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run of a unit, from its arrival to its end.

    Attributes:
        unit: `namespace/name`.
        uid: The unit's uid.
        kind: The kind of its job, such as `PyTorchJob`.
        user: Who submitted it; "" if the job does not say.
        queue: Its queue.
        quota: What was charged.
        priority: The priority of its unit.
        charge: How much was charged, by resource.
        created: When the unit was created.
        started: When its pods ran; None if they never did.
        ended: When it ended, or was evicted.
        declared_seconds: The maximum execution time that it declared; None: none.
        ended_by: `finished`, `failed`, `evicted` or `deleted`; all but the first two are censored:
            the job might have run longer.
    """

    unit: str
    uid: str
    kind: str = ""
    user: str = ""
    queue: str = ""
    quota: str = ""
    priority: int = 0
    charge: Amounts
    created: float
    started: float | None = None
    ended: float
    declared_seconds: float | None = None
    ended_by: str = "finished"

    @property
    def is_whole(self) -> bool:
        """Whether it is known how long the job runs: it has started, and ended by itself."""
        return self.started is not None and self.ended_by in {"finished", "failed"}


def user_of(unit: QueueUnit) -> str:
    """Return who submitted a unit's job; "" if it does not say."""
    return submitter_name(unit.metadata.labels, unit.metadata.annotations)


def running_since(unit: QueueUnit) -> float | None:
    """Return since when a unit's pods run; None: they do not, or it does not say."""
    if unit.status.phase != Phase.RUNNING:
        return None
    ready = find_condition(unit.status.conditions, PODS_READY)
    return None if ready is None else read_seconds(ready.last_transition_time)
