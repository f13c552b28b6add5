"""What the plugins say of where a unit belongs: its quota, queue, place and class."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework import extension_points as points
from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo, read_chosen_queue
from queue_scheduler.framework.taking_part import takes_part
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import PREEMPTIBLE


class PluginPlacing:
    """Asks the plugins about a unit or a queue alone, whatever is charged; it has no state.

    Attributes:
        has_own_labels: Whether any plugin reads its own label about preemption.
    """

    def __init__(self, plugins: Sequence[points.Plugin]) -> None:
        self._mapping = [p for p in plugins if takes_part(p, points.QueueUnitMapping)]
        self._multi_queue_sort = [p for p in plugins if takes_part(p, points.MultiQueueSort)]
        self._score = [p for p in plugins if takes_part(p, points.Score)]
        self._queue_sort = [p for p in plugins if takes_part(p, points.QueueSort)]
        self._request_checks = [p for p in plugins if takes_part(p, points.RequestChecks)]
        self._class_keys = [p for p in plugins if takes_part(p, points.ClassKeys)]
        filters = (p for p in plugins if takes_part(p, points.Filter))
        self._keyless = any(not takes_part(p, points.ClassKeys) for p in filters)
        self._providers = [p for p in plugins if takes_part(p, points.QuotaProvider)]
        self._own_labels = [p for p in plugins if takes_part(p, points.OwnPreemptibleLabel)]
        self.has_own_labels = bool(self._own_labels)
        self._readiness = [p for p in plugins if takes_part(p, points.QueueReadiness)]

    def map_unit(
        self, unit: QueueUnit, queues: points.QueueDirectory
    ) -> points.Mapped | points.Unmapped:
        """Ask the mapping plugins; the first answer counts (`QueueUnitMapping`)."""
        queue = ""
        held: points.Unmapped | None = None
        for plugin in self._mapping:
            answer = plugin.map_unit(unit, queues)
            match answer:
                case None:
                    pass
                case points.Mapped(quota=""):
                    queue = queue or answer.queue
                case points.Mapped():
                    return points.Mapped(answer.quota, queue or answer.queue)
                case points.Unmapped() if answer.refusal.reason is Reason.NO_QUOTA:
                    held = answer if held is None else _wait_for_both(held, answer)
                case points.Unmapped() if queue and _is_about_its_queue(answer.refusal):
                    return points.Mapped(answer.refusal.quota, queue)
                case points.Unmapped():
                    return answer
        if held is not None:
            return _look_for_queue(unit, replace(held, queue=queue or held.queue), queues)
        if queue:
            return points.Mapped("", queue)
        refusal = Refusal(reason=Reason.NO_QUEUE, detail="no plugin maps this unit to a queue")
        return points.Unmapped(refusal, ())

    def check_requests(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why a unit whose pods lack a request may not be pending, or None."""
        for plugin in self._request_checks:
            refusal = plugin.check_requests(info)
            if refusal is not None:
                return refusal
        return None

    def find_unrequested(self, info: QueueUnitInfo) -> tuple[str, ...]:
        """Return the governed resources of its quota if the unit requests none of them; else ()."""
        for plugin in self._request_checks:
            unrequested = plugin.find_unrequested(info)
            if unrequested:
                return unrequested
        return ()

    def rank(self, queue: Queue) -> tuple[int, ...]:
        """Return the rank of a queue; smaller goes first."""
        ranks = [-plugin.queue_rank(queue) for plugin in self._multi_queue_sort]
        return (*ranks, *(-plugin.score(queue) for plugin in self._score))

    def order_key(self, unit: QueueUnit, queue: Queue) -> OrderKey | None:
        """Return the order key that a QueueSort plugin gives, or None."""
        for plugin in self._queue_sort:
            key = plugin.order_key(unit, queue)
            if key is not None:
                return key
        return None

    def class_keys(self, unit: QueueUnit) -> tuple[Hashable, ...]:
        """Return what the filters' answers depend on, in addition to quota and demand."""
        keys = tuple(plugin.class_key(unit) for plugin in self._class_keys)
        return (*keys, unit.metadata.uid) if self._keyless else keys

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        """Return the quotas that a unit is charged to, nearest first."""
        unknown: tuple[str, ...] = ()
        for plugin in self._providers:
            names = plugin.quota_names(unit)
            if names and (
                not takes_part(plugin, points.KnownQuotas) or plugin.knows_quota(names[0])
            ):
                return names
            unknown = unknown or names
        return unknown

    def quota_of_pod(self, namespace: str, labels: dict[str, str]) -> str:
        """Return the quota that a pod with these labels is charged to, or ""."""
        for plugin in self._providers:
            name = plugin.quota_of_pod(namespace, labels)
            if name:
                return name
        return ""

    def is_non_preemptible(self, quota: str, labels: dict[str, str]) -> bool:
        """Return whether these labels forbid to preempt pods charged to a quota.

        The common label counts in every quota, a plugin's own label in the quotas of that plugin.
        """
        return labels.get(PREEMPTIBLE) == "false" or any(
            plugin.knows_quota(quota) and plugin.is_non_preemptible(labels)
            for plugin in self._own_labels
        )

    def why_not_ready(self, queue: Queue) -> Refusal | None:
        """Return why no unit of a queue can start (`QueueReadiness`)."""
        refusals = [plugin.why_not_ready(queue) for plugin in self._readiness]
        for refusal in refusals:
            if refusal is not None and refusal.reason is not Reason.NO_QUOTA:
                return refusal
        return refusals[0] if refusals and None not in refusals else None


def _wait_for_both(first: points.Unmapped, second: points.Unmapped) -> points.Unmapped:
    """Return the first, waiting for the facts of both."""
    return replace(first, waits_for=tuple(dict.fromkeys((*first.waits_for, *second.waits_for))))


def _look_for_queue(
    unit: QueueUnit, held: points.Unmapped, queues: points.QueueDirectory
) -> points.Unmapped:
    """Return why a unit without a quota is on hold, with its queue if that is missing as well.

    If it names a queue and no quota, the queue is what its user has to correct first.
    """
    named = read_chosen_queue(unit)
    if not named or named != held.queue:
        return held
    # Also while the queue exists: it may be deleted, and is the reason then.
    held = replace(held, waits_for=(*held.waits_for, f"queue/{named}"))
    if queues.queue(named) is not None:
        return held
    missing = Refusal(reason=Reason.NO_QUEUE, other=named)
    if held.refusal.quota:
        return replace(held, others=(missing,))
    return replace(held, refusal=missing, others=(held.refusal,))


def _is_about_its_queue(refusal: Refusal) -> bool:
    """Return whether the refusal concerns only the plugin's own default queue."""
    return refusal.reason in {Reason.NO_QUEUE, Reason.QUOTA_NOT_IN_QUEUE} and bool(refusal.quota)
