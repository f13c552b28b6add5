"""ElasticQuota: maps units to nodes of an ElasticQuotaTree, and checks and charges them.

(This is upstream's name for the plugin; the one for ElasticQuota objects is ElasticQuotaV2.)

Quota: a label of the unit names a node by its path or, if no other node has it, by its own name;
else it is the node that lists the unit's namespace, else the one that lists `*`. Queue:
`koord-queue/queue-name`, if that queue takes the quota; else the queue of the node
(`quota.tree_queue_names`). Of several trees, the oldest counts.

A unit also counts as one job, for limits of `koord-queue/max-jobs`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
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
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaKind, QuotaMode, QuotaSettings
from queue_scheduler.quota.quota_tree_spec import parse_tree
from queue_scheduler.quota.tree_node_lookup import TreeNodeLookup, short_name
from queue_scheduler.quota.tree_queue_names import named_node
from queue_scheduler.quota_cache.reclaim import LentUsage
from queue_scheduler.quota_plugin import QuotaPlugin
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import Uid
from shared_api.objects.namespace import Namespace
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import (
    ALL_QUOTAS,
    MAX_JOBS,
    MAX_PREEMPTIBLE_JOBS,
    QUOTA_FULLNAME,
    TREE_PREEMPTIBLE,
    read_annotation,
    read_available_quotas,
    read_tree_quota_name,
)

NAME: Final = "ElasticQuota"
"""The name under which upstream's configuration lists this plugin."""

_KIND: Final = "ElasticQuotaTree"
_DOMAIN: Final = "elastic-quota-tree"
"""All quotas have an ancestor in common, the root."""

_ONE_JOB: Final = {MAX_JOBS: 1}
_ONE_PREEMPTIBLE_JOB: Final = {MAX_JOBS: 1, MAX_PREEMPTIBLE_JOBS: 1}


