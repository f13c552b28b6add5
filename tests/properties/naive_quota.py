"""A quota plugin simple enough to check by eye: a max per quota, and one level of parents.

It implements every extension point that counts usage, so the engine can be tested without the real
plugin. Quotas: `spec.max`, the parent by its label, namespaces by their annotation. Nothing is
rounded, divided or lent; what `max` does not name is unlimited; an unknown quota admits nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from queue_scheduler.decision import Notice, Reason, Refusal
from queue_scheduler.framework.extension_points import (
    ForeignPod,
    Mapped,
    QueueDirectory,
    Unmapped,
    Waiter,
)
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.quota_names import QuotaNames, build_quota_names, read_named_quota
from shared_api.resource_list import Amounts, add, parse_amounts
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    QUOTA_PARENT,
    read_annotation,
    read_queue_name,
    read_quota_name,
)


class NaiveQuota:
    """The limits, and what is charged to each quota."""

    name = "NaiveQuota"

    def __init__(self) -> None:
        self.protected: dict[str, str] = {}
        self.foreign: dict[str, ForeignPod] = {}
        self.calls: list[str] = []
        self._quotas: dict[str, ElasticQuota] = {}
        self._max: dict[str, Amounts] = {}
        self._chains: dict[str, tuple[str, ...]] = {}
        self._booked: dict[Uid, tuple[str, Amounts]] = {}
        self._used: dict[str, Amounts] = {}
        self._waiters: dict[str, dict[Waiter, None]] = {}
        self._quota_of_waiter: dict[Waiter, str] = {}
        self._eased: dict[str, None] = {}

    # --- mapping ------------------------------------------------------------------------------

    def map_unit(self, unit: QueueUnit, queues: QueueDirectory) -> Mapped | Unmapped:
        meta = unit.metadata
        named = read_quota_name(meta.labels)
        quota = named or self._quota_of_namespace(meta.namespace)
        facts = (f"quota/{quota}",) if named else (f"namespace/{meta.namespace}", f"quota/{quota}")
        name = read_queue_name(meta.labels, meta.annotations) or unit.spec.queue or quota
        if quota not in self._quotas:
            return Unmapped(Refusal(reason=Reason.NO_QUOTA, quota=quota), facts, name)
        queue = queues.queue(name)
        facts = (*facts, f"queue/{name}")
        if queue is None:
            return Unmapped(Refusal(reason=Reason.NO_QUEUE, quota=quota, other=name), facts, name)
        if name != quota and not _takes(queue, quota):
            refusal = Refusal(reason=Reason.QUOTA_NOT_IN_QUEUE, quota=quota, other=name)
            return Unmapped(refusal, facts, name)
        return Mapped(quota=quota, queue=name)

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        named = read_quota_name(unit.metadata.labels)
        quota = named or self._quota_of_namespace(unit.metadata.namespace)
        return self._chains.get(quota) or ((quota,) if quota else ())

    def quota_of_pod(self, namespace: str, labels: dict[str, str]) -> str:
        return read_quota_name(labels) or self._quota_of_namespace(namespace)

    def _quota_of_namespace(self, namespace: str) -> str:
        return self._names().quota_of_namespace(namespace)

    def _names(self) -> QuotaNames:
        return build_quota_names(map(read_named_quota, self._quotas.values()))

    # --- deciding -----------------------------------------------------------------------------

    def class_key(self, unit: QueueUnit) -> Hashable:
        return None

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        chain = self._chains.get(info.quota)
        if chain is None:
            return Refusal(reason=Reason.UNKNOWN_QUOTA, quota=info.quota)
        for level in chain:
            limits, used = self._max[level], self._used.get(level, {})
            for resource, requested in info.demand.total.items():
                limit = limits.get(resource)
                if limit is not None and used.get(resource, 0) + requested > limit:
                    return Refusal(
                        reason=Reason.OVER_QUOTA_MAX,
                        quota=level,
                        resource=resource,
                        limit=limit,
                        used=used.get(resource, 0),
                        requested=requested,
                    )
        return None

    def reserve(self, info: QueueUnitInfo) -> Refusal | None:
        self._book(info.uid, info.quota, info.demand.total)
        return None

    def unreserve(self, uid: Uid) -> None:
        known = self._booked.pop(uid, None)
        if known is not None:
            self._count(known, -1)

    def resize(
        self, uid: Uid, quota: str, amounts: Amounts, *, non_preemptible: bool, pods: int
    ) -> None:
        self._book(uid, quota, amounts)

    def _book(self, uid: Uid, quota: str, amounts: Amounts) -> None:
        self.unreserve(uid)
        self._booked[uid] = (quota, amounts)
        self._count((quota, amounts), 1)

    def _count(self, booking: tuple[str, Amounts], sign: int) -> None:
        quota, amounts = booking
        for level in self._chains.get(quota, (quota,)):
            used = self._used.setdefault(level, {})
            for resource, amount in amounts.items():
                used[resource] = used.get(resource, 0) + sign * amount
            if sign < 0:
                self._eased[level] = None

    # --- waiting ------------------------------------------------------------------------------

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        self._quota_of_waiter[waiter] = info.quota
        for level in self._chains.get(info.quota, (info.quota,)):
            self._waiters.setdefault(level, {})[waiter] = None

    def stop_waiting(self, waiter: Waiter) -> None:
        quota = self._quota_of_waiter.pop(waiter, None)
        if quota is not None:
            for level in self._chains.get(quota, (quota,)):
                self._waiters.get(level, {}).pop(waiter, None)

    def take_woken(self) -> list[Waiter]:
        if not self._eased:
            return []
        woken = {waiter: None for level in self._eased for waiter in self._waiters.get(level, ())}
        self._eased.clear()
        for waiter in woken:
            self.stop_waiting(waiter)
        return list(woken)

    def domains(self, quota: str) -> frozenset[str]:
        chain = self._chains.get(quota)
        return frozenset((f"quota/{chain[-1]}",)) if chain else frozenset()

    def protect(self, quota: str, info: QueueUnitInfo | None) -> None:
        if info is None:
            self.protected.pop(quota, None)
        else:
            self.protected[quota] = info.key

    def keeps_room_for(self, quota: str) -> bool:
        return True

    def lent_to(self, info: QueueUnitInfo, leaving: Iterable[Uid], *, outranks: bool) -> None:
        return None

    # --- facts --------------------------------------------------------------------------------

    def on_quota(self, quota: ElasticQuota) -> tuple[str, ...]:
        if self._quotas.get(quota.metadata.name) == quota:
            return ()
        return self._change({**self._quotas, quota.metadata.name: quota})

    def on_quota_gone(self, quota: ElasticQuota) -> tuple[str, ...]:
        name = quota.metadata.name
        known = self._quotas.get(name)
        if known is None or known.metadata.uid != quota.metadata.uid:
            return ()
        return self._change({n: q for n, q in self._quotas.items() if n != name})

    def _change(self, quotas: Mapping[str, ElasticQuota]) -> tuple[str, ...]:
        before, old = self._names(), set(self._quotas)
        waiters = dict(self._quota_of_waiter)
        for waiter in waiters:
            self.stop_waiting(waiter)
        bookings = dict(self._booked)
        for uid in bookings:
            self.unreserve(uid)
        self._quotas = dict(quotas)
        self._max = {name: parse_amounts(q.spec.max) for name, q in self._quotas.items()}
        self._chains = {name: self._find_chain(name) for name in self._quotas}
        for uid, (quota, amounts) in bookings.items():
            self._book(uid, quota, amounts)
        for waiter, quota in waiters.items():
            self._quota_of_waiter[waiter] = quota
            for level in self._chains.get(quota, (quota,)):
                self._waiters.setdefault(level, {})[waiter] = None
        self._eased.update(dict.fromkeys(self._waiters))
        after = self._names()
        spaces = {*before.of_namespaces, *after.of_namespaces}
        moved = [
            f"namespace/{space}"
            for space in sorted(spaces)
            if before.quota_of_namespace(space) != after.quota_of_namespace(space)
        ]
        return (*(f"quota/{name}" for name in sorted(old ^ set(self._quotas))), *moved)

    def _find_chain(self, name: str) -> tuple[str, ...]:
        parent = self._quotas[name].metadata.labels.get(QUOTA_PARENT, "")
        return (name, parent) if parent in self._quotas and parent != name else (name,)

    def on_node(self, node: Node) -> None:
        self.calls.append(f"node {node.metadata.name}")

    def on_node_gone(self, name: str) -> None:
        self.calls.append(f"node gone {name}")

    def on_foreign_pod(self, key: str, pod: ForeignPod | None) -> None:
        if pod is None:
            self.foreign.pop(key, None)
        else:
            self.foreign[key] = pod

    def take_notices(self) -> list[Notice]:
        return []

    # --- copies and questions -----------------------------------------------------------------

    def fork(self) -> NaiveQuota:
        twin = NaiveQuota()
        twin.protected = dict(self.protected)
        twin.foreign = dict(self.foreign)
        twin._quotas = dict(self._quotas)
        twin._max = dict(self._max)
        twin._chains = dict(self._chains)
        twin._booked = dict(self._booked)
        twin._used = {name: dict(used) for name, used in self._used.items()}
        twin._waiters = {name: dict(waiters) for name, waiters in self._waiters.items()}
        twin._quota_of_waiter = dict(self._quota_of_waiter)
        twin._eased = dict(self._eased)
        return twin

    def used(self, quota: str) -> Amounts:
        """Return what is booked under a quota, zeros left out."""
        return {r: amount for r, amount in self._used.get(quota, {}).items() if amount}

    def limit(self, quota: str) -> Amounts:
        """Return the quota's max."""
        return self._max.get(quota, {})

    def chain(self, quota: str) -> tuple[str, ...]:
        """Return the quota and its parent."""
        return self._chains.get(quota, ())

    def booked(self) -> dict[Uid, tuple[str, Amounts]]:
        """Return all bookings, by owner."""
        return dict(self._booked)

    def validate(self) -> None:
        """Check that usage is the sum of the bookings."""
        used: dict[str, Amounts] = {}
        for quota, amounts in self._booked.values():
            for level in self._chains.get(quota, (quota,)):
                used[level] = add(used.get(level, {}), amounts)
        names = {*used, *self._used}
        sums = {name: {r: n for r, n in used.get(name, {}).items() if n} for name in names}
        assert sums == {name: self.used(name) for name in names}

    def waiters(self) -> set[Waiter]:
        """Return the classes that wait here."""
        return set(self._quota_of_waiter)


def _takes(queue: Queue, quota: str) -> bool:
    for key in AVAILABLE_QUOTA:
        listed = read_annotation(queue.metadata.annotations, key)
        if listed is not None:
            return listed == "*" or quota in listed.split(",")
    return False
