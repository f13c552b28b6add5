"""Foreign pods that no scheduler has tried to bind: after a while no unit waits for them.

A scheduler tries a pod within moments. One that stays untried names a scheduler that does not run,
or is kept back by a plugin: it may stay so for ever. Until then it counts as pending.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from queue_scheduler.cache.pod_accounting import PodFacts
from queue_scheduler.quota.quota_decision import PodStage
from shared_api.timestamps import read_time

UNTRIED_SECONDS: Final = 60.0
"""How long a pod may wait for its first attempt. Of ours; a busy kube-scheduler binds some hundred
pods a second, so a pod that is untried then stands behind thousands."""


class UntriedPods:
    """The foreign pods that are pending and untried, and those that have been for too long."""

    def __init__(self) -> None:
        self._until: dict[str, datetime] = {}
        self._late: set[str] = set()

    def put(self, key: str, facts: PodFacts | None) -> None:
        """Take a new or changed foreign pod; None if it is gone, or is not foreign."""
        created = None if facts is None else read_time(facts.created)
        is_untried = facts is not None and facts.stage is PodStage.PENDING and not facts.is_tried
        if not is_untried or created is None:
            self._until.pop(key, None)
            self._late.discard(key)
        elif key not in self._late:
            self._until[key] = created + timedelta(seconds=UNTRIED_SECONDS)

    def next_time(self) -> datetime | None:
        """Return when the next of them has waited too long; None if there is none."""
        return min(self._until.values(), default=None)

    def take_late(self, wall: datetime) -> list[str]:
        """Return, once, the pods that have waited too long by now."""
        late = sorted(key for key, until in self._until.items() if until <= wall)
        for key in late:
            del self._until[key]
        self._late.update(late)
        return late

    def stage_of(self, key: str, stage: PodStage) -> PodStage:
        """Return the stage of a foreign pod that its object says to be at this one."""
        return PodStage.STUCK if stage is PodStage.PENDING and key in self._late else stage

    def fork(self) -> UntriedPods:
        """Return an independent copy."""
        twin = UntriedPods()
        twin._until, twin._late = dict(self._until), set(self._late)
        return twin
