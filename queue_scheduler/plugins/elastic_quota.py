"""ElasticQuotaV2: maps units to ElasticQuotas, and checks and charges them.

The arithmetic is in `queue_scheduler.quota`; this plugin connects it to the framework: which quota
and queue a unit belongs to, and the translation of facts and refusals.

Quota: the one that the unit's label names, else its namespace's quota by koord-scheduler's rule
(the default quota never counts). Queue: `koord-queue/queue-name`, else `spec.queue`, else the queue
with the quota's name. Any other queue must list the quota in its annotation
`koord-queue/available-quota-in-queue` (or `koord-queue/available-quota`; `*` lists all).

Which namespaces may name a quota is either unrestricted or limited to the quota's own namespace,
those that it lists, and those whose annotation lists it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Final

from queue_scheduler.decision import Notice, Reason, Refusal
from queue_scheduler.framework.extension_points import (
    ForeignPod,
    Mapped,
    QueueDirectory,
    QuotaSource,
    Reclaimer,
    ReclaimTerms,
    Supposed,
    Unmapped,
)
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.quota.capacity import NodeCapacity
from queue_scheduler.quota.quota_decision import Demand, MinRunTime, PodStage, QuotaProblem
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.quota.quota_spec import ReclaimPolicy
from queue_scheduler.quota_cache.pressing_pods import PRESSED, PressingPod, PressingPods
from queue_scheduler.quota_cache.quota_ledger import ForeignCharge
from queue_scheduler.quota_cache.reclaim import find_borrowing, find_min_run_time, find_owners
from queue_scheduler.quota_plugin import QuotaPlugin
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import NO_UID, Uid
from shared_api.objects.namespace import Namespace
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.quota_names import is_parking, read_namespaces
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import (
    ALL_QUOTAS,
    PREEMPTIBLE,
    read_available_quotas,
    read_queue_name,
    read_quota_name,
    read_quotas_of_namespace,
)

NAME: Final = "ElasticQuotaV2"
"""The name under which upstream's configuration lists this plugin."""

_PARKS: Final = "{} only parks pods at the gate, and no unit is charged to it; name another"


