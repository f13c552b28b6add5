"""ResourceQuota: checks and charges units against the ResourceQuota of their namespace.

The namespace is the unit's own, whatever its `spec.consumerRef` says: write access to units in one
namespace gives no access to the quota of another. The quota is the only one there, or the one with
the namespace's name. Started units are charged; pods that no unit stands for count as they are.
`status.used` of the object is ignored, because it includes the pods of units.

Queue: `koord-queue/queue-name`, else `spec.queue`; else the queue with the namespace's name, else
`default`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from queue_scheduler.decision import Notice, Reason, Refusal
from queue_scheduler.framework.extension_points import (
    ForeignPod,
    Mapped,
    QueueDirectory,
    QuotaSource,
    Supposed,
    Unmapped,
)
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, read_chosen_queue
from queue_scheduler.quota.quota_decision import Demand, PodStage, QuotaProblem
from queue_scheduler.quota.quota_settings import QuotaKind, QuotaMode, QuotaSettings
from queue_scheduler.quota.quota_spec import QuotaSpec
from queue_scheduler.quota.resource_quota_spec import PODS, governs_all_pods, parse_hard, quota_name
from queue_scheduler.quota_cache.quota_ledger import ForeignCharge
from queue_scheduler.quota_plugin import QuotaPlugin
from shared_api.objects.meta import NO_UID, Uid
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import DEFAULT_QUEUE

NAME: Final = "ResourceQuota"
"""The name under which upstream's configuration lists this plugin."""


