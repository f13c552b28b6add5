"""Which waiters wait for which limit, so that a change wakes only those that it may enable.

A waiter is a class of refused units. It is *enabled* if it would pass `check` now, and *to be
re-checked* if only another check can tell. How long a refusal holds depends on its kind:

* **sums** (max, min, the nodes' total): used + need > limit stays true until that very sum falls or
  that limit rises. Kept by node, rule, resource and need, and for each need in the order of ranks:
  so the first waiter whose need is within the room is found by one lookup per distinct need.
* **guarantee**: a sum as well: what is left at a node beside what is protected there. It also ends
  for the waiters of a quota that no longer borrows. An owner is not refused for its own protected
  demand, so its room differs from that of the others: it is re-checked whenever room is freed.
* **runtime**: resources are divided independently, so an answer depends only on the
  demands and the total of one resource in one tree, and rarely on all of them
  (`runtime_wake_index`).
* the rest (no such quota, broken chain, no node): ends with a change of the quotas or nodes.

A change of the quotas themselves wakes all waiters. This module is an index and decides nothing:
the quota cache, which has the numbers, asks it.

A release of one GPU may enable a hundred waiters, of which one can start. So they are not all woken
at once: `first` returns the first of those that may be enabled now, and when that one has started,
the others are no longer due. Waiters are separated by *domain*: their order matters only among
those that compete for the same limits.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from queue_scheduler.decision import Reason, Refusal, Trait, reasons_with
from queue_scheduler.quota.quota_decision import Demand, Rule
from queue_scheduler.quota_cache.limit_checks import SUM_REASONS
from queue_scheduler.quota_cache.runtime_wake_index import RuntimeWakeIndex, Scopes

WaiterRank: TypeAlias = tuple[Any, ...]
"""Sorts waiters, smallest first; only compared with other ranks of the same caller."""

WaiterEntry: TypeAlias = tuple[WaiterRank, int, Hashable]
Verify: TypeAlias = Callable[["Waiting"], bool]
"""Returns whether a waiter is enabled; if not, it has passed the current refusal to `keep`."""

Room: TypeAlias = Callable[[str, str, Rule], int | None]
"""(tree, node, rule) -> what is left; None if there is no such limit any longer."""

SLACK: Final = 64
"""Heaps are rebuilt when they have this many entries more than twice those that are current. Stale
entries are dropped when they reach the top, and would pile up if they never did."""

AT_ONCE: Final = ""
"""The domain of waiters that compete with no others."""

RUNTIME_REASONS: Final = reasons_with(Trait.RUNTIME)


RankOf: TypeAlias = Callable[[Any], WaiterRank]
"""Returns the current rank of a waiter, which is never smaller than an earlier one."""


class Whole(NamedTuple):
    """Names the second entry of a waiter, for its whole demand; its first is for its least."""

    waiter: Hashable


class Waiting(msgspec.Struct, frozen=True):
    """One waiter, and what it was refused for.

    `number` counts up. `seen_at` is the tree's clock at its last refusal. `whole`: a larger demand;
    the waiter is woken as well once that fits. None if there is none.
    """

    number: int
    waiter: Hashable
    rank: WaiterRank
    quota: str
    tree_id: str
    demand: Demand
    refusal: Refusal
    seen_at: int = 0
    domain: str = AT_ONCE
    is_owner: bool = False
    """Its quota has a protected demand itself, so what is kept for others is not the common sum."""
    whole: Demand | None = None


LimitNode: TypeAlias = tuple[str, str]
Needs: TypeAlias = dict[int, list[WaiterEntry]]

_Top: TypeAlias = tuple[WaiterEntry, int, LimitNode, Rule, int]
"""The smallest entry of a heap, a number that no other has, and where the heap is."""


class WakeIndex:
    """All waiters, by what they wait for, and those that are woken and not yet taken."""

    __slots__ = (
        "_borrowers", "_by_runtime", "_by_sum", "_domains", "_due", "_next",
        "_owners", "_queues", "_stale", "_to_recheck", "_waiting", "_wholes", "_woken",
    )  # fmt: skip

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[Hashable, Waiting] = {}
        self._wholes: dict[Hashable, Whole] = {}
        self._by_sum: dict[LimitNode, dict[Rule, Needs]] = {}
        # How many of its entries are of waiters that have left it, in all heaps together: a need
        # for which there is never room has a heap of its own, whose top never surfaces.
        self._stale = 0
        self._by_runtime = RuntimeWakeIndex()
        # Refused for a guarantee: by (tree, own quota), and by tree those that are owners.
        self._borrowers: dict[LimitNode, dict[Hashable, None]] = {}
        self._owners: dict[str, dict[Hashable, None]] = {}
        # Waiters for one node compete for it, so all of them are in one domain.
        self._domains: dict[LimitNode, str] = {}
        self._due: dict[str, dict[LimitNode, None]] = {}
        # Woken waiters and those to re-check, with their numbers, and the heap of both per domain,
        # which still has entries of waiters that left.
        self._woken: dict[Hashable, int] = {}
        self._to_recheck: dict[Hashable, int] = {}
        self._queues: dict[str, list[WaiterEntry]] = {}

    def fork(self) -> WakeIndex:
        """Return an independent copy."""
        copy = WakeIndex()
        copy._next = self._next
        copy._waiting = dict(self._waiting)
        copy._wholes = dict(self._wholes)
        copy._by_sum = {
            node: {
                rule: {need: list(entries) for need, entries in needs.items()}
                for rule, needs in rules.items()
            }
            for node, rules in self._by_sum.items()
        }
        copy._stale = self._stale
        copy._by_runtime = self._by_runtime.fork()
        copy._borrowers = {key: dict(waiters) for key, waiters in self._borrowers.items()}
        copy._owners = {key: dict(waiters) for key, waiters in self._owners.items()}
        copy._domains = dict(self._domains)
        copy._due = {domain: dict(nodes) for domain, nodes in self._due.items()}
        copy._woken = dict(self._woken)
        copy._to_recheck = dict(self._to_recheck)
        copy._queues = {domain: list(entries) for domain, entries in self._queues.items()}
        return copy

    # --- coming and going -----------------------------------------------------------------------

    def add(self, waiting: Waiting) -> None:
        """Add a waiter; its number is assigned here."""
        # A waiter that is refused anew takes another number: what the heaps have under the one
        # before is stale from now on.
        self.remove(waiting.waiter)
        self._next += 1
        self._put(msgspec.structs.replace(waiting, number=self._next))

    def add_whole(self, waiting: Waiting) -> None:
        """Wake a waiter for this as well: for its whole demand, which is refused too."""
        waiter = waiting.waiter
        known = self._wholes.get(waiter)
        whole = self._wholes[waiter] = known or Whole(waiter)
        waiting = msgspec.structs.replace(waiting, waiter=whole, whole=None)
        if whole in self._waiting:
            self.keep(msgspec.structs.replace(waiting, number=self._waiting[whole].number))
        else:
            self.add(waiting)

    def keep(self, waiting: Waiting) -> None:
        """Move a waiter to another limit; it keeps its position."""
        self._to_recheck.pop(waiting.waiter, None)
        # By the refusal before: once it is replaced, nothing says under which limit it is indexed.
        self._drop_from_index(self._waiting[waiting.waiter])
        self._put(waiting)

    def remove(self, waiter: Hashable) -> None:
        """Forget a waiter, waiting or woken; its entries in heaps are dropped when they surface."""
        if self._wholes:
            whole = self._wholes.pop(waiter, None)
            if whole is not None:
                self.remove(whole)
        self._woken.pop(waiter, None)
        self._to_recheck.pop(waiter, None)
        waiting = self._waiting.pop(waiter, None)
        if waiting is not None:
            self._drop_from_index(waiting)

    def _put(self, waiting: Waiting) -> None:
        waiter, refusal = waiting.waiter, waiting.refusal
        self._waiting[waiter] = waiting
        kind = refusal.kind
        is_sum = kind in SUM_REASONS and bool(refusal.resource)
        if kind in RUNTIME_REASONS:
            self._by_runtime.add(waiter, waiting.tree_id, refusal, waiting.seen_at)
        elif kind is Reason.GUARANTEE_OF_OTHERS:
            self._borrowers.setdefault((waiting.tree_id, waiting.quota), {})[waiter] = None
            if waiting.is_owner:
                self._owners.setdefault(waiting.tree_id, {})[waiter] = None
            is_sum = not waiting.is_owner
        if is_sum:
            node = (waiting.tree_id, refusal.quota)
            rules = self._by_sum.setdefault(node, {})
            self._domains[node] = waiting.domain
            rule = _rule_of(refusal)
            entries = rules.setdefault(rule, {}).setdefault(refusal.requested, [])
            heapq.heappush(entries, (waiting.rank, waiting.number, waiter))
            # After the push: a heap that is still empty would be dropped, and the entry with it.
            if self._stale > len(self._waiting) + SLACK:
                self._drop_stale_sums()

    def _drop_from_index(self, waiting: Waiting) -> None:
        refusal = waiting.refusal
        kind = refusal.kind
        if kind in RUNTIME_REASONS:
            self._by_runtime.remove(waiting.waiter, waiting.tree_id, refusal)
        elif kind is Reason.GUARANTEE_OF_OTHERS:
            self._borrowers[waiting.tree_id, waiting.quota].pop(waiting.waiter, None)
            if waiting.is_owner:
                self._owners[waiting.tree_id].pop(waiting.waiter, None)
            else:
                self._stale += 1
        elif kind in SUM_REASONS and refusal.resource:
            self._stale += 1

    def _drop_stale_sums(self) -> None:
        """Drop all entries by sums that are not current, and what is empty then."""
        for node, rules in list(self._by_sum.items()):
            for rule, needs in list(rules.items()):
                _drop_stale_needs(needs, partial(self._is_current, node, rule))
                if not needs:
                    del rules[rule]
            if not rules:
                del self._by_sum[node]
                del self._domains[node]
        self._stale = 0

    # --- the waiters ----------------------------------------------------------------------------

    def is_idle(self) -> bool:
        """Return whether no waiter waits or is woken."""
        return not (self._waiting or self._queues or self._due)

    def waiting(self) -> list[Waiting]:
        """Return all waiters that are not woken, in order of arrival."""
        return sorted(self._waiting.values(), key=_number)

    def refused_by_runtime(self, tree_id: str, resource: str) -> Scopes:
        """Return the waiters that were refused by a runtime of this resource."""
        return self._by_runtime.refused_on(tree_id, resource)

    def entry_of(self, waiter: Hashable) -> Waiting:
        """Return the entry of a waiter that is not woken."""
        return self._waiting[waiter]

    def borrowers(self, tree_id: str, quota: str | None = None) -> list[Waiting]:
        """Return the waiters of a quota, or a tree, that were refused for a guarantee of others."""
        if quota is not None:
            waiters = self._borrowers.get((tree_id, quota))
            return [self._waiting[waiter] for waiter in waiters] if waiters else []
        return [
            self._waiting[waiter]
            for node, waiters in self._borrowers.items()
            if node[0] == tree_id
            for waiter in waiters
        ]

    def owners(self, tree_id: str) -> list[Waiting]:
        """Return the `borrowers` of a tree whose quota has a protected demand itself."""
        waiters = self._owners.get(tree_id)
        return [self._waiting[waiter] for waiter in waiters] if waiters else []

    # --- waking ---------------------------------------------------------------------------------

    def mark_due(self, tree_id: str, name: str) -> None:
        """Note that a node may have more room under its limits, so `first` looks at its waiters."""
        node = (tree_id, name)
        if node in self._by_sum:
            self._due.setdefault(self._domains[node], {})[node] = None

    def mark_for_recheck(self, waiting: Waiting) -> None:
        """Mark a waiter for re-checking; it is verified when it is first in its domain."""
        if waiting.waiter not in self._to_recheck:
            self._to_recheck[waiting.waiter] = waiting.number
            self._queue_for_check(waiting, waiting.domain)

    def wake_all(self, *, domains_differ: bool = False) -> None:
        """Wake all waiters; in no order of turns if their domains may have changed."""
        for waiting in list(self._waiting.values()):
            if isinstance(waiting.waiter, Whole):
                continue  # woken with the waiter that it belongs to
            # First: `remove` forgets woken waiters as well.
            self.remove(waiting.waiter)
            self._woken[waiting.waiter] = waiting.number
            self._queue_for_check(waiting, AT_ONCE if domains_differ else waiting.domain)
        self._by_sum.clear()
        self._stale = 0
        self._domains.clear()
        self._due.clear()

    def _queue_for_check(self, waiting: Waiting, domain: str) -> None:
        queue = self._queues.setdefault(domain, [])
        heapq.heappush(queue, (waiting.rank, waiting.number, waiting.waiter))
        if len(queue) > 2 * (len(self._woken) + len(self._to_recheck)) + SLACK:
            _drop_stale(queue, self._is_queued)

    def stirred(self) -> list[str]:
        """Return the domains in which a waiter may be enabled, in a fixed order."""
        if not self._due and not self._queues:
            return []
        return list(dict.fromkeys((*self._queues, *self._due)))

    def first(
        self,
        domain: str,
        room: Room,
        verify: Verify,
        *,
        rank_of: RankOf | None = None,
        before: WaiterRank | None = None,
    ) -> WaiterEntry | None:
        """Return the first enabled waiter of a domain, or None; it stays in the index.

        One that comes after `before` is returned without being verified.
        """
        if self._wholes and rank_of is not None:
            rank_of = partial(_rank_of_either, rank_of)
        while True:
            # Looked up again after each `verify`: a waiter that it rejects has moved to another
            # limit, where others may come before it.
            first = self._first_due(domain, room, rank_of)
            queue = self._queues.get(domain)
            if queue is not None:
                queued = _first(queue, self._is_queued, rank_of)
                if queued is None:
                    del self._queues[domain]
                elif first is None or queued < first:
                    first = queued
            if first is None or (before is not None and before < first[0]):
                return _of_waiter(first)
            # Woken waiters first: they are no longer in `_waiting`.
            if first[2] in self._woken or verify(self._waiting[first[2]]):
                return _of_waiter(first)

    def _first_due(self, domain: str, room: Room, rank_of: RankOf | None) -> WaiterEntry | None:
        """Return the first waiter that waits for a need for which there is room, at a due node.

        The ranks in the heaps are too small at most, so only the smallest is brought up to date:
        with 50 needs and the policy Fair, 9 ranks are asked for in a start, and not 20.
        """
        tops: list[_Top] = []
        for node in list(self._due.get(domain, ())):
            if not self._add_tops(tops, node, room):
                self._settle(domain, node)
        heapq.heapify(tops)
        while tops:
            entry, at, node, rule, need = tops[0]
            entries = self._by_sum[node][rule][need]
            rank, number, waiter = entry
            if not self._is_current(node, rule, entry):
                heapq.heappop(entries)
                self._stale -= 1
            else:
                now = rank if rank_of is None else rank_of(waiter)
                if now == rank:
                    return entry
                heapq.heapreplace(entries, (now, number, waiter))
            if entries:
                heapq.heapreplace(tops, (entries[0], at, node, rule, need))
                continue
            heapq.heappop(tops)
            self._drop_need(node, rule, need)
            if all(top[2] != node for top in tops):
                self._settle(domain, node)
        return None

    def _is_queued(self, entry: WaiterEntry) -> bool:
        return entry[1] in {self._woken.get(entry[2]), self._to_recheck.get(entry[2])}

    def _settle(self, domain: str, node: LimitNode) -> None:
        due = self._due[domain]
        del due[node]
        if not due:
            del self._due[domain]

    def _add_tops(self, tops: list[_Top], node: LimitNode, room: Room) -> bool:
        """Add the top of each heap of a node for which there is room; return whether any is."""
        known = len(tops)
        for rule, needs in self._by_sum.get(node, {}).items():
            left = room(*node, rule)
            for need, entries in needs.items():
                if left is None or need <= left:
                    tops.append((entries[0], len(tops), node, rule, need))
        return len(tops) > known

    def _drop_need(self, node: LimitNode, rule: Rule, need: int) -> None:
        """Drop an empty heap, and what is empty then."""
        rules = self._by_sum[node]
        needs = rules[rule]
        del needs[need]
        if not needs:
            del rules[rule]
        if not rules:
            del self._by_sum[node]
            del self._domains[node]

    def _is_current(self, node: LimitNode, rule: Rule, entry: WaiterEntry) -> bool:
        waiting = self._waiting.get(entry[2])
        if waiting is None or waiting.number != entry[1]:
            return False
        # Part by part, without `_rule_of`: asked several times in the life of every unit.
        refusal = waiting.refusal
        reason, resource, via = rule
        return (
            refusal.quota == node[1]
            and refusal.resource == resource
            and (refusal.told_of or refusal.reason) is reason
            and refusal.via == via
            and waiting.tree_id == node[0]
        )


def _rule_of(refusal: Refusal) -> Rule:
    return (refusal.kind, refusal.resource, refusal.via)


def _drop_stale(heap: list[WaiterEntry], is_current: Callable[[WaiterEntry], bool]) -> None:
    # A waiter may have two entries, one with an outdated rank: the later one counts.
    newest = {entry[1]: entry for entry in sorted(heap) if is_current(entry)}
    heap[:] = sorted(newest.values())


def _drop_stale_needs(needs: Needs, is_current: Callable[[WaiterEntry], bool]) -> None:
    for need, entries in list(needs.items()):
        _drop_stale(entries, is_current)
        if not entries:
            del needs[need]


def _rank_of_either(rank_of: RankOf, waiter: Hashable) -> WaiterRank:
    return rank_of(waiter.waiter if isinstance(waiter, Whole) else waiter)


def _of_waiter(first: WaiterEntry | None) -> WaiterEntry | None:
    if first is not None and isinstance(first[2], Whole):
        return first[0], first[1], first[2].waiter
    return first


def _number(waiting: Waiting) -> int:
    return waiting.number


def _first(
    heap: list[WaiterEntry], is_current: Callable[[WaiterEntry], bool], rank_of: RankOf | None
) -> WaiterEntry | None:
    """Return the first current entry, by its current rank; stale entries are dropped."""
    while heap:
        rank, number, waiter = heap[0]
        if not is_current(heap[0]):
            heapq.heappop(heap)
            continue
        now = rank if rank_of is None else rank_of(waiter)
        if now == rank:
            return heap[0]
        heapq.heapreplace(heap, (now, number, waiter))
    return None
