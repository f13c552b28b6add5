"""Who waits for which limit, so that a change wakes only those whom it may have enabled.

A refusal is kept until what refuted it may have changed:

* **sums** (max, min, the nodes' total): used + need > limit stays true until that very sum falls or
  that limit rises. Kept by node, rule, resource and need, each need in the order of ranks: so who
  comes first of those whose need is within the room is found by one look per distinct need.
* **contract** (runtimes): resources are divided independently, so an answer depends on nothing but
  demands and total of one resource in one tree. Kept by (tree, resource).
* **guarantee**: falls when room is freed, or something protected goes, in the same tree.
* the rest (no such quota, broken chain, no node): falls with a change of the quotas or nodes.

A change of the quotas themselves wakes everybody. This module is an index and decides nothing:
the books, which know the numbers, ask it.

A release of one GPU may enable a hundred waiters, one at a time. So they are not woken until they
are taken, in the order of their ranks: when the first has started, the others are no longer due.

Source: decisions C 6.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Any, Final, TypeAlias

import msgspec

from queue_scheduler.quota.quota_decision import Demand, QuotaRefusal, RefusalReason
from queue_scheduler.quota.quota_fit import SUM_REASONS

Rank: TypeAlias = tuple[Any, ...]
"""Sorts waiters, smallest first; only compared with other ranks of the same caller."""

Entry: TypeAlias = tuple[Rank, int, Hashable]
Room: TypeAlias = Callable[[str, str, RefusalReason, str], int | None]
"""(tree, node, rule, resource) -> what is left; None: there is no such limit any more."""

CONTRACT_REASONS: Final = frozenset(
    (
        RefusalReason.OVER_RUNTIME,
        RefusalReason.OVER_PARENT_RUNTIME,
        RefusalReason.HURTS_OTHERS,
    )
)


class Waiting(msgspec.Struct, frozen=True):
    """One waiter; `number` counts up. `seen_at` is the tree's clock when he was refused last."""

    number: int
    waiter: Hashable
    rank: Rank
    quota: str
    tree_id: str
    demand: Demand
    refusal: QuotaRefusal
    seen_at: int = 0


Node: TypeAlias = tuple[str, str]
Needs: TypeAlias = dict[int, list[Entry]]


