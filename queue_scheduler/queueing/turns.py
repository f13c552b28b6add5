"""Which queue has its turn: ranks, when queues were served, which back off, which to wake.

Owns the `TurnOrder`, and what it is made of. After a change of a queue, `refresh` updates there
whether the queue is *movable*: it has a unit to decide and does not back off. A *domain* is a limit
that queues compete for. Domains in which another queue may have its turn now are collected as
*touched*; `take_wakes` turns them into names of queues to wake.

Why that is enough: a worker asks until it gets a Rest. A queue that rests because it is not movable
is woken when it becomes movable and first in a domain. One that rests behind another is woken when
it becomes first in a domain that they share, since whatever puts it there (the other was served,
stopped, or left the domain) touches that domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy

import msgspec

from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.queueing.turn_order import Entry, Rank, TurnOrder

PlaceInTurns = tuple[Rank, int, str, int, OrderKey | None]
"""Sorts units of all queues: by the turn of their queue, then by their position in it.

A caller may keep a place from before a change of the policy, or of a deleted queue: the generation
keeps positions of two policies from being compared.
"""

Domains = Callable[[str], frozenset[str]]
"""Returns the limits that the units of a quota compete for."""


RanksOf = Callable[[str], Rank]
"""Returns where a quota stands by its use; two quotas can be compared, and ranks only grow."""


class _QueueTurn(msgspec.Struct):
    """What is kept of one queue.

    Attributes:
        rank: The smallest goes first.
        generation: Changes with the policy: positions of two policies cannot be compared.
        served: When it was last served, counted in decisions; 0: never.
        competes: What its units compete for; None: unknown, since its quotas or the limits changed.
        shown: Where queues go by use: the rank that waiters were last ordered by.
    """

    rank: Rank
    generation: int
    served: int = 0
    competes: frozenset[str] | None = None
    shown: Rank = ()


class Turns:
    """The turns of the queues, by name.

    Attributes:
        queue_ahead_of: Returns the queue whose turn comes before that of a queue, or "";
            None if it has nothing to decide.
        backs_off_until: From the name of a queue to when it goes on, in seconds of its worker's
            clock; None if it does not back off.
        regrouped: The queues whose ranks by use may have got smaller: they have units of other
            quotas, or quotas have changed, or use was restored.
    """

    queue_ahead_of: Callable[[str], str | None]
    backs_off_until: Callable[[str], float | None]

    def __init__(self, queues: Mapping[str, SchedulingQueue]) -> None:
        """Start without turns; `queues`: the queues by name, kept up to date by the caller."""
        self._queues = queues
        self._turns: dict[str, _QueueTurn] = {}
        self._next_served = 1
        self._next_generation = 1
        self._touched: dict[str, None] = {}
        self._called: dict[str, None] = {}
        self._ranks_of: RanksOf | None = None
        self.regrouped: dict[str, None] = {}
        self._keep(TurnOrder(), {})

    def _keep(self, order: TurnOrder, backs_off: dict[str, float]) -> None:
        self._order = order
        self._backs_off = backs_off
        # Called several times per decision: the bound methods save a call each.
        self.queue_ahead_of = order.queue_ahead_of
        self.backs_off_until = backs_off.get

    def go_by_use(self, ranks_of: RanksOf) -> None:
        """Order queues of equal rank by the use of their quotas: each by that with the least."""
        self._ranks_of = ranks_of
        self._order.renew = self.entry_of

    def rank(self, name: str) -> Rank:
        """Return the rank of a queue."""
        return self._turns[name].rank

    def standing_of(self, name: str) -> tuple[Rank, int, int, float | None]:
        """Return a queue's rank, its generation, when it was served, and until when it backs off.

        That is all that its turn follows from, apart from its units.
        """
        turn = self._turns[name]
        return turn.rank, turn.generation, turn.served, self._backs_off.get(name)

    def resume(self, name: str, generation: int, served: int, until: float | None) -> None:
        """Restore what `standing_of` returned in an engine with this queue, apart from the rank.

        The caller refreshes the queue afterwards.
        """
        turn = self._turns[name]
        turn.generation, turn.served = generation, served
        self._next_generation = max(self._next_generation, generation + 1)
        self._next_served = max(self._next_served, served + 1)
        if until is not None:
            self._backs_off[name] = until

    # --- queues come, change and go -----------------------------------------------------------

    def put(self, name: str, rank: Rank, *, is_other_policy: bool) -> bool:
        """Take a new or changed queue; return whether it has another rank than before.

        Args:
            name: The queue.
            rank: Its rank.
            is_other_policy: Whether its positions cannot be compared with those before.
        """
        turn = self._turns.get(name)
        if turn is None:
            turn = self._turns[name] = _QueueTurn(rank, self._next_generation)
            self._next_generation += 1
            return True
        if is_other_policy:
            turn.generation = self._next_generation
            self._next_generation += 1
        before, turn.rank = turn.rank, rank
        return before != rank

    def remove(self, name: str) -> None:
        """Forget a deleted queue."""
        del self._turns[name]
        self._backs_off.pop(name, None)
        self.regrouped.pop(name, None)
        self._touch(self._order.set_resting(name))

    def on_quotas_changed(self, name: str) -> None:
        """Note that a queue has units of another quota, or of one less."""
        self._turns[name].competes = None
        self.regrouped[name] = None

    def on_use_replaced(self) -> None:
        """Note that quotas have changed, or their use was restored."""
        self.regrouped = dict.fromkeys(self._turns)

    def on_limits_changed(self, domains: Domains) -> None:
        """Recompute what queues compete for, after a quota was created, changed or deleted."""
        for name, turn in self._turns.items():
            if turn.competes is not None and turn.competes != self._find_competes(name, domains):
                turn.competes = None
                self.refresh(self._queues[name], domains)

    def on_use_moved(self, quotas: Iterable[str], domains: Domains) -> None:
        """Note that quotas have used more: in their domains, other queues may be first."""
        self._touch(frozenset[str]().union(*map(domains, quotas)))

    def take_shrunk(self) -> tuple[str, ...]:
        """Return the queues whose ranks by use are smaller than their waiters were ordered by.

        Their quotas are others, or stand elsewhere in the tree. The caller wakes their classes, and
        refreshes them.
        """
        names, self.regrouped = self.regrouped, {}
        found = []
        for name in names:
            turn = self._turns[name]
            rank = self._rank_of(name, turn)
            if rank < turn.shown:
                found.append(name)
            turn.shown = rank
        return tuple(found)

    def refresh(self, queue: SchedulingQueue, domains: Domains) -> None:
        """Update in the order of turns whether the queue is movable."""
        name = queue.name
        if name in self._backs_off or queue.next_key() is None:
            self._touch(self._order.set_resting(name))
            return
        turn = self._turns[name]
        competes = turn.competes
        if competes is None:
            competes = turn.competes = self._find_competes(name, domains)
        if not competes and self._order.competes_of(name) != competes:
            # It is in no domain, so `take_wakes` would not find it by one.
            self._called[name] = None
        self._touch(self._order.set_movable(self.entry_of(name), competes))

    # --- turns --------------------------------------------------------------------------------

    def entry_of(self, name: str) -> Entry:
        """Return the present entry of a queue in the order of turns."""
        turn = self._turns[name]
        if self._ranks_of is None:
            return turn.rank, turn.served, name
        rank = self._rank_of(name, turn)
        turn.shown = max(turn.shown, rank)
        return rank, turn.served, name

    def place_of(self, waiter: tuple[str, int]) -> PlaceInTurns:
        """Return the place of a class (queue, number), by its queue's turn and its first unit."""
        name, number = waiter
        turn = self._turns[name]
        head = self._queues[name].pending.head_of(number)
        return (*self.entry_of(name), turn.generation, head)

    def first_place(self, domain: str) -> PlaceInTurns | None:
        """Return the place of the unit that is decided next in a domain, or None."""
        entry = self._order.first_entry(domain)
        if entry is None:
            return None
        name = entry[2]
        return (*entry, self._turns[name].generation, self._queues[name].next_key())

    def served(self, name: str) -> None:
        """Note that a queue had its turn."""
        self._turns[name].served = self._next_served
        self._next_served += 1

    def back_off(self, name: str, until: float) -> None:
        """Pause a queue until then; its worker is woken once to learn the time."""
        self._backs_off[name] = max(self._backs_off.get(name, 0.0), until)
        self._called[name] = None

    def end_back_off(self, queue: SchedulingQueue, domains: Domains) -> None:
        """Let a queue take part in the turns again."""
        del self._backs_off[queue.name]
        self.refresh(queue, domains)

    def take_wakes(self) -> tuple[str, ...]:
        """Return, once, the queues whose turn may have come."""
        if not self._touched and not self._called:
            return ()
        first = self._called
        for domain in self._touched:
            entry = self._order.first_entry(domain)
            if entry is not None:
                first[entry[2]] = None
        self._touched.clear()
        self._called = {}
        return tuple(first)

    # --- copies -------------------------------------------------------------------------------

    def fork(self, queues: Mapping[str, SchedulingQueue]) -> Turns:
        """Return an independent copy, over copies of the queues."""
        twin = Turns(queues)
        twin._keep(self._order.copy(), dict(self._backs_off))  # the caller lets them go by use
        twin._turns = {name: copy(turn) for name, turn in self._turns.items()}
        twin._next_served = self._next_served
        twin._next_generation = self._next_generation
        twin.regrouped = dict(self.regrouped)
        twin._touched = dict(self._touched)
        twin._called = dict(self._called)
        return twin

    def validate(self, domains: Domains) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        names = set(self._queues)
        assert set(self._turns) == names, f"turns of {sorted(self._turns)}, not {sorted(names)}"
        gone = self._backs_off.keys() - names
        assert not gone, f"{sorted(gone)} back off, and are gone"
        for name, queue in self._queues.items():
            if name in self._backs_off or queue.next_key() is None:
                ahead = self._order.queue_ahead_of(name)
                assert ahead is None, f"queue {name} is movable and has to rest"
                continue
            competes = self._find_competes(name, domains)
            entry, known = self.entry_of(name), self._order.entry_of(name)
            if known is not None and known[0] < entry[0] and self._ranks_of is not None:
                entry = (known[0], *entry[1:])  # its quota has used more since
            self._order.check_movable(entry, competes)
        self._order.check_queues(names)

    # --- inside -------------------------------------------------------------------------------

    def _rank_of(self, name: str, turn: _QueueTurn) -> Rank:
        assert self._ranks_of is not None, "queues do not go by use"
        quotas = self._queues[name].pending.by_quota
        return turn.rank + min(map(self._ranks_of, quotas), default=())

    def _find_competes(self, name: str, domains: Domains) -> frozenset[str]:
        quotas = self._queues[name].pending.by_quota
        return frozenset[str]().union(*map(domains, quotas))

    def _touch(self, changed: frozenset[str]) -> None:
        # Sorted: the order of a frozenset differs from process to process.
        for domain in changed if len(changed) == 1 else sorted(changed):
            self._touched[domain] = None