class ElasticQuotaTreePlugin(QuotaPlugin):
    """Maps units to quota and queue, and keeps the usage of the tree.

    Args:
        oversell_rate: Multiplies every max, and the min for non-preemptible units.
        checks_hungry: Whether a unit above its quota's min is refused while another waits within
            its own min and needs that room.
        checks_available: Whether a namespace must list the quotas that its units name.
        required_requests: Resources that every pod must request.
    """

    name = NAME

    def __init__(
        self,
        oversell_rate: Fraction,
        *,
        checks_hungry: bool = False,
        checks_available: bool = False,
        required_requests: frozenset[str] = frozenset(),
    ) -> None:
        settings = QuotaSettings(
            mode=QuotaMode.MAX,
            kind=QuotaKind.TREE,
            oversell_numerator=oversell_rate.numerator,
            oversell_denominator=oversell_rate.denominator,
            required_requests=required_requests,
        )
        super().__init__(settings)
        self._oversell_rate = oversell_rate
        self._checks_hungry = checks_hungry
        self.judges_namespaces = checks_available
        self._trees: dict[str, ElasticQuotaTree] = {}
        self._nodes = TreeNodeLookup(checks_available=checks_available)
        self._reported_younger: frozenset[Uid] = frozenset()

    # --- mapping ------------------------------------------------------------------------------

    def map_unit(self, unit: QueueUnit, queues: QueueDirectory) -> Mapped | Unmapped:
        """Return the unit's quota and queue, or what is missing."""
        meta = unit.metadata
        label = read_tree_quota_name(meta.labels)
        found = self._nodes.look_up(label, meta.namespace)
        waits_for: tuple[str, ...] = (f"namespace/{meta.namespace}",)
        chosen = read_chosen_queue(unit)
        if len(found.paths) != 1:
            return Unmapped(_why_none(label, meta.namespace, found.paths), waits_for, chosen)
        quota = found.paths[0]
        name = chosen or found.queue
        waits_for = (*waits_for, f"quota/{quota}", f"queue/{name}")
        if not found.is_available:
            reason = Reason.QUOTA_NOT_IN_NAMESPACE
            refusal = Refusal(reason=reason, quota=quota, other=meta.namespace)
            return Unmapped(refusal, waits_for, name)
        queue = queues.queue(name)
        if queue is None:
            refusal = Refusal(reason=Reason.NO_QUEUE, quota=quota, other=name)
            return Unmapped(refusal, waits_for, name)
        if name != found.queue and not _takes_quota(queue, quota):
            refusal = Refusal(reason=Reason.QUOTA_NOT_IN_QUEUE, quota=quota, other=name)
            return Unmapped(refusal, waits_for, name)
        return Mapped(quota=quota, queue=name)

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        """Return the unit's quota and its ancestors; () if it is unknown.

        A name without a node has no path, so nothing could be charged under it.
        """
        return self._chain(read_tree_quota_name(unit.metadata.labels), unit.metadata.namespace)

    def quota_of_pod(self, namespace: str, labels: dict[str, str]) -> str:
        """Return the quota that units with such labels are charged to, or ""."""
        return next(iter(self._chain(read_tree_quota_name(labels), namespace)), "")

    def is_non_preemptible(self, labels: dict[str, str]) -> bool:
        """Return whether the label that counts only in trees forbids preemption."""
        return labels.get(TREE_PREEMPTIBLE) == "false"

    def _chain(self, label: str, namespace: str) -> tuple[str, ...]:
        paths = self._nodes.look_up(label, namespace).paths
        if len(paths) != 1:
            return ()
        return self.quotas.chain(paths[0]) or paths

    # --- deciding -----------------------------------------------------------------------------

    def class_key(self, unit: QueueUnit) -> Hashable:
        """Return None: the answer depends only on quota, demand and preemptibility."""
        return None

    def demand_of(self, info: QueueUnitInfo) -> Demand:
        """Return the unit's amounts, and one job."""
        return _job(info.demand.total, non_preemptible=info.non_preemptible)

    def demands_of(self, added: Sequence[Supposed]) -> list[tuple[str, Demand]]:
        """Return the amounts and one job each, as (quota, demand) pairs."""
        return [
            (one.quota, _job(one.amounts, non_preemptible=one.non_preemptible)) for one in added
        ]

    def resize(
        self, uid: Uid, quota: str, amounts: Amounts, *, non_preemptible: bool, pods: int
    ) -> None:
        """Charge exactly this for the uid, whether it fits or not."""
        self.quotas.charge(uid, quota, _job(amounts, non_preemptible=non_preemptible))

    # --- waiting ------------------------------------------------------------------------------

    def domain_of(self, quota: str) -> str:
        """Return the one domain in which all units of a tree compete."""
        return _DOMAIN if self.quotas.chain(quota) else ""

    def protect(self, quota: str, info: QueueUnitInfo | None) -> None:
        """Pass the first pending unit of a quota to the quota cache, if that makes a difference."""
        if self._checks_hungry and (info is None or self.knows_quota(quota)):
            self.quotas.protect(quota, None if info is None else self.demand_of(info))

    def lent_to(
        self, info: QueueUnitInfo, leaving: Iterable[Uid], *, outranks: bool
    ) -> LentUsage | None:
        """Return what may be reclaimed if hungry quotas are checked; None: any unit."""
        return super().lent_to(info, leaving, outranks=outranks) if self._checks_hungry else None

    # --- facts --------------------------------------------------------------------------------

    def on_quota_source(self, source: QuotaSource) -> tuple[str, ...]:
        """Take a tree or a namespace; return names of facts by which units may be placed anew."""
        if isinstance(source, Namespace):
            return self._nodes.put_namespace(source.metadata.name, source.metadata.annotations)
        if not isinstance(source, ElasticQuotaTree):
            return ()
        self._trees[source.metadata.key] = source
        return self._grow()

    def on_quota_source_gone(self, source: QuotaSource) -> tuple[str, ...]:
        """Take a deleted tree or namespace; return names of facts, for units to be placed again."""
        if isinstance(source, Namespace):
            return self._nodes.put_namespace(source.metadata.name, {})
        key = source.metadata.key
        known = self._trees.get(key)
        if not isinstance(source, ElasticQuotaTree) or known is None:
            return ()
        if known.metadata.uid != source.metadata.uid:
            return ()
        del self._trees[key]
        return self._grow()

    def _grow(self) -> tuple[str, ...]:
        tree = self._tree()
        specs = [] if tree is None else parse_tree(tree)
        before = {path: self._required_in(path) for path in self._known}
        self.quotas.put_specs(specs)
        names = self._nodes.put({spec.name: spec.namespaces for spec in specs})
        self._known = frozenset(self._nodes.paths())
        differing = (path for path in before if before[path] != self._required_in(path))
        return (*names, *(f"quota/{path}" for path in sorted(differing)))

    def _tree(self) -> ElasticQuotaTree | None:
        return min(self._trees.values(), key=_age, default=None)

    def on_queue(self, queue: Queue) -> tuple[str, ...]:
        """Take which node a queue says it belongs to; return names of facts that changed."""
        return self._nodes.put_queue(queue.metadata.name, named_node(queue))

    def on_queue_gone(self, name: str) -> tuple[str, ...]:
        """Take a deleted queue; return names of facts that changed."""
        return self._nodes.put_queue(name, None)

    def on_node(self, node: Node) -> None:
        """Do nothing: the tree states the capacity."""

    def on_node_gone(self, name: str) -> None:
        """Do nothing: the tree states the capacity."""

    def on_foreign_pod(self, key: str, pod: ForeignPod | None) -> None:
        """Do nothing: only units count."""

    def take_notices(self) -> list[Notice]:
        """Return, once, new problems of the tree, as events on it."""
        tree = self._tree()
        found = [
            _notice(tree, problem.kind, f"{problem.quota}: {problem.text}")
            for problem in self._take_new_problems()
            if tree is not None
        ]
        younger = [each for each in self._trees.values() if each is not tree]
        reported, uids = self._reported_younger, (each.metadata.uid for each in younger)
        self._reported_younger = frozenset(uids)
        for each in younger:
            if each.metadata.uid not in reported and tree is not None:
                note = f"one tree counts, and {tree.metadata.key} is older"
                found.append(_notice(each, "SecondTree", note))
        return found

    def why_not_ready(self, queue: Queue) -> Refusal | None:
        """Return why none of the quotas that the queue takes can admit anything; None: one can."""
        quotas = [path for path in self._nodes.paths() if _takes_quota(queue, path)]
        if not quotas:
            name = read_annotation(queue.metadata.annotations, QUOTA_FULLNAME)
            return Refusal(reason=Reason.NO_QUOTA, quota=name or queue.metadata.name)
        if any(self.quotas.chain(quota) for quota in quotas):
            return None
        return self._why_broken(min(quotas))

    # --- copies -------------------------------------------------------------------------------

    def fork(self) -> ElasticQuotaTreePlugin:
        """Return an independent plugin with the same usage."""
        twin = ElasticQuotaTreePlugin(
            self._oversell_rate,
            checks_hungry=self._checks_hungry,
            checks_available=self.judges_namespaces,
            required_requests=self._settings.required_requests,
        )
        twin._take_over(self)
        twin._trees = dict(self._trees)
        twin._nodes = self._nodes.fork()
        twin._reported_younger = self._reported_younger
        return twin