class WaitingRoom:
    """All waiters, by what they wait for, and those that are woken and not yet taken."""

    __slots__ = (
        "_by_contract", "_by_guarantee", "_by_sum", "_due", "_next", "_queue", "_waiting", "_woken",
    )  # fmt: skip

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[Hashable, Waiting] = {}
        self._by_sum: dict[Node, dict[tuple[RefusalReason, str], Needs]] = {}
        self._by_contract: dict[tuple[str, str], dict[Hashable, None]] = {}
        self._by_guarantee: dict[str, dict[Hashable, None]] = {}
        self._due: dict[Node, None] = {}
        # The woken with their numbers, and their order; who left is still in the order.
        self._woken: dict[Hashable, int] = {}
        self._queue: list[Entry] = []

    def fork(self) -> WaitingRoom:
        """Return an independent copy."""
        copy = WaitingRoom()
        copy._next = self._next
        copy._waiting = dict(self._waiting)
        copy._by_sum = {
            node: {
                rule: {need: list(entries) for need, entries in needs.items()}
                for rule, needs in rules.items()
            }
            for node, rules in self._by_sum.items()
        }
        copy._by_contract = {key: dict(waiters) for key, waiters in self._by_contract.items()}
        copy._by_guarantee = {key: dict(waiters) for key, waiters in self._by_guarantee.items()}
        copy._due = dict(self._due)
        copy._woken = dict(self._woken)
        copy._queue = list(self._queue)
        return copy

    # --- coming and going -----------------------------------------------------------------------

    def add(self, waiting: Waiting) -> None:
        """Let somebody wait; his number is given here."""
        self.remove(waiting.waiter)
        self._next += 1
        self._put(msgspec.structs.replace(waiting, number=self._next))

    def keep(self, waiting: Waiting, refusal: QuotaRefusal, seen_at: int) -> None:
        """Keep somebody waiting, at his place in the order, for what refuses him now."""
        self._drop_from_index(waiting)
        self._put(msgspec.structs.replace(waiting, refusal=refusal, seen_at=seen_at))

    def remove(self, waiter: Hashable) -> None:
        """Forget somebody, waiting or woken. His place among sums goes when it comes up."""
        self._woken.pop(waiter, None)
        waiting = self._waiting.pop(waiter, None)
        if waiting is not None:
            self._drop_from_index(waiting)

    def _put(self, waiting: Waiting) -> None:
        self._waiting[waiting.waiter] = waiting
        refusal = waiting.refusal
        if refusal.reason in SUM_REASONS and refusal.resource:
            rules = self._by_sum.setdefault((waiting.tree_id, refusal.quota), {})
            needs = rules.setdefault((refusal.reason, refusal.resource), {})
            entry = (waiting.rank, waiting.number, waiting.waiter)
            heapq.heappush(needs.setdefault(refusal.requested, []), entry)
        elif refusal.reason in CONTRACT_REASONS:
            key = (waiting.tree_id, refusal.resource)
            self._by_contract.setdefault(key, {})[waiting.waiter] = None
        elif refusal.reason is RefusalReason.GUARANTEE_OF_OTHERS:
            self._by_guarantee.setdefault(waiting.tree_id, {})[waiting.waiter] = None

    def _drop_from_index(self, waiting: Waiting) -> None:
        refusal = waiting.refusal
        if refusal.reason in CONTRACT_REASONS:
            self._by_contract[waiting.tree_id, refusal.resource].pop(waiting.waiter, None)
        elif refusal.reason is RefusalReason.GUARANTEE_OF_OTHERS:
            self._by_guarantee[waiting.tree_id].pop(waiting.waiter, None)

    # --- who waits ------------------------------------------------------------------------------

    def is_anybody_there(self) -> bool:
        """Say whether anybody waits, the woken not counted."""
        return bool(self._waiting)

    def waiting(self) -> list[Waiting]:
        """Return everybody who waits, those first who came first."""
        return sorted(self._waiting.values(), key=_number)

    def latest_seen_at(self) -> int:
        """Return the latest reading of a tree's clock that anybody was refused at."""
        return max((waiting.seen_at for waiting in self._waiting.values()), default=0)

    def refused_by_contract(self, tree_id: str, resource: str) -> list[Waiting]:
        """Return who waits for a runtime of this resource."""
        waiters = self._by_contract.get((tree_id, resource), {})
        return [self._waiting[waiter] for waiter in waiters]

    def refused_by_guarantee(self, tree_id: str) -> list[Waiting]:
        """Return who waits for room that is kept for owners."""
        return [self._waiting[waiter] for waiter in self._by_guarantee.get(tree_id, {})]

    def watched_nodes(self) -> list[Node]:
        """Return (tree, quota) of every node whose sums somebody waits for."""
        return list(self._by_sum)

    # --- waking ---------------------------------------------------------------------------------

    def mark_due(self, tree_id: str, node: str) -> None:
        """Note that there may be more room under the limits of a node."""
        if (tree_id, node) in self._by_sum:
            self._due[tree_id, node] = None

    def wake(self, waiting: Waiting) -> None:
        """Move somebody from the waiting to the woken, whatever room there is."""
        del self._waiting[waiting.waiter]
        self._drop_from_index(waiting)
        self._woken[waiting.waiter] = waiting.number
        heapq.heappush(self._queue, (waiting.rank, waiting.number, waiting.waiter))

    def wake_all(self) -> None:
        """Wake everybody."""
        for waiting in list(self._waiting.values()):
            self.wake(waiting)
        self._by_sum.clear()
        self._due.clear()

    def take(self, most: int | None, room: Room) -> list[Hashable]:
        """Return those who may start, in the order of ranks, `most` of them; they leave."""
        if most is None:
            for node in list(self._due):
                for entry in self._due_at(node, room, only_first=False):
                    self.wake(self._waiting[entry[2]])
            self._due.clear()
        taken: list[Hashable] = []
        while most is None or len(taken) < most:
            first = self._first(room)
            if first is None:
                break
            taken.append(first[2])
            self.remove(first[2])
        return taken

    def _first(self, room: Room) -> Entry | None:
        """Return the first of the woken and of those for whom there is room."""
        queue = self._queue
        while queue and self._woken.get(queue[0][2]) != queue[0][1]:
            heapq.heappop(queue)
        candidates = queue[:1]
        for node in list(self._due):
            found = self._due_at(node, room, only_first=True)
            if not found:
                del self._due[node]
            candidates += found
        return min(candidates, default=None)

    def _due_at(self, node: Node, room: Room, *, only_first: bool) -> list[Entry]:
        """Return those at a node for whose need there is room; only the first of each need."""
        rules = self._by_sum.get(node, {})
        found: list[Entry] = []
        for rule, needs in list(rules.items()):
            left = room(*node, *rule)
            for need, entries in list(needs.items()):
                if left is not None and need > left:
                    continue
                while entries and not self._is_current(entries[0], node, rule):
                    heapq.heappop(entries)
                if not entries:
                    del needs[need]
                elif only_first:
                    found.append(entries[0])
                else:
                    found += [entry for entry in entries if self._is_current(entry, node, rule)]
            if not needs:
                del rules[rule]
        if not rules:
            self._by_sum.pop(node, None)
        return found

    def _is_current(self, entry: Entry, node: Node, rule: tuple[RefusalReason, str]) -> bool:
        waiting = self._waiting.get(entry[2])
        if waiting is None or waiting.number != entry[1]:
            return False
        refusal = waiting.refusal
        return (waiting.tree_id, refusal.quota) == node and (
            refusal.reason,
            refusal.resource,
        ) == rule


def _number(waiting: Waiting) -> int:
    return waiting.number