class ResourceQuotaPlugin(QuotaPlugin):
    """Maps units to quota and queue, and keeps the usage of namespaces.

    Args:
        required_requests: Resources that every pod must request.
    """

    name = NAME

    def __init__(self, required_requests: frozenset[str] = frozenset()) -> None:
        super().__init__(
            QuotaSettings(
                mode=QuotaMode.MAX,
                kind=QuotaKind.RESOURCE_QUOTA,
                required_requests=required_requests,
            )
        )
        self._specs: dict[str, dict[str, QuotaSpec]] = {}
        self._foreign: dict[str, ForeignPod] = {}

    # --- mapping ------------------------------------------------------------------------------

    def map_unit(self, unit: QueueUnit, queues: QueueDirectory) -> Mapped | Unmapped:
        """Return the unit's quota and queue, or what is missing."""
        namespace = unit.metadata.namespace
        chosen = read_chosen_queue(unit)
        names = (chosen,) if chosen else (namespace, DEFAULT_QUEUE)
        waits_for: tuple[str, ...] = (f"namespace/{namespace}",)
        quota = self._quota_of(namespace)
        if not quota:
            detail = self._why_none(namespace)
            refusal = Refusal(reason=Reason.NO_QUOTA, other=namespace, detail=detail)
            return Unmapped(refusal, waits_for, names[-1])
        for name in names:
            if queues.queue(name) is not None:
                return Mapped(quota, name)
        waits_for = (*waits_for, f"quota/{quota}", *(f"queue/{name}" for name in names))
        refusal = Refusal(reason=Reason.NO_QUEUE, quota=quota, other=names[-1])
        return Unmapped(refusal, waits_for, names[-1])

    def _quota_of(self, namespace: str) -> str:
        """Return the one quota of a namespace, or ""."""
        names = self._specs.get(namespace, {})
        if len(names) == 1:
            return quota_name(namespace, next(iter(names)))
        return quota_name(namespace, namespace) if namespace in names else ""

    def _why_none(self, namespace: str) -> str:
        names = ", ".join(sorted(self._specs.get(namespace, {})))
        if not names:
            return f"namespace {namespace} has no ResourceQuota without scopes"
        return f"namespace {namespace} has several ({names}), and none is named {namespace}"

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        """Return the one quota that the unit is charged to."""
        quota = self._quota_of(unit.metadata.namespace)
        return (quota,) if quota else ()

    def quota_of_pod(self, namespace: str, labels: dict[str, str]) -> str:
        """Return the quota of the pod's namespace, or ""."""
        return self._quota_of(namespace)

    # --- deciding -----------------------------------------------------------------------------

    def class_key(self, unit: QueueUnit) -> Hashable:
        """Return how many pods the unit asks for: they count in addition to quota and amounts."""
        return _count_requested(unit)

    def demand_of(self, info: QueueUnitInfo) -> Demand:
        """Return the unit's amounts and its pods."""
        return Demand({**info.demand.total, PODS: info.demand.pods})

    def find_unrequested(self, info: QueueUnitInfo) -> tuple[str, ...]:
        """Return the governed resources that the unit lacks; () if `pods` is among the governed."""
        if not info.demand.pods or info.quota not in self._known:
            return ()
        return self.quotas.find_unrequested(info.quota, dict(self.demand_of(info).amounts))

    def demands_of(self, added: Sequence[Supposed]) -> list[tuple[str, Demand]]:
        """Return the amounts and the pods, as (quota, demand) pairs."""
        return [(one.quota, Demand({**one.amounts, PODS: one.pods})) for one in added]

    def resize(
        self, uid: Uid, quota: str, amounts: Amounts, *, non_preemptible: bool, pods: int
    ) -> None:
        """Charge exactly this for the uid, whether it fits or not."""
        self.quotas.charge(uid, quota, Demand({**amounts, PODS: pods}))

    def domain_of(self, quota: str) -> str:
        """Return the quota itself: quotas do not compete with each other."""
        return f"resource-quota/{quota}" if quota in self._known else ""

    # --- facts --------------------------------------------------------------------------------

    def on_quota_source(self, source: QuotaSource) -> tuple[str, ...]:
        """Take a quota; return names of facts by which units may be placed anew."""
        if not isinstance(source, ResourceQuota):
            return ()
        meta = source.metadata
        if not governs_all_pods(source):
            return self.on_quota_source_gone(source)
        known, spec = self._specs.get(meta.namespace, {}), parse_hard(source)
        # The object changes with every pod, because its status has what is used.
        if known.get(meta.name) == spec:
            return ()
        return self._put(meta.namespace, {**known, meta.name: spec})

    def on_quota_source_gone(self, source: QuotaSource) -> tuple[str, ...]:
        """Take a deleted quota; return names of facts, for its pending units to be placed again."""
        if not isinstance(source, ResourceQuota):
            return ()
        meta = source.metadata
        known = self._specs.get(meta.namespace, {})
        if meta.name not in known or known[meta.name].uid != meta.uid:
            return ()
        return self._put(meta.namespace, {n: q for n, q in known.items() if n != meta.name})

    def _put(self, namespace: str, specs: dict[str, QuotaSpec]) -> tuple[str, ...]:
        before = self._quota_of(namespace)
        required = self._required_in(before)
        self._specs[namespace] = specs
        if not specs:
            del self._specs[namespace]
        self.quotas.put_specs(spec for each in self._specs.values() for spec in each.values())
        self._known = frozenset(self.quotas.stated.names())
        after = self._quota_of(namespace)
        if before == after:
            is_same = required == self._required_in(after)
            return () if is_same else (f"quota/{after}", f"namespace/{namespace}")
        for key, pod in self._foreign.items():
            if pod.namespace == namespace:
                self._charge_foreign(key, pod)
        names = tuple(f"quota/{quota}" for quota in sorted({before, after} - {""}))
        return (f"namespace/{namespace}", *names)

    def on_foreign_pod(self, key: str, pod: ForeignPod | None) -> None:
        """Take a pod that no unit stands for; None if it is gone."""
        if pod is None:
            self._foreign.pop(key, None)
            self.quotas.on_foreign(key, "", None)
            return
        self._foreign[key] = pod
        self._charge_foreign(key, pod)

    def charge_of_foreign(self, pod: ForeignPod) -> ForeignCharge | None:
        """Return what a pod that no unit stands for counts in the quota of its namespace.

        Held pods do not count here: their unit is charged.
        """
        if pod.stage is PodStage.HELD:
            return None
        quota = self._quota_of(pod.namespace)
        demand = Demand({**pod.request, PODS: 1})
        return ForeignCharge(quota, demand, pod.stage) if quota else None

    def on_node(self, node: Node) -> None:
        """Do nothing: a ResourceQuota does not depend on nodes."""

    def on_node_gone(self, name: str) -> None:
        """Do nothing: a ResourceQuota does not depend on nodes."""

    def take_notices(self) -> list[Notice]:
        """Return, once, new problems of quotas, as events on them."""
        return [self._notice(problem) for problem in self._take_new_problems()]

    def _notice(self, problem: QuotaProblem) -> Notice:
        namespace, _, name = problem.quota.rpartition("/")
        found = self._specs.get(namespace, {}).get(name)
        return Notice(
            kind=NAME,
            key=problem.quota,
            uid=NO_UID if found is None else found.uid,
            reason=problem.kind,
            note=problem.text,
        )

    def why_not_ready(self, queue: Queue) -> Refusal | None:
        """Return None: units of every namespace may name any queue."""
        return None

    # --- copies -------------------------------------------------------------------------------

    def fork(self) -> ResourceQuotaPlugin:
        """Return an independent plugin with the same usage."""
        twin = ResourceQuotaPlugin(self._settings.required_requests)
        twin._take_over(self)
        twin._specs = dict(self._specs)  # what is in it is replaced, never changed
        twin._foreign = dict(self._foreign)
        return twin


def _count_requested(unit: QueueUnit) -> int:
    """Return how many pods a unit asks for (`UnitDemand.pods`)."""
    pod_sets = unit.spec.pod_set
    return sum(pod_set.count for pod_set in pod_sets) if pod_sets else 1