def _why_none(label: str, namespace: str, paths: tuple[str, ...]) -> Refusal:
    if paths:
        detail = " and ".join((", ".join(paths[:-1]), paths[-1]))
        return Refusal(reason=Reason.AMBIGUOUS_QUOTA, quota=label, detail=detail)
    if label:
        return Refusal(reason=Reason.NO_QUOTA, quota=label, other=namespace)
    return Refusal(reason=Reason.NO_QUOTA, other=namespace)


def _takes_quota(queue: Queue, quota: str) -> bool:
    annotations: Mapping[str, str] = queue.metadata.annotations
    if read_annotation(annotations, QUOTA_FULLNAME) == quota:
        return True
    listed = read_available_quotas(annotations)
    return not listed.isdisjoint((ALL_QUOTAS, quota, short_name(quota)))


def _job(amounts: Amounts, *, non_preemptible: bool) -> Demand:
    counts = _ONE_JOB if non_preemptible else _ONE_PREEMPTIBLE_JOB
    return Demand({**amounts, **counts}, non_preemptible)


def _age(tree: ElasticQuotaTree) -> tuple[str, str]:
    return (tree.metadata.creation_timestamp, tree.metadata.key)


def _notice(tree: ElasticQuotaTree, reason: str, note: str) -> Notice:
    meta = tree.metadata
    return Notice(kind=_KIND, key=meta.key, uid=meta.uid, reason=reason, note=note)
