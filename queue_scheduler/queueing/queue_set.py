"""All queues: their pending units, and which queue is next.

It owns `SchedulingQueue` and `FairOrder`, and keeps the two in sync: after a change of a queue,
`refresh` updates in the fair order whether the queue is movable. Domains in which another queue may
be next collect as *touched domains*; `take_wakes` turns them into names of queues to wake.

Why that is enough: a worker keeps trying until it must rest. A queue that rests because it is not
movable is woken when it becomes movable and first in a domain; one that rests behind another is
woken when it becomes first in a domain that they share, since any cause of that (the other was
served, stopped, or left the domain) touches the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice

from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo
from queue_scheduler.queueing.fair_order import FairOrder, Rank
from queue_scheduler.queueing.queue_options import QueueOptions
from queue_scheduler.queueing.queue_policies import QueuePolicy
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.queue import Queue

Place = tuple[Rank, int, str, int, OrderKey | None]
"""Sorts units of all queues: by the turn of their queue, then by their place in it.

A place may be older than a change of the policy, or be of a queue that is gone: the generation
ensures that places of two kinds are never compared.
"""

Domains = Callable[[str], frozenset[str]]
"""Returns the domains (limits) for which the units of a quota compete, by its name."""


class QueueSet:
    """The queues, by name.

    Attributes:
        line: Returns the queue of a name; None if there is none.
        queue_ahead_of: Returns the name of a queue that must go before the named one, or ""; None:
            the named one has no unit to decide on.
        changed_heads: The quotas whose first pending unit may have changed; emptied by the reader.
    """

    line: Callable[[str], SchedulingQueue | None]
    queue_ahead_of: Callable[[str], str | None]

    def __init__(self) -> None:
        self._keep({}, FairOrder())
        self._ranks: dict[str, Rank] = {}
        self._queues_of_quota: dict[str, dict[str, None]] = {}
        self._next_turn = 1
        self._next_generation = 1
        # The domains of each queue, cached until its quotas or the limits change.
        self._competes: dict[str, frozenset[str]] = {}
        self._touched: dict[str, None] = {}
        self._called: dict[str, None] = {}
        self.changed_heads: dict[str, None] = {}

    def _keep(self, queues: dict[str, SchedulingQueue], turns: FairOrder) -> None:
        self._queues = queues
        self._turns = turns
        # Called several times per decision: bound methods, without a call in between.
        self.line = queues.get
        self.queue_ahead_of = turns.queue_ahead_of

    def __iter__(self) -> Iterator[SchedulingQueue]:
        return iter(self._queues.values())

    def __contains__(self, name: str) -> bool:
        return name in self._queues

    def queue(self, name: str) -> Queue | None:
        """Return the Queue object of that name, or None (`QueueDirectory`)."""
        line = self._queues.get(name)
        return line.queue if line is not None else None

    def rank(self, name: str) -> Rank | None:
        """Return the rank of a queue, or None."""
        return self._ranks.get(name)

    # --- queues -------------------------------------------------------------------------------

    def put(self, queue: Queue, policy: QueuePolicy, rank: Rank) -> SchedulingQueue:
        """Add a queue, or replace its object; it must have no pending unit for a new policy."""
        name = queue.metadata.name
        line = self._queues.get(name)
        if line is None:
            line = self._queues[name] = SchedulingQueue(queue, policy)
        assert line.policy is policy or not line.length, f"queue {name}: policy under {line.length}"
        if not line.generation or line.policy is not policy:
            line.generation = self._next_generation
            self._next_generation += 1
        line.queue = queue
        if line.policy is not policy:
            line.policy = policy
        if self._ranks.get(name) != rank:
            self._ranks[name] = rank
            self.changed_heads.update(dict.fromkeys(line.quotas()))
        return line

    def set_options(self, line: SchedulingQueue, options: QueueOptions) -> None:
        """Set the options of a queue; a stopped queue has no unit that may start."""
        was_stopped, depth = line.options.is_stopped, line.depth
        line.options = options
        if was_stopped != options.is_stopped or depth != line.depth:
            self.changed_heads.update(dict.fromkeys(line.quotas()))

    def may_start(self, name: str) -> bool:
        """Return whether the units of a queue may start, including those that are charged already.

        A queue that does not exist stops no unit.
        """
        line = self._queues.get(name)
        return line is None or not line.options.is_stopped

    def remove(self, name: str) -> None:
        """Remove a queue without pending units."""
        line = self._queues.pop(name)
        assert line.length == 0, f"queue {name} removed with {line.length} units in line"
        del self._ranks[name]
        self._competes.pop(name, None)
        self._touch(self._turns.set_resting(name))

    # --- units --------------------------------------------------------------------------------

    def enqueue(self, info: QueueUnitInfo) -> int | None:
        """Add a unit to its queue; return the number of its class if that wakes it, else None."""
        line = self._queues[info.queue]
        band = line.first_band
        woken = line.add(info)
        if line.first_band != band:
            # Units of a later band than the first could not start even if they fitted.
            self.changed_heads.update(dict.fromkeys(line.quotas()))
        queues = self._queues_of_quota.setdefault(info.quota, {})
        if info.queue not in queues:
            queues[info.queue] = None
            self._competes.pop(info.queue, None)
        self.changed_heads[info.quota] = None
        if line.depth is not None:
            self._note_depth(line, line.depth)
        return woken

    def withdraw(self, info: QueueUnitInfo) -> int | None:
        """Remove a unit from its queue; return the number of its class if that is empty now."""
        line = self._queues[info.queue]
        band = line.first_band
        emptied = line.remove(info)
        self.changed_heads[info.quota] = None
        if line.first_band != band:
            self.changed_heads.update(dict.fromkeys(line.quotas()))
        if line.depth:
            self._note_depth(line, line.depth - 1)
        if emptied is not None and line.first_of(info.quota) is None:
            queues = self._queues_of_quota[info.quota]
            del queues[info.queue]
            self._competes.pop(info.queue, None)
            if not queues:
                del self._queues_of_quota[info.quota]
        return emptied

    def _note_depth(self, line: SchedulingQueue, position: int) -> None:
        """Record the quota whose first unit has just moved beyond a queue's depth, or within it."""
        if line.length <= position:
            return
        moved = next(islice(line.in_order(), position, None))
        quota = next((name for name in line.quotas() if line.first_of(name) == moved), None)
        if quota is not None:
            self.changed_heads[quota] = None

    def quotas(self) -> Collection[str]:
        """Return the quotas with pending units in any queue."""
        return self._queues_of_quota.keys()

    def queues_of(self, quota: str) -> tuple[str, ...]:
        """Return the names of the queues with pending units of the quota, sorted."""
        return tuple(sorted(self._queues_of_quota.get(quota, ())))

    def first_waiting(self, quota: str) -> OrderKey | None:
        """Return the place of the quota's first pending unit that could start if it fitted.

        None if there is none. If several queues have units of the quota, the queue with the higher
        rank comes first.
        """
        names: Collection[str] = self._queues_of_quota.get(quota, {})
        if len(names) > 1:
            names = sorted(names, key=self._rank_and_name)
        for name in names:
            first = self._queues[name].first_eligible(quota)
            if first is not None:
                return first
        return None

    # --- turns --------------------------------------------------------------------------------

    def on_limits_changed(self, domains: Domains) -> None:
        """Handle that quotas have changed: queues may compete with other queues now."""
        for name in list(self._competes):
            if self._competes[name] != self._find_competes(name, domains):
                del self._competes[name]
                self.refresh(self._queues[name], domains)

    def refresh(self, line: SchedulingQueue, domains: Domains) -> None:
        """Update in the fair order whether the queue is movable."""
        name = line.name
        if line.not_before or line.next_key() is None:
            self._touch(self._turns.set_resting(name))
            return
        competes = self._competes.get(name)
        if competes is None:
            competes = self._competes[name] = self._find_competes(name, domains)
        entry = (self._ranks[name], line.turn, name)
        if not competes and self._turns.competes_of(name) != competes:
            # No other queue's turn depends on it, so no domain would ever name it.
            self._called[name] = None
        self._touch(self._turns.set_movable(entry, competes))

    def place_of(self, waiter: tuple[str, int]) -> Place:
        """Return the place of a class (queue, number): its queue's turn, and its first unit's."""
        name, number = waiter
        line = self._queues[name]
        return (self._ranks[name], line.turn, name, line.generation, line.head_of(number))

    def first_place(self, domain: str) -> Place | None:
        """Return the place of the unit that is tried next in a domain, or None."""
        entry = self._turns.first_entry(domain)
        if entry is None:
            return None
        line = self._queues[entry[2]]
        return (*entry, line.generation, line.next_key())

    def served(self, line: SchedulingQueue) -> None:
        """Record that the queue had its turn."""
        line.turn = self._next_turn
        self._next_turn += 1

    def back_off(self, line: SchedulingQueue, until: float) -> None:
        """Let a queue rest until then; its worker is woken to notice it."""
        line.not_before = max(line.not_before, until)
        self._called[line.name] = None

    def take_wakes(self) -> tuple[str, ...]:
        """Return, once, the names of queues that may be next."""
        if not self._touched and not self._called:
            return ()
        first = self._called
        for domain in self._touched:
            entry = self._turns.first_entry(domain)
            if entry is not None:
                first[entry[2]] = None
        self._touched.clear()
        self._called = {}
        return tuple(first)

    # --- copies -------------------------------------------------------------------------------

    def fork(self) -> QueueSet:
        """Return an independent copy."""
        twin = QueueSet()
        lines = {name: line.copy() for name, line in self._queues.items()}
        twin._keep(lines, self._turns.copy())
        twin._ranks = dict(self._ranks)
        twin._queues_of_quota = {q: dict(names) for q, names in self._queues_of_quota.items()}
        twin._next_turn = self._next_turn
        twin._next_generation = self._next_generation
        twin._competes = dict(self._competes)
        twin._touched = dict(self._touched)
        twin._called = dict(self._called)
        twin.changed_heads = dict(self.changed_heads)
        return twin

    def validate(self, domains: Domains) -> None:
        """Recompute what is derived; raise AssertionError with details if it differs."""
        of_quota: dict[str, set[str]] = {}
        for name, line in self._queues.items():
            line.validate()
            for quota in line.quotas():
                of_quota.setdefault(quota, set()).add(name)
            if line.not_before or line.next_key() is None:
                ahead = self._turns.queue_ahead_of(name)
                assert ahead is None, f"queue {name} is movable and has to rest"
                continue
            entry = (self._ranks[name], line.turn, name)
            competes = self._find_competes(name, domains)
            self._turns.check_movable(entry, competes)
        known = {quota: set(names) for quota, names in self._queues_of_quota.items()}
        assert known == of_quota, f"queues of quotas: {known}, should be {of_quota}"
        self._turns.check_queues(set(self._queues))

    # --- internals ----------------------------------------------------------------------------

    def _rank_and_name(self, name: str) -> tuple[Rank, str]:
        return (self._ranks[name], name)

    def _find_competes(self, name: str, domains: Domains) -> frozenset[str]:
        quotas = self._queues[name].quotas()
        return frozenset[str]().union(*(domains(quota) for quota in quotas))

    def _touch(self, changed: frozenset[str]) -> None:
        # Sorted: the order of a frozenset differs from process to process.
        for domain in changed if len(changed) == 1 else sorted(changed):
            self._touched[domain] = None
