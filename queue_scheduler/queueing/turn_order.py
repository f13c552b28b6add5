"""Which queue has its turn, among queues that compete for the same limits.

Queues compete when they share a *domain*: a limit that both are charged to (the top of a quota
chain, or in `runtime` mode the whole tree, whose division every start changes). Within a
domain the movable queue of the highest rank goes first, and of equal rank the one that was
served longest ago; only an admission counts as served, a refusal does not. The others rest until
that queue has admitted a unit, has no unit to decide, or backs off.

The order (rank, turn, name) is total, so the first movable queue of all never waits for another:
some queue can always continue.

The heaps are lazy: an entry counts only while it is the newest of its queue and the queue is
movable; stale entries are dropped when they reach the top. Where ranks grow with what quotas use,
the newest entry of a queue may be too small: it is renewed when it reaches the top, which is soon
enough since none gets smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

Rank = tuple[int, ...]
"""Smaller goes first."""

Entry = tuple[Rank, int, str]
"""(rank, turn, name of the queue)."""

SLACK = 64
"""A heap is rebuilt when it has this many entries more than twice the movable queues, so stale
ones cannot pile up behind a queue that stays first."""


class TurnOrder:
    """The movable queues of every domain, in order.

    Attributes:
        renew: Returns the present entry of a queue; None: ranks do not grow.
    """

    def __init__(self) -> None:
        self.renew: Callable[[str], Entry] | None = None
        self._movable: dict[str, tuple[Entry, frozenset[str]]] = {}
        self._heaps: dict[str, list[Entry]] = {}

    def set_movable(self, entry: Entry, domains: frozenset[str]) -> frozenset[str]:
        """Note that a queue is movable; return the domains whose order that changes."""
        name = entry[2]
        known = self._movable.get(name)
        if known == (entry, domains):
            return frozenset()
        self._movable[name] = (entry, domains)
        for domain in domains:
            heap = self._heaps.setdefault(domain, [])
            heappush(heap, entry)
            if len(heap) > 2 * len(self._movable) + SLACK:
                self._drop_stale(domain, heap)
        if known is None or known[1] is domains:
            return domains
        return domains | known[1]

    def set_resting(self, name: str) -> frozenset[str]:
        """Note that a queue is not movable; return the domains where another may have its turn."""
        known = self._movable.pop(name, None)
        return known[1] if known else frozenset()

    def competes_of(self, name: str) -> frozenset[str] | None:
        """Return the domains of a queue; None if it is not movable."""
        known = self._movable.get(name)
        return known[1] if known is not None else None

    def entry_of(self, name: str) -> Entry | None:
        """Return the newest entry of a queue; None if it is not movable."""
        known = self._movable.get(name)
        return known[0] if known is not None else None

    def first_entry(self, domain: str) -> Entry | None:
        """Return the entry of the queue whose turn it is in a domain, or None."""
        heap = self._heaps.get(domain)
        while heap:
            entry = heap[0]
            known = self._movable.get(entry[2])
            if known is not None and known[0] == entry and domain in known[1]:
                fresh = entry if self.renew is None else self.renew(entry[2])
                if fresh == entry:
                    return entry
                self.set_movable(fresh, known[1])
                continue  # its former entry is stale now, and may be dropped from the heap already
            heappop(heap)
        self._heaps.pop(domain, None)
        return None

    def queue_ahead_of(self, name: str) -> str | None:
        """Return a queue whose turn comes before this one's, or ""; None if this is not movable."""
        known = self._movable.get(name)
        if known is None:
            return None
        domains = known[1]
        for domain in domains if len(domains) == 1 else sorted(domains):
            first = self.first_entry(domain)
            if first is not None and first[2] != name:
                return first[2]
        return ""

    def copy(self) -> TurnOrder:
        """Return an independent copy, whose ranks do not grow."""
        twin = TurnOrder()
        twin._movable = dict(self._movable)
        twin._heaps = {domain: heap[:] for domain, heap in self._heaps.items()}
        return twin

    # --- invariants ---------------------------------------------------------------------------

    def check_movable(self, entry: Entry, domains: frozenset[str]) -> None:
        """Raise AssertionError unless the queue is known as movable like this."""
        known = self._movable.get(entry[2])
        assert known == (entry, domains), f"{entry} in {sorted(domains)} is known as {known}"
        for domain in domains:
            assert entry in self._heaps.get(domain, ()), f"{entry} is not in the order of {domain}"

    def check_queues(self, existing: set[str]) -> None:
        """Raise AssertionError if a queue that does not exist is movable."""
        gone = self._movable.keys() - existing
        assert not gone, f"movable, but gone: {sorted(gone)}"

    # --- inside -------------------------------------------------------------------------------

    def _counts(self, entry: Entry, domain: str) -> bool:
        known = self._movable.get(entry[2])
        return known is not None and known[0] == entry and domain in known[1]

    def _drop_stale(self, domain: str, heap: list[Entry]) -> None:
        heap[:] = sorted({entry for entry in heap if self._counts(entry, domain)})