class ElasticQuotaPlugin(QuotaPlugin):
    """Maps units to quota and queue, and keeps the usage of ElasticQuotas.

    Args:
        settings: Settings of the quota cache.
        expected_capacity: Total in base units while there is no node; None: no expectation.
        checks_namespaces: Whether a unit may name a quota only if the quota or the namespace lists
            the other.
    """

    name = NAME

    def __init__(
        self,
        settings: QuotaSettings,
        expected_capacity: Amounts | None = None,
        *,
        checks_namespaces: bool = False,
    ) -> None:
        super().__init__(settings)
        self._expected_capacity = expected_capacity
        self.judges_namespaces = checks_namespaces
        # Quotas that namespaces list, by namespace; namespaces that list none are absent.
        self._available: dict[str, frozenset[str]] = {}
        # The quotas that only held pods name, by key: no unit is charged to them.
        self._parking: dict[str, str] = {}
        self._capacity = NodeCapacity()
        self._foreign: dict[str, ForeignPod] = {}
        # Those of them that have no node: which of these fit one changes with the nodes.
        self._unbound: dict[str, None] = {}
        # Which of them press which resource of which tree, until a pod or a quota changes.
        self._pressing: dict[tuple[str, str], PressingPods] = {}
        self._problems_may_differ = False
        self._uids: dict[str, Uid] = {}
        self._namespaces: dict[str, frozenset[str]] = {}
        self._report_capacity()

    # --- mapping ------------------------------------------------------------------------------

    def map_unit(self, unit: QueueUnit, queues: QueueDirectory) -> Mapped | Unmapped:
        """Return the unit's quota and queue, or what is missing."""
        meta = unit.metadata
        quota = read_quota_name(meta.labels)
        by_namespace = () if quota else (f"namespace/{meta.namespace}",)
        quota = quota or self.quotas.stated.by_name.quota_of_namespace(meta.namespace)
        name = read_queue_name(meta.labels, meta.annotations) or unit.spec.queue or quota
        # A quota that exists but is unusable still places its units: the quota cache refuses them,
        # and wakes them once the quota is repaired.
        if quota not in self._known:
            detail = _PARKS.format(quota) if quota in self._parking.values() else ""
            refusal = Refusal(
                reason=Reason.NO_QUOTA, quota=quota, other=meta.namespace, detail=detail
            )
            return Unmapped(refusal, (*by_namespace, f"quota/{quota}"), name)
        if not self._is_available(quota, meta.namespace):
            reason = Reason.QUOTA_NOT_IN_NAMESPACE
            refusal = Refusal(reason=reason, quota=quota, other=meta.namespace)
            return Unmapped(refusal, (f"namespace/{meta.namespace}", f"quota/{quota}"), name)
        queue = queues.queue(name)
        waits_for = (*by_namespace, f"quota/{quota}", f"queue/{name}")
        if queue is None:
            refusal = Refusal(reason=Reason.NO_QUEUE, quota=quota, other=name)
            return Unmapped(refusal, waits_for, name)
        if name != quota and not _takes_quota(queue, quota):
            refusal = Refusal(reason=Reason.QUOTA_NOT_IN_QUEUE, quota=quota, other=name)
            return Unmapped(refusal, waits_for, name)
        return Mapped(quota=quota, queue=name)

    def _is_available(self, quota: str, namespace: str) -> bool:
        if not self.judges_namespaces:
            return True
        return self.quotas.stated.by_name.may_name(
            quota, namespace, self._available.get(namespace, ())
        )

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        """Return the unit's quota and its ancestors; the quota alone if it is unknown."""
        meta = unit.metadata
        quota = self.quotas.stated.by_name.quota_of(meta.labels, meta.namespace)
        return self.quotas.chain(quota) or ((quota,) if quota else ())

    def quota_of_pod(self, namespace: str, labels: dict[str, str]) -> str:
        """Return the quota that koord-scheduler charges a pod to."""
        return self.quotas.stated.by_name.quota_of_pod(labels, namespace)

    # --- deciding -----------------------------------------------------------------------------

    def class_key(self, unit: QueueUnit) -> Hashable:
        """Return None: the answer depends only on quota, demand and preemptibility."""
        return None

    def demand_of(self, info: QueueUnitInfo) -> Demand:
        """Return the unit's amounts."""
        return Demand(info.demand.total, info.non_preemptible)

    def demands_of(self, added: Sequence[Supposed]) -> list[tuple[str, Demand]]:
        """Return the amounts, as (quota, demand) pairs."""
        return [
            (one.quota, Demand(one.amounts, one.non_preemptible, firm=one.firm)) for one in added
        ]

    def resize(
        self, uid: Uid, quota: str, amounts: Amounts, *, non_preemptible: bool, pods: int
    ) -> None:
        """Charge exactly this for the uid, whether it fits or not."""
        self.quotas.charge(uid, quota, Demand(amounts, non_preemptible))

    def resize_partly_firm(
        self, uid: Uid, quota: str, amounts: Amounts, *, firm: Amounts, pods: int
    ) -> None:
        """Charge exactly this, part of which may not be preempted."""
        self.quotas.charge(uid, quota, Demand(amounts, firm=firm))

    def pods_behind(self, info: QueueUnitInfo, refusal: Refusal) -> tuple[str, ...]:
        """Return the pods without a node that count against a refused unit, in words."""
        if refusal.kind not in PRESSED or not self._unbound:
            return ()
        tree_id = self.quotas.tree_id(info.quota)
        pressing = self._pressing.get((tree_id, refusal.resource))
        if pressing is None:
            pressing = PressingPods(self._find_pressing(tree_id, refusal.resource))
            self._pressing[tree_id, refusal.resource] = pressing
        return pressing.describe(info.unit.metadata.namespace, self.question_of(info).job)

    def _find_pressing(self, tree_id: str, resource: str) -> Iterator[PressingPod]:
        trees, ledger = self.quotas.trees, self.quotas.ledger
        for key in self._unbound:
            charge = ledger.pod(key)
            if charge is None:
                continue
            amount = charge.demand.amounts.get(resource, 0)
            if amount and trees.presses(charge, tree_id, resource):
                yield PressingPod(amount, self._foreign[key].name, charge.job)

    # --- waiting ------------------------------------------------------------------------------

    def domain_of(self, quota: str) -> str:
        """Return the name of what units of a quota compete for; "" if they compete with no others.

        In `runtime` mode that is the tree, because every start changes the division of all of it.
        Otherwise two quotas compete if they have an ancestor in common, that is, the same topmost
        one.
        """
        if self._settings.mode is QuotaMode.RUNTIME:
            return f"tree/{self.quotas.tree_id(quota)}"
        node = self.quotas.trees.nodes.get(quota)
        return "" if node is None else f"quota/{node.chain[-1].name}"

    def protect(self, quota: str, info: QueueUnitInfo | None) -> None:
        """Pass the first pending unit of a quota to the quota cache."""
        self.quotas.protect(quota, None if info is None else self.demand_of(info))

    def reclaim_terms(self, info: QueueUnitInfo) -> ReclaimTerms | None:
        """Let a unit within its quota's min reclaim what others borrow, if its quota says so.

        What counts is what the quota is entitled to: mins that do not fit together are scaled down.
        """
        trees = self.quotas.trees
        node = trees.nodes.get(info.quota)
        if node is None or node.spec.reclaims is ReclaimPolicy.NEVER:
            return None
        only_lower = node.spec.reclaims is ReclaimPolicy.LOWER_PRIORITY
        return ReclaimTerms(find_borrowing(trees, info.quota, self.demand_of(info)), only_lower)

    @property
    def spares(self) -> bool:
        """Whether any quota states how long nothing is reclaimed from a unit."""
        return self.quotas.stated.min_run_times > 0

    @property
    def min_run_changes(self) -> int:
        """A count that increases when other such times may count."""
        return self.quotas.stated.min_run_changes

    def min_run_time(self, quota: str, victim: str) -> MinRunTime | None:
        """Return how long a quota reclaims nothing from a unit of another; None: at once."""
        if not self.spares:
            return None
        return find_min_run_time(self.quotas.trees, quota, victim)

    def _find_reclaimers(self, quota: str, demand: Demand) -> tuple[Reclaimer, ...]:
        """Return the quotas that are owed a part of a charge, and whose policy is to reclaim."""
        trees, domain = self.quotas.trees, self.domain_of(quota)
        policies = [
            (name, trees.nodes[name].spec.reclaims)
            for name in find_owners(trees, quota, demand)
            if self.domain_of(name) == domain  # else nothing that is evicted makes room
        ]
        return tuple(
            Reclaimer(
                name,
                policy is ReclaimPolicy.LOWER_PRIORITY,
                0 if (spared := self.min_run_time(name, quota)) is None else spared.seconds,
            )
            for name, policy in policies
            if policy is not ReclaimPolicy.NEVER
        )

    # --- facts --------------------------------------------------------------------------------

    def on_quota(self, quota: ElasticQuota) -> tuple[str, ...]:
        """Take a quota; return names of facts by which units may be placed anew."""
        return self._change_quota(quota, gone=False)

    def on_quota_gone(self, quota: ElasticQuota) -> tuple[str, ...]:
        """Take a deleted quota; return names of facts, for its pending units to be placed again."""
        return self._change_quota(quota, gone=True)

    def _change_quota(self, quota: ElasticQuota, *, gone: bool) -> tuple[str, ...]:
        meta = quota.metadata
        listed = frozenset({meta.namespace, *read_namespaces(quota)})
        concerned = sorted(listed | self._namespaces.pop(meta.key, frozenset()))
        before = [
            self.quotas.stated.by_name.quota_of_namespace(namespace) for namespace in concerned
        ]
        required = self._required_in(meta.name)
        took = self.quotas.stated.by_name.takers.get(meta.name, frozenset())
        if gone:
            self.quotas.on_quota_gone(meta.namespace, meta.name, meta.uid)
            self._uids.pop(meta.key, None)
        else:
            self._namespaces[meta.key] = listed
            self._uids[meta.key] = meta.uid
            self.quotas.on_quota(quota)
        self._problems_may_differ = True
        self._pressing.clear()
        self._parking.pop(meta.key, None)
        if not gone and is_parking(quota):
            self._parking[meta.key] = meta.name
        # Only quotas that came or went: an edit of amounts moves no unit.
        names_now = frozenset(self.quotas.stated.names()).difference(self._parking.values())
        known, self._known = self._known, names_now
        names = known.symmetric_difference(self._known)
        after = [
            self.quotas.stated.by_name.quota_of_namespace(namespace) for namespace in concerned
        ]
        moved = [ns for ns, was, now in zip(concerned, before, after, strict=True) if was != now]
        if self.judges_namespaces:
            takes = self.quotas.stated.by_name.takers.get(meta.name, frozenset())
            moved = sorted({*moved, *(took ^ takes)})
        if moved or names:
            for key, pod in self._foreign.items():
                self._charge_foreign(key, pod)
        if required != self._required_in(meta.name):
            names |= {meta.name}
        return (
            *(f"quota/{name}" for name in sorted(names)),
            *(f"namespace/{namespace}" for namespace in moved),
        )

    def on_quota_source(self, source: QuotaSource) -> tuple[str, ...]:
        """Take a namespace; return its name as a fact if its units may be placed anew."""
        if not isinstance(source, Namespace):
            return ()
        return self._list_quotas(source, read_quotas_of_namespace(source.metadata.annotations))

    def on_quota_source_gone(self, source: QuotaSource) -> tuple[str, ...]:
        """Take a deleted namespace."""
        return self._list_quotas(source, frozenset()) if isinstance(source, Namespace) else ()

    def _list_quotas(self, namespace: Namespace, listed: frozenset[str]) -> tuple[str, ...]:
        name = namespace.metadata.name
        if self._available.get(name, frozenset()) == listed:
            return ()
        self._available.pop(name, None)
        if listed:
            self._available[name] = listed
        return (f"namespace/{name}",) if self.judges_namespaces else ()

    def on_node(self, node: Node) -> None:
        """Take a node."""
        self._change_capacity(partial(self._capacity.on_node, node))

    def on_node_gone(self, name: str) -> None:
        """Take a deleted node."""
        self._change_capacity(partial(self._capacity.on_node_gone, name))

    def _change_capacity(self, change: Callable[[], None]) -> None:
        before = self._capacity.shapes()
        change()
        self._report_capacity()
        if self._unbound and before != self._capacity.shapes():
            self._pressing.clear()
            for key in self._unbound:
                self._charge_foreign(key, self._foreign[key])

    def _report_capacity(self) -> None:
        self.quotas.on_capacity(self._total())

    def _total(self) -> Amounts | None:
        """Return the sum of the nodes, or the expected capacity while there is no node at all."""
        total = self._capacity.total
        return self._expected_capacity if total is None else total

    def on_foreign_pod(self, key: str, pod: ForeignPod | None) -> None:
        """Take a pod that no unit stands for; None if it is gone."""
        self._pressing.clear()
        if pod is None:
            self._foreign.pop(key, None)
            self._unbound.pop(key, None)
            self.quotas.on_foreign(key, "", None)
            return
        self._foreign[key] = pod
        if pod.stage is PodStage.BOUND:
            self._unbound.pop(key, None)
        else:
            self._unbound[key] = None
        self._charge_foreign(key, pod)

    def charge_of_foreign(self, pod: ForeignPod) -> ForeignCharge:
        """Return what koord-scheduler charges for a pod that no unit stands for."""
        quota = self.quotas.stated.by_name.quota_of_pod(pod.labels, pod.namespace)
        demand = Demand(pod.request, pod.labels.get(PREEMPTIBLE) == "false")
        stage = pod.stage
        if stage is PodStage.PENDING and not self._capacity.fits_a_node(pod.request):
            stage = PodStage.STUCK
        return ForeignCharge(quota, demand, stage, pod.job)

    def take_notices(self) -> list[Notice]:
        """Return, once, new problems of quotas, as events on them."""
        if not self._problems_may_differ:
            return []
        self._problems_may_differ = False
        return [self._notice(problem) for problem in self._take_new_problems()]

    def _notice(self, problem: QuotaProblem) -> Notice:
        # Keyed by object, not by name: some problems are about two quotas of one name.
        key = f"{problem.namespace}/{problem.quota}"
        uid = self._uids.get(key, NO_UID)
        kind, note = "ElasticQuota", problem.text
        return Notice(kind=kind, key=key, uid=uid, reason=problem.kind, note=note)

    def why_not_ready(self, queue: Queue) -> Refusal | None:
        """Return why none of the queue's quotas can admit anything; None: one can."""
        name, listed = queue.metadata.name, read_available_quotas(queue.metadata.annotations)
        quotas = self._known if ALL_QUOTAS in listed else self._known & {name, *listed}
        if not quotas:
            return Refusal(reason=Reason.NO_QUOTA, quota=name)
        if any(self.quotas.chain(quota) for quota in quotas):
            lacks_nodes = self._settings.mode is QuotaMode.RUNTIME and self._total() is None
            return Refusal(reason=Reason.NO_CAPACITY) if lacks_nodes else None
        return self._why_broken(name if name in quotas else min(quotas))

    # --- copies -------------------------------------------------------------------------------

    def fork(self) -> ElasticQuotaPlugin:
        """Return an independent plugin with the same usage."""
        twin = ElasticQuotaPlugin(
            self._settings, self._expected_capacity, checks_namespaces=self.judges_namespaces
        )
        twin._available = dict(self._available)
        twin._parking = dict(self._parking)
        twin._take_over(self)
        twin._capacity = self._capacity.fork()
        twin._foreign = dict(self._foreign)
        twin._unbound = dict(self._unbound)
        twin._uids = dict(self._uids)
        twin._namespaces = dict(self._namespaces)
        return twin


def _takes_quota(queue: Queue, quota: str) -> bool:
    return not {ALL_QUOTAS, quota}.isdisjoint(read_available_quotas(queue.metadata.annotations))
