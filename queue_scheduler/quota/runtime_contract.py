"""The promise a queue may make ahead of koord-scheduler, from scratch.

koord-scheduler computes runtimes from the requests of pods that exist; a job held back has none
(DECISIONS.md 15). So the queue adds the job's demand J to the demand D of everything expected,
divides again, and admits the job when nothing it promised before breaks. In this order:

1. limit: the whole demand of the job's quota is within its new runtime, on every key of it.
2. min: a non-preemptible job fits its quota's min.
3. parent (setting checkParent): so do the ancestors' subtrees within theirs, on the job's keys.
4. admission (a gate of koord-scheduler's pod webhook).
5. hurts: every other quota whose demand was covered still is.

When every demand is covered at once, any part of the pods in any order of scheduling is, too.

This form divides the whole tree twice for one answer. The quota cache uses it if koord-scheduler's
gate ElasticQuotaGuaranteeUsage is on, and is tested against it otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from queue_scheduler.decision import Reason
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_tree import QuotaNode, QuotaTree
from queue_scheduler.quota.runtime_division import (
    Division,
    DivisionRules,
    DivisionState,
    compute_division,
)
from shared_api.resource_list import Amounts, add

OwnAmounts = Mapping[str, Mapping[str, int]]
"""Amounts of each quota itself, without its children, masked to the keys of its max."""


class ContractRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that the contract depends on; `admission` and `reclaim` are for test vectors.

    `by_resource` protects each covered resource of a quota separately. Without it, a quota that
    lacks one resource may be hurt on all others, as step 5 has it; with it, less is promised.
    """

    division: DivisionRules
    check_parent: bool = False
    uses_runtime: bool = True
    reclaim: bool = False
    by_resource: bool = False
    admission: Mapping[str, Amounts] | None = None
    states: tuple[DivisionState, ...] = (DivisionState(),)
    claims: Mapping[str, Amounts] = {}
    """What pods of each quota ask for that cannot be bound now: the division counts it, and nothing
    is promised to them."""


class ContractBreach(msgspec.Struct, frozen=True):
    """The first step of the contract that fails: at which quota, on which resources."""

    reason: Reason
    quota: str
    exceed: tuple[str, ...]
    limit: Mapping[str, int]
    demand: Mapping[str, int]


def find_breach(
    tree: QuotaTree,
    demands: OwnAmounts,
    np_demands: OwnAmounts,
    total: Mapping[str, int],
    quota: str,
    job: Demand,
    rules: ContractRules,
) -> ContractBreach | None:
    """Return what admitting `job` to `quota` would break, or None.

    `demands` has everything expected in each quota itself; `total` is the sum of the nodes, from
    which the demand of the default and system quota is subtracted. `job` is already masked. All
    states in `rules.states` are possible, so the promise must hold in each.
    """
    after = {**demands, quota: add(demands.get(quota, {}), job.amounts)}
    covers: list[tuple[Covering, Covering]] = []
    for state in rules.states:
        # The first pod of the job seeds its quota.
        seeded = msgspec.structs.replace(state, unseeded=state.unseeded - {quota})
        before = Covering(tree, demands, total, rules, state, demands)
        covers.append((before, Covering(tree, after, total, rules, seeded, demands)))
    steps: tuple[Callable[[Covering, Covering], ContractBreach | None], ...] = (
        lambda _, then: _over_limit(then, quota, rules),
        lambda _, then: _over_min(then, np_demands, quota, job),
        lambda _, then: _over_parents(then, quota, job, rules),
        lambda _, then: _over_admission(then, quota, job, rules),
        lambda before, then: _hurts(before, then, quota, rules),
    )
    for step in steps:
        for before, then in covers:
            breach = step(before, then)
            if breach is not None:
                return breach
    return None


class Covering:
    """Demands of a tree with the runtimes that follow from them.

    `used` is the assigned part: it counts only with the gate ElasticQuotaGuaranteeUsage.
    """

    def __init__(
        self,
        tree: QuotaTree,
        demands: OwnAmounts,
        total: Mapping[str, int],
        rules: ContractRules,
        state: DivisionState,
        used: OwnAmounts,
    ) -> None:
        self.tree = tree
        self.demands = demands
        left = dict(total)
        for name in tree.special_names:
            left = {key: amount - demands.get(name, {}).get(key, 0) for key, amount in left.items()}
        requested = dict(demands)
        for name, amounts in rules.claims.items():
            requested[name] = add(requested.get(name, {}), amounts)
        self.division: Division = compute_division(
            tree, requested, left, rules.division, own_used=used, state=state
        )

    def subtree_demand(self, node: QuotaNode) -> Amounts:
        """Return the demand of a quota and everything below it."""
        total = dict(self.demands.get(node.name, {}))
        for child in node.children:
            total = add(total, self.subtree_demand(child))
        return total

    def uncovered_keys(self, node: QuotaNode) -> tuple[str, ...]:
        """Return the keys on which the demand exceeds the runtime."""
        return _over(self.subtree_demand(node), self.division.runtime[node.name])


