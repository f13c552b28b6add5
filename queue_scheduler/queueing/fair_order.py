"""The order among queues that compete for the same limits.

Queues compete if they share a *domain*: a limit to which both are charged (the top of a quota
chain, or in `runtime` mode the whole tree, whose division every start changes). Within a domain the
movable queue with the highest rank goes first, and among equal ranks the one that was served
longest ago; a refusal does not count as being served. The others rest until it has started a unit,
or has no more units to try, or backs off.

The order (rank, turn, name) is total, so the first movable queue of all never waits for another:
some queue can always proceed.

The heaps are lazy: an entry counts only while it is the queue's newest and the queue is movable;
others are dropped when they reach the top.
"""

from __future__ import annotations

from heapq import heappop, heappush

Rank = tuple[int, ...]
"""Rank of a queue; smaller ones go first."""

Entry = tuple[Rank, int, str]
"""(rank, turn, name of the queue)."""

SLACK = 64
"""A heap is rebuilt when it has this many entries more than twice the movable queues, so that stale
ones cannot accumulate behind a queue that stays first."""


class FairOrder:
    """The movable queues of every domain, in order."""

    def __init__(self) -> None:
        self._movable: dict[str, tuple[Entry, frozenset[str]]] = {}
        self._heaps: dict[str, list[Entry]] = {}

    def set_movable(self, entry: Entry, domains: frozenset[str]) -> frozenset[str]:
        """Set a queue movable; return the domains whose order that changes."""
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
        """Set a queue not movable; return the domains in which another queue may be next."""
        known = self._movable.pop(name, None)
        return known[1] if known else frozenset()

    def competes_of(self, name: str) -> frozenset[str] | None:
        """Return the domains of a movable queue; None if it is not movable."""
        known = self._movable.get(name)
        return known[1] if known is not None else None

    def first_entry(self, domain: str) -> Entry | None:
        """Return the entry of the queue that is next in a domain, or None."""
        heap = self._heaps.get(domain)
        while heap:
            entry = heap[0]
            known = self._movable.get(entry[2])
            if known is not None and known[0] == entry and domain in known[1]:
                return entry
            heappop(heap)
        self._heaps.pop(domain, None)
        return None

    def queue_ahead_of(self, name: str) -> str | None:
        """Return a queue that must go before this one, or ""; None: this one is not movable."""
        known = self._movable.get(name)
        if known is None:
            return None
        domains = known[1]
        for domain in domains if len(domains) == 1 else sorted(domains):
            first = self.first_entry(domain)
            if first is not None and first[2] != name:
                return first[2]
        return ""

    def copy(self) -> FairOrder:
        """Return an independent copy."""
        twin = FairOrder()
        twin._movable = dict(self._movable)
        twin._heaps = {domain: heap[:] for domain, heap in self._heaps.items()}
        return twin

    # --- invariants ---------------------------------------------------------------------------

    def check_movable(self, entry: Entry, domains: frozenset[str]) -> None:
        """Raise AssertionError unless the queue is movable with this entry and these domains."""
        known = self._movable.get(entry[2])
        assert known == (entry, domains), f"{entry} in {sorted(domains)} is known as {known}"
        for domain in domains:
            assert entry in self._heaps.get(domain, ()), f"{entry} is not in line in {domain}"

    def check_queues(self, existing: set[str]) -> None:
        """Raise AssertionError if a queue that does not exist is movable."""
        gone = self._movable.keys() - existing
        assert not gone, f"movable, but gone: {sorted(gone)}"

    # --- internals ----------------------------------------------------------------------------

    def _counts(self, entry: Entry, domain: str) -> bool:
        known = self._movable.get(entry[2])
        return known is not None and known[0] == entry and domain in known[1]

    def _drop_stale(self, domain: str, heap: list[Entry]) -> None:
        heap[:] = sorted({entry for entry in heap if self._counts(entry, domain)})
