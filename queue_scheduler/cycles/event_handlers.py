"""Passes the notifications of informers on to the engine, translated.

Informers report (old, new); the engine takes the newest state. The slow resync reports every object
again, which changes nothing unless the first time ended in an error. Events that a watch lost are
found by the list after it; the informer counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import QuotaSource
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.node import Node
from shared_api.objects.pod import Pod
from shared_api.objects.queue import Queue
from shared_api.objects.queue_reservation import QueueReservation
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.queue_unit_phases import CHARGED_PHASES, FINAL_PHASES

_PAST_WAITING: Final = CHARGED_PHASES | FINAL_PHASES
"""Phases are strings: a unit with a phase that is unknown here is considered."""


class Workers(Protocol):
    """The threads that ask for the decisions of each queue."""

    def run_for(self, queue: str) -> None:
        """Make sure that the queue has its worker."""

    def end_for(self, queue: str) -> None:
        """End the worker of a queue that is gone."""


class EventHandlers:
    """One handler per kind, each called by its informer's thread.

    Args:
        shared: Receives every change.
        workers: Started and ended with the queues.
        on_unit_seen: Called with the key of every unit that was added or changed and may wait
            (`pending_reason`).
        is_rewound: Returns whether the history of the unit that is being reported was replaced
            (`SharedInformer.is_rewound`).
        on_unit_left: Called with the key of every unit that no longer waits.
        on_limits_changed: Called when a change of limits is to be followed (`limit_slices`).
    """

    def __init__(
        self,
        shared: SharedEngine,
        workers: Workers,
        on_unit_seen: Callable[[str], None],
        is_rewound: Callable[[], bool],
        on_unit_left: Callable[[str], None] = lambda _: None,
        on_limits_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._shared = shared
        self._workers = workers
        self._on_unit_seen = on_unit_seen
        self._is_rewound = is_rewound
        self._on_unit_left = on_unit_left
        self._on_limits_changed = on_limits_changed

    def on_queue(self, old: Queue | None, new: Queue | None) -> None:
        """Report a queue to the engine, and start or end its worker."""
        if new is not None:
            self._shared.apply(Engine.on_queue, new)
            self._workers.run_for(new.metadata.name)
        elif old is not None:
            self._shared.apply(Engine.on_queue_gone, old.metadata.name)
            self._workers.end_for(old.metadata.name)

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Report a unit to the engine."""
        if new is not None:
            self._shared.apply(Engine.on_queue_unit, new, is_rewound=self._is_rewound())
            # Two of three versions of a unit are started or ended ones, which wait for nothing.
            if new.status.phase not in _PAST_WAITING:
                self._on_unit_seen(new.metadata.key)
            else:
                self._on_unit_left(new.metadata.key)
        elif old is not None:
            self._shared.apply(Engine.on_queue_unit_gone, old)
            self._on_unit_left(old.metadata.key)

    def on_admission_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        """Report an AdmissionCheck to the engine."""
        if new is not None:
            self._shared.apply(Engine.on_admission_check, new)
        elif old is not None:
            self._shared.apply(Engine.on_admission_check_gone, old.metadata.name)

    def on_quota_policy(self, old: QuotaPolicy | None, new: QuotaPolicy | None) -> None:
        """Report a QuotaPolicy to the engine."""
        if new is not None:
            self._shared.apply(Engine.on_quota_policy, new, in_slices=True)
        elif old is not None:
            self._shared.apply(Engine.on_quota_policy_gone, old.metadata.name, in_slices=True)
        self._on_limits_changed()

    def on_reservation(self, old: QueueReservation | None, new: QueueReservation | None) -> None:
        """Report a QueueReservation to the engine."""
        if new is not None:
            self._shared.apply(Engine.on_reservation, new)
        elif old is not None:
            self._shared.apply(Engine.on_reservation_gone, old.metadata.name)

    def on_quota(
        self, old: ElasticQuota | QuotaSource | None, new: ElasticQuota | QuotaSource | None
    ) -> None:
        """Report an ElasticQuota, or another object that quotas come from, to the engine."""
        if new is not None:
            self._shared.apply(Engine.on_quota, new)
        elif old is not None:
            self._shared.apply(Engine.on_quota_gone, old)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Report a pod to the engine."""
        if new is not None:
            self._shared.apply(Engine.on_pod, new)
        elif old is not None:
            self._shared.apply(Engine.on_pod_gone, old)

    def on_node(self, old: Node | None, new: Node | None) -> None:
        """Report a node to the engine, unless its capacity is unchanged."""
        if new is not None:
            if old is None or _capacity_differs(old, new):
                self._shared.apply(Engine.on_node, new)
        elif old is not None:
            self._shared.apply(Engine.on_node_gone, old.metadata.name)


def _capacity_differs(old: Node, new: Node) -> bool:
    return (
        old.status.allocatable != new.status.allocatable
        or old.metadata.annotations != new.metadata.annotations
    )