def _over(amounts: Mapping[str, int], limit: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(sorted(key for key in amounts if key in limit and amounts[key] > limit[key]))


def _over_limit(then: Covering, quota: str, rules: ContractRules) -> ContractBreach | None:
    node = then.tree.nodes.get(quota)
    if node is None or (node.is_special and rules.uses_runtime):
        return None
    limit = then.division.runtime[quota] if rules.uses_runtime else node.spec.max
    demand = then.subtree_demand(node)
    exceed = _over(demand, limit)
    if not exceed:
        return None
    reason = Reason.OVER_RUNTIME if rules.uses_runtime else Reason.OVER_QUOTA_MAX
    return ContractBreach(reason, quota, exceed, limit, demand)


def _over_min(
    then: Covering, np_demands: OwnAmounts, quota: str, job: Demand
) -> ContractBreach | None:
    node = then.tree.nodes.get(quota)
    if not job.non_preemptible or node is None or node.is_special:
        return None
    demand = dict(job.amounts)
    for name, amounts in np_demands.items():
        if node in (then.tree.nodes[name].chain if name in then.tree.nodes else ()):
            demand = add(demand, amounts)
    exceed = _over(demand, node.spec.min)
    if not exceed:
        return None
    return ContractBreach(Reason.NON_PREEMPTIBLE_OVER_MIN, quota, exceed, node.spec.min, demand)


def _over_parents(
    then: Covering, quota: str, job: Demand, rules: ContractRules
) -> ContractBreach | None:
    node = then.tree.nodes.get(quota)
    if not rules.check_parent or node is None or node.is_special:
        return None
    for parent in node.chain[1:]:
        limit = then.division.runtime[parent.name] if rules.uses_runtime else parent.spec.max
        demand = then.subtree_demand(parent)
        exceed = tuple(key for key in _over(demand, limit) if key in job.amounts)
        if exceed:
            reason = Reason.OVER_PARENT_MAX
            if rules.uses_runtime:
                reason = Reason.OVER_PARENT_RUNTIME
            return ContractBreach(reason, parent.name, exceed, limit, demand)
    return None


def _over_admission(
    then: Covering, quota: str, job: Demand, rules: ContractRules
) -> ContractBreach | None:
    node = then.tree.nodes.get(quota)
    if rules.admission is None or node is None:
        return None
    limit = rules.admission.get(quota, node.spec.max)
    demand = then.demands[quota]
    exceed = tuple(key for key in _over(demand, limit) if key in job.amounts)
    return ContractBreach(Reason.OVER_QUOTA_MAX, quota, exceed, limit, demand) if exceed else None


def _hurts(
    before: Covering, then: Covering, quota: str, rules: ContractRules
) -> ContractBreach | None:
    if not rules.uses_runtime:
        return None
    for node in holders(then.tree, then.demands):
        lacking = before.uncovered_keys(node)
        if node.name == quota or (lacking and not rules.by_resource):
            continue
        exceed = tuple(key for key in then.uncovered_keys(node) if key not in lacking)
        if exceed and not (rules.reclaim and _may_reclaim(then, quota, node, exceed)):
            limit = then.division.runtime[node.name]
            demand = then.subtree_demand(node)
            return ContractBreach(Reason.HURTS_OTHERS, node.name, exceed, limit, demand)
    return None


def _may_reclaim(then: Covering, quota: str, victim: QuotaNode, exceed: Sequence[str]) -> bool:
    owner = then.tree.nodes.get(quota)
    if owner is None:
        return False
    is_owed = not _over(then.demands[quota], {k: owner.spec.min.get(k, 0) for k in owner.spec.max})
    has_borrowed = all(
        then.demands[victim.name].get(key, 0) > victim.spec.min.get(key, 0) for key in exceed
    )
    return is_owed and has_borrowed


def holders(tree: QuotaTree, demands: OwnAmounts) -> list[QuotaNode]:
    """Return the quotas whose coverage counts: leaves, and parents with demand of their own."""
    return [
        node
        for node in tree.top_down()
        if not node.is_special and (not node.children or demands.get(node.name))
    ]
