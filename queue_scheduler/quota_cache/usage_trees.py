"""The trees built from quotas, nodes and the ledger, with sums that are updated by every charge.

Rebuilt when a quota or the nodes' total changes, from sums per quota name, so the cost grows with
the quotas and not with the units. A fork is cheaper: it shares what depends only on the quotas.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import assert_never

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.koord_scheduler_state import unrefreshed_quotas
from queue_scheduler.quota.quota_decision import (
    Demand,
    PodStage,
    ProblemKind,
    QuotaProblem,
    Rule,
)
from queue_scheduler.quota.quota_settings import (
    QuotaKind,
    QuotaMode,
    QuotaSettings,
    SpecialQuotas,
)
from queue_scheduler.quota.quota_spec import QuotaSpec, effective_weight
from queue_scheduler.quota.quota_tree import QuotaForest, build_forest, tree_totals
from queue_scheduler.quota_cache.admission_record import AdmissionNotes
from queue_scheduler.quota_cache.full_runtime_check import check_from_scratch
from queue_scheduler.quota_cache.limit_checks import (
    check_max,
    check_min,
    check_non_preemptible,
    check_overused,
    check_total,
    room,
)
from queue_scheduler.quota_cache.min_guarantee import Entitlements, ProtectedDemands, room_beside
from queue_scheduler.quota_cache.quota_ledger import (
    Account,
    ChargedSums,
    ForeignCharge,
    QuotaLedger,
)
from queue_scheduler.quota_cache.runtime_check import RuntimeCheck
from queue_scheduler.quota_cache.runtime_wake_check import find_waiters_to_recheck
from queue_scheduler.quota_cache.runtime_wake_index import Scopes
from queue_scheduler.quota_cache.tree_usage import Items, NodeUsage, TreeUsage
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import DEFAULT_QUOTA, SYSTEM_QUOTA


class UsageTrees:
    """The NodeUsage of every quota by name (`nodes`), and the trees by tree id.

    `notes` has, by quota, what notes its admissions, once there was one (`open_notes`).
    """

    __slots__ = (
        "_counts_pending",
        "_is_quota_tree",
        "_mode",
        "_problems",
        "entitlements",
        "forest",
        "nodes",
        "notes",
        "settings",
        "trees",
        "walks",
    )

    def __init__(
        self,
        settings: QuotaSettings,
        forest: QuotaForest,
        trees: dict[str, TreeUsage],
        entitlements: Entitlements,
        walks: dict[str, RuntimeCheck],
    ) -> None:
        """Take these trees, in which everything is charged already (`build_usage_trees`)."""
        self.settings = settings
        self._mode = settings.mode
        self._is_quota_tree = settings.kind is QuotaKind.TREE
        self._problems: dict[str, list[QuotaProblem]] | None = None
        self.notes: dict[str, AdmissionNotes] = {}
        self._counts_pending = settings.foreign_pending
        self.forest = forest
        self.trees = trees
        self.nodes: dict[str, NodeUsage] = {
            name: node for tree in trees.values() for name, node in tree.nodes.items()
        }
        self.entitlements = entitlements
        self.walks = walks

    def fork(self) -> UsageTrees:
        """Return independent trees with the same sums."""
        trees = {tree_id: tree.fork() for tree_id, tree in self.trees.items()}
        walks = {tree_id: walk.fork(trees[tree_id]) for tree_id, walk in self.walks.items()}
        return UsageTrees(self.settings, self.forest, trees, self.entitlements.fork(), walks)

    # --- charging -------------------------------------------------------------------------------

    def node_of_unit(self, quota: str) -> NodeUsage:
        """Return where a unit is charged: in the orphans if its quota is in no tree."""
        node = self.nodes.get(quota)
        return self.trees[""].orphans if node is None else node

    def node_of_pod(self, quota: str) -> NodeUsage:
        """Return where a foreign pod is charged.

        A quota that does not exist counts as the default quota, as for koord-scheduler.
        """
        node = self.nodes.get(quota)
        if node is not None:
            return node
        if quota in self.forest.broken:
            return self.trees[""].orphans
        return self.nodes[DEFAULT_QUOTA]

    def charge_unit(
        self, quota: str, demand: Demand, sign: int, checked: Items | None = None
    ) -> NodeUsage:
        """Add (1) or take back (-1) a charge; return where it was charged.

        Args:
            quota: Its name.
            demand: What is charged.
            sign: 1 or -1.
            checked: Its counted amounts, if `check` has just let it through.
        """
        node = self.nodes.get(quota) or self.trees[""].orphans
        _charge(node, demand, sign, commits=True, items=checked)
        if checked is not None and node.tree.divides and not self.settings.guarantee_usage:
            self.walks[node.tree.tree.tree_id].keep_divisions()
        return node

    def charge_pod(self, pod: ForeignCharge, sign: int) -> NodeUsage | None:
        """Add or take back a foreign pod; return where, or None if such pods do not count."""
        if not self._counts(pod.stage):
            return None
        node = self.node_of_pod(pod.quota)
        if self._is_claim(node, pod.stage):
            items = node.counted(pod.demand.amounts)
            node.tree.charge_claim(node, [(key, sign * amount) for key, amount in items])
        else:
            _charge(node, pod.demand, sign, commits=pod.is_bound)
        return node

    def presses(self, pod: ForeignCharge, tree_id: str, resource: str) -> bool:
        """Return whether a pod without a node counts against the units of a tree."""
        node = self.node_of_pod(pod.quota)
        is_there = node.tree.tree.tree_id == tree_id and node.counts(resource)
        return is_there and self._counts(pod.stage) and (node.is_special or bool(pod.job))

    def _counts(self, stage: PodStage) -> bool:
        """Return whether foreign pods at a stage count.

        The queue knows all held pods, and they will be released: whatever is set about pending
        pods, they claim their share.
        """
        if stage is PodStage.HELD:
            return self._mode is QuotaMode.RUNTIME
        return self.settings.counts_foreign and (stage is PodStage.BOUND or self._counts_pending)

    def _is_claim(self, node: NodeUsage, stage: PodStage) -> bool:
        """Return whether pods only claim a share of a quota.

        What the default and the system quota use is taken off the total. A stuck pod there will
        use nothing before something else changes.
        """
        return stage is PodStage.HELD or (
            stage is PodStage.STUCK and node.is_special and node.tree.divides
        )

    def charge_accounts(self, accounts: Iterable[tuple[str, Account]]) -> None:
        """Charge all accounts, by quota name, to trees with nothing charged yet."""
        for name, account in accounts:
            self._charge_account(name, account)
        for tree in self.trees.values():
            self.entitlements.renew(tree)

    def claim(self, left: Mapping[str, Amounts]) -> None:
        """Add claims to the division that are charged nowhere, by quota name (`left_resources`)."""
        for name, amounts in left.items():
            node = self.nodes.get(name)
            if node is None or not node.tree.divides:
                continue
            node.tree.charge_claim(node, list(amounts.items()))
            self._report_claim(node.spec, sorted(amounts))

    def _report_claim(self, spec: QuotaSpec, keys: list[str]) -> None:
        text = (
            f"max no longer names {', '.join(keys)}; what ran before still counts in "
            "koord-scheduler until it ends, and may leave less for other quotas"
        )
        kind = ProblemKind.RESOURCE_STILL_COUNTED
        self.forest.problems.append(QuotaProblem(kind, spec.namespace, spec.name, text))

    def _charge_account(self, name: str, account: Account) -> None:
        _charge_sums(self.node_of_unit(name), account.units)
        node = self.node_of_pod(name)
        for stage in PodStage:
            sums = account.sums_of(stage)
            if sums is None or not self._counts(stage):
                continue
            if self._is_claim(node, stage):
                node.tree.charge_claim(node, node.counted(sums.amounts))
            else:
                _charge_sums(node, sums, commits=stage is PodStage.BOUND)

    # --- the question, without the guarantee ----------------------------------------------------

    def check(self, node: NodeUsage, items: Items, demand: Demand) -> Refusal | None:
        """Return why the limits of the mode refuse, or None."""
        match self._mode:
            case QuotaMode.MAX:
                refusal = check_max(node, items)
                if refusal is None and demand.non_preemptible and self._is_quota_tree:
                    return check_non_preemptible(node, items)
                return refusal
            case QuotaMode.MIN:
                return check_min(node, items) or check_max(node, items)
            case QuotaMode.RUNTIME:
                return self._check_runtime(node, items, demand)
            case _:
                assert_never(self._mode)

    def _check_runtime(self, node: NodeUsage, items: Items, demand: Demand) -> Refusal | None:
        tree = node.tree
        refusal = self._check_sums(node, items, demand)
        if refusal is not None:
            return refusal
        if self.settings.guarantee_usage:
            return check_from_scratch(node, demand)
        return self.walks[tree.tree.tree_id].check(node, items)

    def _check_sums(self, node: NodeUsage, items: Items, demand: Demand) -> Refusal | None:
        """Return why a plain limit of `runtime` mode refuses, or None."""
        tree = node.tree
        if tree.total is None:
            return Refusal(reason=Reason.NO_CAPACITY, quota=tree.root.name)
        if node.is_special:
            return None
        refusal = check_max(node, items) or check_overused(node, items)
        if refusal is None and demand.non_preemptible:
            refusal = check_non_preemptible(node, items)
        if refusal is None and self.settings.cap_by_total:
            refusal = check_total(tree, items)
        return refusal

    def check_same_reason(
        self, node: NodeUsage, items: Items, demand: Demand, refusal: Refusal
    ) -> Refusal | None:
        """Return why sums, or runtimes on the same resource, still refuse; None: ask `check`."""
        if self.settings.guarantee_usage:
            return None
        now = self._check_sums(node, items, demand)
        if now is not None:
            return now
        walk = self.walks[node.tree.tree.tree_id]
        amount = next((amount for key, amount in items if key == refusal.resource), 0)
        return walk.check_resource(node, refusal.resource, amount)

    def open_notes(self, quota: str) -> AdmissionNotes | None:
        """Return what notes the admissions to a quota, for `notes`; None if it is in no tree."""
        node = self.nodes.get(quota)
        if node is None:
            return None
        notes = self.notes[quota] = AdmissionNotes(node, self.walks.get(node.tree.tree.tree_id))
        return notes

    def forget_levels(self, tree: TreeUsage) -> None:
        """Forget what was computed from the sums, which have changed without the clock moving."""
        walk = self.walks.get(tree.tree.tree_id)
        if walk is not None:
            walk.forget_levels()

    def why_unusable(self, quota: str) -> Refusal:
        """Return the refusal of a quota that is in no tree."""
        culprit = self.forest.broken.get(quota)
        if culprit is None:
            return Refusal(reason=Reason.UNKNOWN_QUOTA, quota=quota)
        return Refusal(reason=Reason.BROKEN_CHAIN, quota=quota, other=culprit)

    # --- for waiters ----------------------------------------------------------------------------

    def node(self, tree_id: str, name: str) -> NodeUsage | None:
        """Return the NodeUsage of a quota, or of the root, by name."""
        tree = self.trees[tree_id]
        return tree.root if name == tree.root.name else tree.nodes.get(name)

    def problems_of(self, quota: str) -> tuple[QuotaProblem, ...]:
        """Return what is wrong with the quotas of one name."""
        if self._problems is None:
            self._problems = {}
            for problem in self.forest.problems:
                self._problems.setdefault(problem.quota, []).append(problem)
        return tuple(self._problems.get(quota, ()))

    def room(self, protected: ProtectedDemands, tree_id: str, name: str, rule: Rule) -> int | None:
        """Return what is left under a limit; None if there is no such limit."""
        reason, key, via = rule
        node = self.node(tree_id, name)
        asking = self.nodes.get(via) if via else None
        if node is None or (via and asking is None):
            return None
        if reason is Reason.GUARANTEE_OF_OTHERS:
            return room_beside(protected, node, key, asking)
        return room(node.tree, node, reason, key, asking)

    def waiters_to_recheck(self, tree: TreeUsage, key: str, scopes: Scopes) -> list[Hashable]:
        """Return the waiters refused by runtimes that what was charged may enable."""
        return find_waiters_to_recheck(tree, self.walks[tree.tree.tree_id], key, scopes)


def build_usage_trees(
    settings: QuotaSettings,
    specs: Iterable[QuotaSpec],
    nodes_total: Mapping[str, int] | None,
    ledger: QuotaLedger,
    left: Mapping[str, Amounts],
) -> UsageTrees:
    """Return the trees of these quotas, with everything in the ledger charged.

    Args:
        settings: The settings.
        specs: The quotas.
        nodes_total: What the nodes have; None if unknown.
        ledger: What is charged.
        left: By quota, what still has a claim to resources that its max no longer names.
    """
    specs = list(specs)
    is_runtime = settings.mode is QuotaMode.RUNTIME
    specials = _special_specs(settings, specs)
    divides_specials = settings.special_quotas is SpecialQuotas.OBSERVED or not is_runtime
    forest = build_forest(
        specs,
        multi_quota_tree=settings.multi_quota_tree,
        are_elastic=settings.kind is QuotaKind.ELASTIC_QUOTA,
        are_divided=is_runtime,
        specials=specials if divides_specials else (),
    )
    trees = {
        tree_id: TreeUsage(tree, settings, () if divides_specials or tree_id else specials)
        for tree_id, tree in forest.trees.items()
    }
    if nodes_total is not None and is_runtime:
        for tree_id, total in tree_totals(forest, nodes_total).items():
            trees[tree_id].put_total(total)
    walks = {
        tree_id: RuntimeCheck(tree, unrefreshed_quotas(tree.tree))
        for tree_id, tree in trees.items()
        if tree.divides
    }
    usage = UsageTrees(settings, forest, trees, Entitlements(trees.values()), walks)
    usage.charge_accounts(ledger.accounts())
    usage.claim(left)
    return usage


def _charge(
    node: NodeUsage, demand: Demand, sign: int, *, commits: bool, items: Items | None = None
) -> None:
    if items is None:
        items = node.counted(demand.amounts)
    if sign < 0:
        items = [(key, -amount) for key, amount in items]
    node.tree.charge(node, items, frees=sign < 0, commits=commits)
    if demand.non_preemptible:
        node.tree.charge_non_preemptible(node, items)
    elif demand.firm:
        firm = [(key, sign * amount) for key, amount in node.counted(demand.firm)]
        node.tree.charge_non_preemptible(node, firm)


def _charge_sums(node: NodeUsage, sums: ChargedSums, *, commits: bool = True) -> None:
    node.tree.charge(node, node.counted(sums.amounts), frees=False, commits=commits)
    node.tree.charge_non_preemptible(node, node.counted(sums.non_preemptible))


def _special_specs(settings: QuotaSettings, specs: Iterable[QuotaSpec]) -> list[QuotaSpec]:
    """Return the default and the system quota, from their objects or else from the settings."""
    maxima = {
        SYSTEM_QUOTA: settings.system_quota_max,
        DEFAULT_QUOTA: settings.default_quota_max,
    }
    for spec in specs:
        if spec.name in maxima and spec.max and spec.is_usable:
            maxima[spec.name] = spec.max
    return [
        QuotaSpec(name=name, max=maximum, weight=effective_weight(None, maximum))
        for name, maximum in maxima.items()
    ]
