"""All queues, and which of them has its turn.

Owns the `SchedulingQueue`s and the `FairOrder`, and keeps them consistent: after a change of a
queue, `refresh` updates in the fair order whether it is *movable*: it has a unit to decide and does
not back off. A *domain* is a limit that queues compete for. Domains in which another queue may have
its turn now are collected as *touched*; `take_wakes` turns them into names of queues to wake.

Why that is enough: a worker asks until it gets a Rest. A queue that rests because it is not movable
is woken when it becomes movable and first in a domain. One that rests behind another is woken when
it becomes first in a domain that they share, since whatever puts it there (the other was served,
stopped, or left the domain) touches that domain.
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
"""Sorts units of all queues: by the turn of their queue, then by their position in it.

A caller may keep a place from before a change of the policy, or of a deleted queue: the generation
keeps positions of two policies from being compared.
"""

Domains = Callable[[str], frozenset[str]]
"""From the name of a quota to the limits that its units compete for."""


class QueueSet:
    """The queues, by name.

    Attributes:
        find: From the name of a queue to its SchedulingQueue; None: there is no such queue.
        queue_ahead_of: From the name of a queue to the one whose turn comes before its own, or "";
            None: it has nothing to decide.
        changed_heads: The quotas whose first pending unit may have changed; cleared by `WakeUp`.
    """

    find: Callable[[str], SchedulingQueue | None]
    queue_ahead_of: Callable[[str], str | None]

    def __init__(self) -> None:
        self._keep({}, FairOrder())
        self._ranks: dict[str, Rank] = {}
        self._queues_of_quota: dict[str, dict[str, None]] = {}
        self._next_turn = 1
        self._next_generation = 1
        # What the queues' units compete for, until their quotas or the limits change.
        self._competes: dict[str, frozenset[str]] = {}
        self._touched: dict[str, None] = {}
        self._called: dict[str, None] = {}
        self.changed_heads: dict[str, None] = {}

    def _keep(self, queues: dict[str, SchedulingQueue], turns: FairOrder) -> None:
        self._queues = queues
        self._turns = turns
        # Called several times per decision: the bound methods save a call each.
        self.find = queues.get
        self.queue_ahead_of = turns.queue_ahead_of

    def __iter__(self) -> Iterator[SchedulingQueue]:
        return iter(self._queues.values())

    def __contains__(self, name: str) -> bool:
        return name in self._queues

    def queue(self, name: str) -> Queue | None:
        """Return the Queue object of that name, or None (`QueueDirectory`)."""
        queue = self._queues.get(name)
        return queue.api_object if queue is not None else None

    def rank(self, name: str) -> Rank | None:
        """Return the rank of a queue, or None."""
        return self._ranks.get(name)

    # --- queues come and go -------------------------------------------------------------------

    def put(self, queue: Queue, policy: QueuePolicy, rank: Rank) -> SchedulingQueue:
        """Add a queue, or replace its object; for a new policy it must have no pending units."""
        name = queue.metadata.name
        current = self._queues.get(name)
        if current is None:
            current = self._queues[name] = SchedulingQueue(queue, policy)
        assert current.policy is policy or not current.length, (
            f"queue {name}: policy under {current.length}"
        )
        if not current.generation or current.policy is not policy:
            current.generation = self._next_generation
            self._next_generation += 1
        current.api_object = queue
        if current.policy is not policy:
            current.policy = policy
        if self._ranks.get(name) != rank:
            self._ranks[name] = rank
            self.changed_heads.update(dict.fromkeys(current.quotas()))
        return current

    def set_options(self, queue: SchedulingQueue, options: QueueOptions) -> None:
        """Set the options of a queue; in a stopped one, no unit is the first of its quota."""
        was_stopped, depth = queue.options.is_stopped, queue.depth
        queue.options = options
        if was_stopped != options.is_stopped or depth != queue.depth:
            self.changed_heads.update(dict.fromkeys(queue.quotas()))

    def may_start(self, name: str) -> bool:
        """Return whether a queue is not stopped; that also concerns its admitted units.

        A queue that does not exist is not stopped.
        """
        queue = self._queues.get(name)
        return queue is None or not queue.options.is_stopped

    def remove(self, name: str) -> None:
        """Forget a queue without pending units."""
        queue = self._queues.pop(name)
        assert queue.length == 0, f"queue {name} removed with {queue.length} pending units"
        del self._ranks[name]
        self._competes.pop(name, None)
        self._touch(self._turns.set_resting(name))

    # --- units come and go --------------------------------------------------------------------

    def enqueue(self, info: QueueUnitInfo) -> int | None:
        """Add a unit to its queue; return the number of its class if that is woken by it."""
        queue = self._queues[info.queue]
        band = queue.first_band
        woken = queue.add(info)
        if queue.first_band != band:
            # Units of a later band than the first could not start even if they fitted.
            self.changed_heads.update(dict.fromkeys(queue.quotas()))
        queues = self._queues_of_quota.setdefault(info.quota, {})
        if info.queue not in queues:
            queues[info.queue] = None
            self._competes.pop(info.queue, None)
        self.changed_heads[info.quota] = None
        if queue.depth is not None:
            self._note_depth(queue, queue.depth)
        return woken

    def withdraw(self, info: QueueUnitInfo) -> int | None:
        """Remove a unit from its queue; return the number of its class if that is empty now."""
        queue = self._queues[info.queue]
        band = queue.first_band
        emptied = queue.remove(info)
        self.changed_heads[info.quota] = None
        if queue.first_band != band:
            self.changed_heads.update(dict.fromkeys(queue.quotas()))
        if queue.depth:
            self._note_depth(queue, queue.depth - 1)
        if emptied is not None and queue.first_of(info.quota) is None:
            queues = self._queues_of_quota[info.quota]
            del queues[info.queue]
            self._competes.pop(info.queue, None)
            if not queues:
                del self._queues_of_quota[info.quota]
        return emptied

    def _note_depth(self, queue: SchedulingQueue, position: int) -> None:
        """Note the quota whose first unit has just moved beyond a queue's depth, or within it."""
        if queue.length <= position:
            return
        moved = next(islice(queue.in_order(), position, None))
        quota = next((name for name in queue.quotas() if queue.first_of(name) == moved), None)
        if quota is not None:
            self.changed_heads[quota] = None

    def quotas(self) -> Collection[str]:
        """Return the quotas that have pending units in any queue."""
        return self._queues_of_quota.keys()

    def queues_of(self, quota: str) -> tuple[str, ...]:
        """Return the queues in which the quota has pending units, sorted."""
        return tuple(sorted(self._queues_of_quota.get(quota, ())))

    def first_waiting(self, quota: str) -> OrderKey | None:
        """Return the position of the quota's first pending unit that could start if it fitted.

        If several queues have units of it, the one that is offered first by its rank counts.
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
        """Recompute what queues compete for, after a quota was created, changed or deleted."""
        for name in list(self._competes):
            if self._competes[name] != self._find_competes(name, domains):
                del self._competes[name]
                self.refresh(self._queues[name], domains)

    def refresh(self, queue: SchedulingQueue, domains: Domains) -> None:
        """Update in the fair order whether the queue is movable."""
        name = queue.name
        if queue.not_before or queue.next_key() is None:
            self._touch(self._turns.set_resting(name))
            return
        competes = self._competes.get(name)
        if competes is None:
            competes = self._competes[name] = self._find_competes(name, domains)
        entry = (self._ranks[name], queue.turn, name)
        if not competes and self._turns.competes_of(name) != competes:
            # It is in no domain, so `take_wakes` would not find it by one.
            self._called[name] = None
        self._touch(self._turns.set_movable(entry, competes))

    def place_of(self, waiter: tuple[str, int]) -> Place:
        """Return the place of a class (queue, number), by its queue's turn and its first unit."""
        name, number = waiter
        queue = self._queues[name]
        return (self._ranks[name], queue.turn, name, queue.generation, queue.head_of(number))

    def first_place(self, domain: str) -> Place | None:
        """Return the place of the unit that is decided next in a domain, or None."""
        entry = self._turns.first_entry(domain)
        if entry is None:
            return None
        queue = self._queues[entry[2]]
        return (*entry, queue.generation, queue.next_key())

    def served(self, queue: SchedulingQueue) -> None:
        """Note that the queue had its turn."""
        queue.turn = self._next_turn
        self._next_turn += 1

    def back_off(self, queue: SchedulingQueue, until: float) -> None:
        """Let a queue rest until then; its worker is woken once to learn it."""
        queue.not_before = max(queue.not_before, until)
        self._called[queue.name] = None

    def end_back_off(self, queue: SchedulingQueue, domains: Domains) -> None:
        """Let a queue take part in the turns again."""
        queue.not_before = 0.0
        self.refresh(queue, domains)

    def take_wakes(self) -> tuple[str, ...]:
        """Return, once, the queues whose turn may have come."""
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
        queues = {name: queue.copy() for name, queue in self._queues.items()}
        twin._keep(queues, self._turns.copy())
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
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        of_quota: dict[str, set[str]] = {}
        for name, queue in self._queues.items():
            queue.validate()
            for quota in queue.quotas():
                of_quota.setdefault(quota, set()).add(name)
            if queue.not_before or queue.next_key() is None:
                ahead = self._turns.queue_ahead_of(name)
                assert ahead is None, f"queue {name} is movable and has to rest"
                continue
            entry = (self._ranks[name], queue.turn, name)
            competes = self._find_competes(name, domains)
            self._turns.check_movable(entry, competes)
        known = {quota: set(names) for quota, names in self._queues_of_quota.items()}
        assert known == of_quota, f"queues of quotas: {known}, should be {of_quota}"
        self._turns.check_queues(set(self._queues))

    # --- inside -------------------------------------------------------------------------------

    def _rank_and_name(self, name: str) -> tuple[Rank, str]:
        return (self._ranks[name], name)

    def _find_competes(self, name: str, domains: Domains) -> frozenset[str]:
        quotas = self._queues[name].quotas()
        return frozenset[str]().union(*(domains(quota) for quota in quotas))

    def _touch(self, changed: frozenset[str]) -> None:
        # Sorted: the order of a frozenset differs from process to process.
        for domain in changed if len(changed) == 1 else sorted(changed):
            self._touched[domain] = None
