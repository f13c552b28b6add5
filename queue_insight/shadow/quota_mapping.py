"""The quota of a job that was made for another queue, or for none. Pure.

A job of this queue names its quota by a label. One of Kueue names a LocalQueue; others name
nothing. A user's file says what these become::

    kind: ShadowPlaces
    kueueQueues: {team-a/default: research, batch: production}
    namespaces: {team-b: production}
    priorities: {urgent: 1000}

The first that applies counts: the job's own labels; its LocalQueue, with its namespace or without;
a quota that is called as the LocalQueue; its namespace; at last what the quotas say of namespaces.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import (
    KUEUE_PRIORITY_CLASS,
    QUOTA_NAME,
    read_queue_name,
    read_quota_name,
)


class QuotaMapping(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The quota of jobs that name none.

    Attributes:
        kueue_queues: Quotas by LocalQueue: `namespace/name`, or `name` in all namespaces.
        namespaces: Quotas by namespace.
        priorities: Values by WorkloadPriorityClass of Kueue; they come before all other priorities.
    """

    kueue_queues: dict[str, str] = {}
    namespaces: dict[str, str] = {}
    priorities: dict[str, int] = {}

    def place(
        self, unit: QueueUnit, kueue_queue: str, is_quota: Callable[[str], bool]
    ) -> QueueUnit:
        """Return a unit with its priority, and the quota that it is charged to, as far as is said.

        Args:
            unit: As the controllers would make it.
            kueue_queue: The LocalQueue that its job names; "": none.
            is_quota: Whether a name is that of a quota.
        """
        meta = unit.metadata
        number = self.priorities.get(meta.labels.get(KUEUE_PRIORITY_CLASS, ""))
        if number is not None:
            unit = replace(unit, spec=replace(unit.spec, priority=number))
        if read_quota_name(meta.labels) or read_queue_name(meta.labels, meta.annotations):
            return unit
        quota = self._quota_of(meta.namespace, kueue_queue, is_quota)
        if not quota:
            return unit
        labels = {**meta.labels, QUOTA_NAME: quota}
        # Its queue was that of another quota: the one of its namespace.
        spec = replace(unit.spec, queue="")
        return replace(unit, metadata=replace(meta, labels=labels), spec=spec)

    def _quota_of(self, namespace: str, queue: str, is_quota: Callable[[str], bool]) -> str:
        if queue:
            for name in (f"{namespace}/{queue}", queue):
                if name in self.kueue_queues:
                    return self.kueue_queues[name]
            if is_quota(queue):
                return queue
        return self.namespaces.get(namespace, "")
