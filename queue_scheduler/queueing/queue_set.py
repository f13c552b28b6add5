"""All queues, and in which of them each quota has pending units.

Owns the `SchedulingQueue`s, and keeps their `Turns` in step with what is pending in them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo
from queue_scheduler.queueing.pending_classes import PendingClasses
from queue_scheduler.queueing.queue_options import QueueOptions
from queue_scheduler.queueing.queue_policies import QueuePolicy
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.queueing.turn_order import Rank
from queue_scheduler.queueing.turns import Domains, Turns
from shared_api.objects.queue import Queue


class QueueSet:
    """The queues, by name.

    Attributes:
        find: Returns the SchedulingQueue of a name; None if there is no such queue.
        turns: The turns of the queues.
        changed_heads: The quotas whose first pending unit may have changed; cleared by `WakeUp`.
        sparing: The queues that state how long none of their units is preempted.
    """

    find: Callable[[str], SchedulingQueue | None]

    def __init__(self) -> None:
        self._queues: dict[str, SchedulingQueue] = {}
        # Called several times per decision: the bound method saves a call each.
        self.find = self._queues.get
        self.turns = Turns(self._queues)
        self.changed_heads: dict[str, None] = {}
        self.sparing: dict[str, None] = {}
        self._queues_of_quota: dict[str, dict[str, None]] = {}

    def __iter__(self) -> Iterator[SchedulingQueue]:
        return iter(self._queues.values())

    def __contains__(self, name: str) -> bool:
        return name in self._queues

    def queue(self, name: str) -> Queue | None:
        """Return the Queue object of that name, or None (`QueueDirectory`)."""
        queue = self._queues.get(name)
        return queue.rules.api_object if queue is not None else None

    # --- queues come and go -------------------------------------------------------------------

    def put(self, queue: Queue, policy: QueuePolicy, rank: Rank) -> SchedulingQueue:
        """Add a queue, or replace its object; for a new policy it must have no pending units."""
        name = queue.metadata.name
        current = self._queues.get(name)
        is_other_policy = current is None or current.rules.policy is not policy
        if current is None:
            current = self._queues[name] = SchedulingQueue(queue, policy)
        else:
            current.renew(queue, policy)
        if self.turns.put(name, rank, is_other_policy=is_other_policy):
            self.changed_heads.update(dict.fromkeys(current.pending.by_quota))
        return current

    def set_options(self, queue: SchedulingQueue, options: QueueOptions) -> None:
        """Set the options of a queue; in a stopped one, no unit is the first of its quota."""
        before = queue.rules
        queue.set_options(options)
        after = queue.rules
        if options.preempt_min_seconds is None:
            self.sparing.pop(queue.name, None)
        else:
            self.sparing[queue.name] = None
        if (before.is_stopped, before.depth) != (after.is_stopped, after.depth):
            self.changed_heads.update(dict.fromkeys(queue.pending.by_quota))

    def may_start(self, name: str) -> bool:
        """Return whether a queue is not stopped; that also concerns its admitted units.

        A queue that does not exist is not stopped.
        """
        queue = self._queues.get(name)
        return queue is None or not queue.rules.is_stopped

    def remove(self, name: str) -> None:
        """Forget a queue without pending units."""
        queue = self._queues.pop(name)
        length = queue.pending.length
        assert length == 0, f"queue {name} removed with {length} pending units"
        self.sparing.pop(name, None)
        self.turns.remove(name)

    # --- units come and go --------------------------------------------------------------------

    def enqueue(self, info: QueueUnitInfo) -> tuple[int, ...]:
        """Add a unit to its queue; return what is woken by it (`PendingClasses.add`)."""
        queue = self._queues[info.queue]
        pending = queue.pending
        band = pending.tried.first_band
        woken = pending.add(info)
        if pending.tried.first_band != band:
            # Units of a later band than the first could not start even if they fitted.
            self.changed_heads.update(dict.fromkeys(pending.by_quota))
        queues = self._queues_of_quota.setdefault(info.quota, {})
        if info.queue not in queues:
            queues[info.queue] = None
            self.turns.on_quotas_changed(info.queue)
        self.changed_heads[info.quota] = None
        depth = queue.rules.depth
        if depth is not None:
            self._note_depth(pending, depth)
        return woken

    def withdraw(self, info: QueueUnitInfo) -> tuple[int, ...]:
        """Remove a unit from its queue; return what no longer waits (`PendingClasses.remove`)."""
        queue = self._queues[info.queue]
        pending = queue.pending
        band = pending.tried.first_band
        left = pending.remove(info)
        self.changed_heads[info.quota] = None
        if pending.tried.first_band != band:
            self.changed_heads.update(dict.fromkeys(pending.by_quota))
        depth = queue.rules.depth
        if depth:
            self._note_depth(pending, depth - 1)
        if info.quota not in pending.by_quota:
            queues = self._queues_of_quota[info.quota]
            del queues[info.queue]
            self.turns.on_quotas_changed(info.queue)
            if not queues:
                del self._queues_of_quota[info.quota]
        return left

    def note_order(self, queue: SchedulingQueue) -> None:
        """Note that units of a queue are in another order: others may be first of their quota."""
        self.changed_heads.update(dict.fromkeys(queue.pending.by_quota))

    def note_aside(self, queue: SchedulingQueue, quota: str) -> None:
        """Note that a class of a quota stands aside, or does so no more.

        Others may be the first of their quota now.
        """
        rules = queue.rules
        are_all = rules.depth is not None or len(rules.bands) > 1
        self.changed_heads.update(dict.fromkeys(queue.pending.by_quota if are_all else (quota,)))

    def _note_depth(self, pending: PendingClasses, position: int) -> None:
        """Note the quota whose first unit has just moved beyond a queue's depth, or within it."""
        if pending.length <= position or len(pending.by_quota) == 1:
            return  # the quota of the unit that came or left is noted anyway
        moved = pending.at(position, tried=True)
        for quota, of_quota in pending.by_quota.items():
            if of_quota.first() == moved:
                self.changed_heads[quota] = None
                return

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
            names = sorted(names, key=lambda name: (self.turns.rank(name), name))
        for name in names:
            first = self._queues[name].first_eligible(quota)
            if first is not None:
                return first
        return None

    # --- copies -------------------------------------------------------------------------------

    def fork(self) -> QueueSet:
        """Return an independent copy."""
        twin = QueueSet()
        twin._queues.update((name, queue.copy()) for name, queue in self._queues.items())
        twin.turns = self.turns.fork(twin._queues)
        twin.changed_heads, twin.sparing = dict(self.changed_heads), dict(self.sparing)
        twin._queues_of_quota = {q: dict(names) for q, names in self._queues_of_quota.items()}
        return twin

    def validate(self, domains: Domains) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        of_quota: dict[str, set[str]] = {}
        for name, queue in self._queues.items():
            queue.validate()
            for quota in queue.pending.by_quota:
                of_quota.setdefault(quota, set()).add(name)
        known = {quota: set(names) for quota, names in self._queues_of_quota.items()}
        assert known == of_quota, f"queues of quotas: {known}, should be {of_quota}"
        self.turns.validate(domains)
