"""All quotas with what is charged to them: whether a demand fits, and which waiters to wake.

The entry of this package; only `reclaim` is called beside it, with its trees. Facts and charges are
kept as they came (`stated_quotas`, `quota_ledger`). Trees with running sums (`usage_trees`)
are built from them and updated with every charge. A change of a quota drops the trees and wakes all
waiters; the next question builds the trees again, so many changes in a row cost one build.

`check` applies the rules of the mode, the cheap ones first:

    max      max x rate at the quota and every ancestor                        limit_checks
    min      min at the quota, max at every ancestor                           limit_checks
    runtime  max as above, min for what is non-preemptible, the nodes' total,  limit_checks
             the promise about koord-scheduler's runtimes                      runtime_check
    all      the guarantees of others                                          min_guarantee
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.quota_decision import Demand, PodStage, ProblemKind, QuotaProblem
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.quota.quota_spec import QuotaSpec, keep_tree, parse_quota, why_never_requested
from queue_scheduler.quota.quota_view import QuotaView
from queue_scheduler.quota_cache.admission_record import AdmissionRecord
from queue_scheduler.quota_cache.claims import beside_own, check_beside_claims
from queue_scheduler.quota_cache.every_limit import find_refusals
from queue_scheduler.quota_cache.left_resources import LeftResources
from queue_scheduler.quota_cache.min_guarantee import ProtectedDemands, check_guarantee
from queue_scheduler.quota_cache.quota_ledger import ForeignCharge, Holder, QuotaLedger
from queue_scheduler.quota_cache.quota_views import find_view
from queue_scheduler.quota_cache.stated_quotas import StatedQuotas
from queue_scheduler.quota_cache.tree_usage import Items, NodeUsage, TreeUsage
from queue_scheduler.quota_cache.usage_trees import UsageTrees, build_usage_trees
from queue_scheduler.quota_cache.wake_index import (
    AT_ONCE,
    RUNTIME_REASONS,
    RankOf,
    Room,
    WaiterEntry,
    WaiterRank,
    Waiting,
    WakeIndex,
)
from queue_scheduler.quota_cache.what_if import Added, net_changes, simulate_changes
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import NO_UID, Uid
from shared_api.resource_list import Amounts
from shared_api.resource_names import RENAMED
from shared_api.well_known_labels import JOB_COUNTS


class QuotaCache:
    """Everything the engine asks about quotas. Not thread-safe: the engine's lock guards it.

    Attributes:
        stated: The quotas as their objects state them; for questions.
    """

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self.stated = StatedQuotas()
        self._nodes_total: Amounts | None = None
        self._ledger = QuotaLedger()
        self._left = LeftResources()
        self._protected = ProtectedDemands()
        self._waiting = WakeIndex()
        self._changes = 0
        # What `check` let through, if nothing was asked since, and its counted amounts: mostly the
        # next call is the `check` that follows a wake-up, or the charge that follows a `check`.
        self._fitted: tuple[Mapping[str, int], bool, str, int] | None = None
        self._fitted_items: Items = []
        # Derived from the above; None until it is needed.
        self._trees: UsageTrees | None = None
        self._room: Room | None = None

    # --- facts: level-triggered, repeating one changes nothing ----------------------------------

    def on_quota(self, quota: ElasticQuota) -> None:
        """Take a new or changed ElasticQuota; never raises: what is wrong is in `problems`."""
        meta = quota.metadata
        known = self.stated.find(meta.namespace, meta.name)
        spec = parse_quota(quota, known if known is not None and known.uid == meta.uid else None)
        if known is not None and known.uid == spec.uid and self._settings.multi_quota_tree:
            spec = keep_tree(known, spec)
        if known != spec:
            in_runtime = self._settings.mode is QuotaMode.RUNTIME
            if known is not None and in_runtime and self.stated.oldest(spec.name) is known:
                self._left.on_edit(known, spec, self._ledger)
            self.stated.put(spec)
            self._outdate()

    def on_quota_gone(self, namespace: str, name: str, uid: Uid = NO_UID) -> None:
        """Forget an ElasticQuota; charges stay under its name until they end.

        Nothing happens if the object known by that name has another uid: it was recreated.
        """
        spec = self.stated.find(namespace, name)
        if spec is not None and (not uid or spec.uid == uid):
            if self.stated.oldest(name) is spec:
                self._left.on_quota_gone(name)
            self.stated.drop(spec)
            self._outdate()

    def put_specs(self, specs: Iterable[QuotaSpec]) -> None:
        """Replace all quotas by these; for plugins whose quotas are not ElasticQuotas."""
        if self.stated.replace(specs):
            self._outdate()

    def on_capacity(self, total: Mapping[str, int] | None) -> None:
        """Take the sum of the nodes (`capacity.NodeCapacity`); None if no node is known."""
        if total == self._nodes_total:
            return
        self._nodes_total = None if total is None else dict(total)
        if self._settings.mode is QuotaMode.RUNTIME:
            self._drop_trees()
            self._waiting.wake_all()

    def on_foreign(
        self,
        key: str,
        quota: str,
        request: Mapping[str, int] | None,
        *,
        stage: PodStage = PodStage.PENDING,
        non_preemptible: bool = False,
        job: Uid = NO_UID,
    ) -> None:
        """Take a pod without a unit, or the held pods of a `job`; `request` None if it is gone.

        It is charged to `quota`; one that does not exist counts as the default quota, as for
        koord-scheduler.
        """
        pod = None
        if request is not None:
            pod = ForeignCharge(quota, Demand(dict(request), non_preemptible), stage, job)
        old = self._ledger.put_pod(key, pod)
        if pod == old:
            return
        self._changes += 1
        trees = self._trees
        for one, sign in ((old, -1), (pod, 1)):
            node = None if one is None or trees is None else trees.charge_pod(one, sign)
            if node is not None:
                self._follow(node)
        self._forget_left(Holder(key, is_pod=True), quota, None if pod is None else pod.demand)

    # --- checks and charges ---------------------------------------------------------------------

    def check(self, quota: str, demand: Demand) -> Refusal | None:
        """Return why `demand` does not fit in `quota` now, or None if it does. Changes nothing."""
        trees = self._trees or self._build()
        node = trees.nodes.get(quota)
        if node is None:
            return trees.why_unusable(quota)
        fitting = (demand.amounts, demand.non_preemptible, quota, self._changes)
        if self._fitted == fitting:
            return None
        self._fitted = None
        items = node.counted(demand.amounts)
        refusal = self._check_limits(trees, node, items, demand)
        if refusal is None and node.tree in self._protected.counted_in:
            refusal = check_guarantee(node, items, self._protected)
        if refusal is None and not node.tree.claimants:
            # Beside claims the last division was that of another state.
            self._fitted, self._fitted_items = fitting, items
        return refusal

    def _check_limits(
        self, trees: UsageTrees, node: NodeUsage, items: Items, demand: Demand
    ) -> Refusal | None:
        """Return why the limits of the mode refuse, or None."""
        if not node.tree.claimants:
            return trees.check(node, items, demand)
        check, own = partial(trees.check, node, items, demand), self._held_of(demand, node)
        return check_beside_claims(check, node, items, own, trees.forget_levels)

    def _held_of(self, demand: Demand, node: NodeUsage) -> Amounts:
        """Return what the held pods of the job that asks claim in a quota."""
        return self._ledger.held_of(demand.job, node.name) if demand.job else {}

    def every_refusal(self, quota: str, demand: Demand) -> list[Refusal]:
        """Return a refusal for each limit that a demand does not fit, the one of `check` first."""
        first = self.check(quota, demand)
        if first is None:
            return []
        trees = self.trees
        node = trees.nodes.get(quota)
        if node is None:
            return [first]
        items = node.counted(demand.amounts)
        with beside_own(node, items, self._held_of(demand, node), trees.forget_levels):
            found = list(find_refusals(trees, self._protected, node, items, demand))
        same = _same_limit(first)
        return [first, *(each for each in found if _same_limit(each) != same)]

    def check_without(
        self, quota: str, demand: Demand, released: Iterable[str], added: Sequence[Added] = ()
    ) -> Refusal | None:
        """Return what `check` would if nothing were charged for these owners, and `added` were.

        Changes nothing, and wakes no waiter.
        """
        trees = self._trees or self._build()
        node = trees.nodes.get(quota)
        if node is None:
            return trees.why_unusable(quota)
        # This question overwrites what the last `check` prepared for its charge.
        self._fitted = None
        items = node.counted(demand.amounts)
        with simulate_changes(trees, self._protected, net_changes(self._ledger, released, added)):
            refusal = self._check_limits(trees, node, items, demand)
            if refusal is None:
                refusal = check_guarantee(node, items, self._protected)
        return refusal

    def charge(
        self, owner: str, quota: str, demand: Demand, *, notes: bool = False
    ) -> AdmissionRecord | None:
        """Charge `demand` to `quota` for `owner`, in place of its earlier charge; never refuses.

        `notes`: `check` has just let it through; return what it was compared with, unless the quota
        is in no tree.
        """
        old = self._ledger.charge(owner, quota, demand)
        checked: Items | None = None
        if old is None:
            question = (demand.amounts, demand.non_preemptible, quota, self._changes)
            if self._fitted == question:
                checked = self._fitted_items
        trees = self._trees
        noted = None
        if notes and trees is not None:
            open_notes = trees.notes.get(quota) or trees.open_notes(quota)
            noted = None if open_notes is None else open_notes.note(demand, checked)
        if old is not None and old == (quota, demand):
            return noted
        self._changes += 1
        if trees is not None:
            if old is not None:
                self._follow(trees.charge_unit(old[0], old[1], -1))
            self._follow(trees.charge_unit(quota, demand, 1, checked))
        if self._left:
            self._forget_left(Holder(owner), quota, demand)
        return noted

    def release(self, owner: str) -> None:
        """Release what is charged for `owner`, if anything."""
        old = self._ledger.release(owner)
        if old is None:
            return
        self._changes += 1
        trees = self._trees
        if trees is not None:
            self._follow(trees.charge_unit(old[0], old[1], -1))
        self._forget_left(Holder(owner), old[0], None)

    def _forget_left(self, holder: Holder, quota: str, demand: Demand | None) -> None:
        """Take what a holder is charged now off what still counts beside `max`."""
        if self._left and self._left.on_charge(holder, quota, demand):
            self._drop_trees()
            self._waiting.wake_all()

    def charge_of(self, owner: str) -> tuple[str, Demand] | None:
        """Return the (quota, demand) that is charged for the owner, or None."""
        return self._ledger.charge_of(owner)

    def _follow(self, node: NodeUsage) -> None:
        """Update which demands are protected, if what was charged here matters for that."""
        for name in self._protected.affected_by(node):
            self._refresh_protected(name)

    # --- waiters --------------------------------------------------------------------------------

    def protect(self, quota: str, demand: Demand | None) -> None:
        """Take the first pending demand of `quota`; None if there is none."""
        if self._protected.put(quota, demand):
            self._changes += 1
            self._refresh_protected(quota)

    def keeps_room_for(self, quota: str) -> bool:
        """Return whether others may be refused in favor of this quota's units; True if unknown."""
        node = None if self._trees is None else self._trees.nodes.get(quota)
        return node is None or not node.is_alone  # no other quota could take its room

    def _refresh_protected(self, quota: str) -> None:
        if self._trees is None:
            return
        node = self._trees.nodes.get(quota)
        if self._protected.refresh(quota, node) and node is not None:
            for waiting in self._waiting.borrowers(node.tree.tree.tree_id, quota):
                self._waiting.mark_for_recheck(waiting)

    def wait(
        self,
        waiter: Hashable,
        quota: str,
        demand: Demand,
        refusal: Refusal,
        rank: WaiterRank = (),
        domain: str = AT_ONCE,
        whole: Demand | None = None,
    ) -> None:
        """Register a waiter, to be woken once its refusal may no longer hold.

        In a domain, smaller ranks are woken first; of equal ranks, the one that has waited longer.

        Args:
            waiter: Its identity, for the caller.
            quota: Its quota.
            demand: What was refused.
            refusal: What `check` returned since the last change, or the same put for users
                (`Refusal.told_of`).
            rank: Its position in the domain.
            domain: The waiters that it competes with.
            whole: A larger demand that was refused as well: the waiter is also woken once that
                fits.
        """
        trees = self._trees or self._build()
        if self._waiting.is_idle():
            for tree in trees.trees.values():
                tree.changes.settle()  # earlier changes concern no waiter
        tree = trees.node_of_unit(quota).tree
        is_owner, tree_id = self._protected.is_counted(quota), tree.tree.tree_id
        seen_at = tree.changes.clock
        waiting = Waiting(
            0, waiter, rank, quota, tree_id, demand, refusal, seen_at, domain, is_owner, whole
        )
        self._waiting.add(waiting)
        self._watch(tree, waiting)
        if whole is not None:
            self._fits_whole(waiting)

    def stop_waiting(self, waiter: Hashable) -> None:
        """Forget a waiter, if it is one: it was woken, has started, or is no longer pending."""
        self._waiting.remove(waiter)

    def stirred_domains(self) -> list[str]:
        """Return the domains in which changes may have enabled a waiter, in a fixed order."""
        if self._waiting.is_idle():
            return []
        if self._trees is not None:
            self._note_changes(self._trees)
        # Without trees there are no waiters left: all were woken when the trees were dropped.
        return self._waiting.stirred()

    def first_woken(
        self, domain: str, rank_of: RankOf | None = None, before: WaiterRank | None = None
    ) -> WaiterEntry | None:
        """Return (rank, number, waiter) of the first waiter that changes may have enabled, or None.

        Considers the changes up to the last call of `stirred_domains`. The waiter stays registered
        until `stop_waiting`. Once this returns None, every waiter left in the domain would be
        refused.

        Args:
            domain: The contention domain to look in.
            rank_of: Returns the current rank of a waiter; None: ranks do not change.
            before: A waiter with a larger rank is returned without being checked again.
        """
        trees = self._trees or self._build()
        if self._room is None:
            self._room = partial(trees.room, self._protected)
        return self._waiting.first(
            domain, self._room, self._is_enabled, rank_of=rank_of, before=before
        )

    def _note_changes(self, trees: UsageTrees) -> None:
        """Mark the waiters that the changes since the last call may enable."""
        for tree_id, tree in trees.trees.items():
            changes = tree.changes
            if not (changes.touched or changes.keys or changes.is_room_freed):
                continue
            to_recheck: list[Waiting] = []
            for node in changes.touched:
                self._waiting.mark_due(tree_id, node)
                to_recheck += self._waiting.borrowers(tree_id, node)
            for key in changes.keys:
                scopes = self._waiting.refused_by_runtime(tree_id, key)
                if scopes:
                    to_recheck += map(
                        self._waiting.entry_of, trees.waiters_to_recheck(tree, key, scopes)
                    )
            if changes.is_entitled_anew:
                to_recheck += self._waiting.borrowers(tree_id)
            elif changes.is_room_freed:
                to_recheck += self._waiting.owners(tree_id)
            for waiting in to_recheck:
                self._waiting.mark_for_recheck(waiting)
            changes.settle()

    def _is_enabled(self, waiting: Waiting) -> bool:
        """Return whether a waiter fits now; if not, it waits for the limit that refuses it now."""
        refusal = self._refuse_again(waiting)
        if refusal is None:
            return True
        tree = self.trees.node_of_unit(waiting.quota).tree
        is_owner = self._protected.is_counted(waiting.quota)
        waiting = replace(waiting, refusal=refusal, seen_at=tree.changes.clock, is_owner=is_owner)
        if waiting.whole is not None and self._fits_whole(waiting):
            return True
        self._waiting.keep(waiting)
        self._watch(tree, waiting)
        return False

    def _fits_whole(self, waiting: Waiting) -> bool:
        """Return whether the whole demand fits; if not, the waiter is woken once it does."""
        whole = waiting.whole
        # A sum that refuses the least refuses the whole too; only runtimes are rounded.
        if whole is None or waiting.refusal.kind not in RUNTIME_REASONS:
            return False
        refusal = self.check(waiting.quota, whole)
        if refusal is not None:
            also = replace(waiting, demand=whole, refusal=refusal)
            self._waiting.add_whole(also)
            self._watch(self.trees.node_of_unit(waiting.quota).tree, also)
        return refusal is None

    def _refuse_again(self, waiting: Waiting) -> Refusal | None:
        """Return what refuses a waiter now; the earlier reason is checked first."""
        trees = self._trees or self._build()
        node = trees.nodes.get(waiting.quota)
        refusal: Refusal | None = None
        # Beside claims another state may refuse than did before.
        if node is not None and not node.tree.claimants:
            items, kind = node.counted(waiting.demand.amounts), waiting.refusal.kind
            if kind is Reason.GUARANTEE_OF_OTHERS:
                refusal = check_guarantee(node, items, self._protected)
            elif kind in RUNTIME_REASONS:
                self._fitted = None
                refusal = trees.check_same_reason(node, items, waiting.demand, waiting.refusal)
        return refusal or self.check(waiting.quota, waiting.demand)

    def _watch(self, tree: TreeUsage, waiting: Waiting) -> None:
        """Have releases noted in the quota that refused the waiter, and in its own."""
        tree.changes.watch(waiting.refusal.quota, waiting.quota)

    # --- views ----------------------------------------------------------------------------------

    def view(self, name: str) -> QuotaView | None:
        """Return one quota with its numbers, or None."""
        trees = self._trees or self._build()
        return find_view(name, self.stated, trees, self._ledger, self._protected)

    def namespace_among_several(self, name: str) -> str:
        """Return the namespace of the quota that counts if several have this name, else ""."""
        problems = (self._trees or self._build()).problems_of(name)
        if not any(problem.kind is ProblemKind.DUPLICATE_NAME for problem in problems):
            return ""
        return self.stated.oldest(name).namespace

    def chain(self, name: str) -> tuple[str, ...]:
        """Return the quota and its ancestors, nearest first, without the root; () if unusable."""
        node = self.trees.nodes.get(name)
        return () if node is None else node.path

    def find_unrequested(self, name: str, amounts: Amounts) -> tuple[str, ...]:
        """Return the governed resources that containers can request, if the amounts have none.

        Empty if the amounts count against any limit that applies, and if the quota governs no such
        resource.
        """
        trees = self._trees or self._build()
        notes = trees.notes.get(name) or trees.open_notes(name)
        if notes is None:
            return ()
        for key in amounts:  # every admission comes here, and mostly returns at the first
            if key in notes.governed and amounts[key] > 0:
                return ()
        return tuple(sorted(key for key in trees.nodes[name].spec.max if _may_be_requested(key)))

    def tree_id(self, name: str) -> str:
        """Return the tree of a quota; "" is the default tree."""
        return self.trees.node_of_unit(name).tree.tree.tree_id

    def problems(self) -> tuple[QuotaProblem, ...]:
        """Return what is wrong with quotas, sorted by quota and kind."""
        return tuple((self._trees or self._build()).forest.problems)

    @property
    def trees(self) -> UsageTrees:
        """The trees behind the answers, for reading; another object after an edit."""
        return self._trees or self._build()

    @property
    def ledger(self) -> QuotaLedger:
        """What is charged, by owner; for reading."""
        return self._ledger

    # --- the whole ------------------------------------------------------------------------------

    def fork(self) -> QuotaCache:
        """Return an independent copy; its trees are copied if there are any."""
        copy = QuotaCache(self._settings)
        copy.stated = self.stated.copy()
        copy._nodes_total = self._nodes_total
        copy._ledger = self._ledger.fork()
        copy._left = self._left.fork()
        copy._waiting = self._waiting.fork()
        if self._trees is None:
            copy._protected = self._protected.fork()
        else:
            trees = copy._trees = self._trees.fork()
            copy._protected = self._protected.fork_into(trees.trees, trees.entitlements)
        return copy

    def validate(self) -> None:
        """Recompute every sum from facts and charges; raise AssertionError if one differs."""
        self._ledger.validate()
        if self._trees is None:
            return
        fresh = self._build_trees()
        self._trees.entitlements.validate(fresh.entitlements)
        self._protected.validate(fresh.nodes.values(), fresh.entitlements)
        for tree_id, tree in self._trees.trees.items():
            tree.validate(fresh.trees[tree_id])

    def _drop_trees(self) -> None:
        self._trees = self._room = None
        self._changes += 1

    def _outdate(self) -> None:
        self._drop_trees()
        # The limits that they wait and compete for may be other ones now.
        self._waiting.wake_all(domains_differ=True)

    def _build(self) -> UsageTrees:
        # Waiters were refused by trees, and all are woken when these are dropped.
        assert not self._waiting.waiting(), "there are waiters, and there are no trees"
        self._ledger.close_empty_accounts()
        trees = self._trees = self._build_trees()
        self._protected.start(trees.entitlements)
        for name in self._protected.quotas():
            self._refresh_protected(name)
        for tree in trees.trees.values():
            tree.changes.start()
        return trees

    def _build_trees(self) -> UsageTrees:
        left = self._left.sums()
        return build_usage_trees(self._settings, self.stated, self._nodes_total, self._ledger, left)


def _may_be_requested(resource: str) -> bool:
    return not (resource in RENAMED or resource in JOB_COUNTS or why_never_requested(resource))


def _same_limit(refusal: Refusal) -> tuple[Reason, str, str]:
    return refusal.reason, refusal.quota, refusal.resource
