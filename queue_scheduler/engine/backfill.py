"""Who may pass a unit that does not fit yet, without delaying it: EASY backfill. Pure.

A queue that backfills holds back all that stands behind its *head*: the first refused unit, of each
group of quotas that share a limit. The head is *promised* a start: the earliest time at which it
would fit if everything booked ended when it has declared to. Who stands behind it starts, if it
fits, only if by its own declaration it ends before that, or if the head fits beside it all the same
at the promised time. Who declares no time does not pass; and where what is booked declares too
little for the head ever to fit, nobody does. Who has to wait for admission checks or nodes once he
has quota ends nobody knows when: he passes only if the head fits beside him.

Nothing is remembered but what can be computed again: a promise follows from the books, the units
and the time. It moves to a later time only if room is lost, if a unit that is waited for begins to
run late, or is overdue: such a one is taken to end at any moment, and the promise is now. While the
promise stands, somebody who waits can only find it harder to pass as time goes by, unless what runs
comes to end before what is booked and does not run yet: at that time he is asked again. So he is
when the head leaves, or is refused anew; when anything that is booked comes, goes, changes, begins
to run or declares another end; and when another demand of a quota is the first to wait, for which
its guarantee is kept.

Room for whoever passes is not made: who stands behind a head has nobody evicted.

A unit that can never have what it asks for is no head: it has no start that could be delayed. Nor
does a head hold back a unit of the quota whose guarantee it is itself refused for: each would wait
for the other. For such a unit the next that is refused is the head.

Source: Lifka, The ANL/IBM SP Scheduling System (1995); Mu'alem and Feitelson, Utilization,
Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with Backfilling
(2001).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

import msgspec

from queue_scheduler.cache.admission_check_rules import needed_checks
from queue_scheduler.cache.expected_ends import remaining_seconds
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.extension_points import QuotaSource, Supposed, Waiter
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo, at_least, unit_key
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.node import Node
from shared_api.objects.queue_unit import QueueUnit

MAX_ENDS: Final = 512
"""Units that are looked at for a promise, those that end first: a binary search asks ten questions,
each of which names them. A head that does not fit when so many have ended is promised nothing."""

_NOT_PASSED: Final = frozenset({Reason.WOULD_DELAY_HEAD, Reason.NO_MAX_EXECUTION_TIME})
"""Of those who would delay a head."""

PASSED: Final = _NOT_PASSED | frozenset(
    {
        Reason.EXCEEDS_QUOTA,
        Reason.BROKEN_CHAIN,
        Reason.UNKNOWN_QUOTA,
    }
)
"""Who is refused so is no head: it fits, or will not until somebody mends something."""


class Promise(msgspec.Struct, frozen=True, gc=False):
    """When a head can start at the latest, by what is declared.

    Attributes:
        at: Seconds since the epoch.
        is_overdue: Whether something that is waited for should have ended already.
        released: What will have ended by then.
    """

    at: int
    is_overdue: bool
    released: tuple[Uid, ...]


class _Head(msgspec.Struct, frozen=True, gc=False):
    """The unit that others must not delay."""

    number: int
    info: QueueUnitInfo
    refusal: Refusal


class Backfill:
    """Judges who may pass, and knows who waits because he may not.

    Attributes:
        waiting: By queue, and there by class number and place of a head, the classes that it holds
            back. Written here, read everywhere.
        facts: Goes up whenever anything but what is booked may let somebody in.
    """

    def __init__(self, units: UnitCache, plugins: PluginRunner) -> None:
        self._units = units
        self._plugins = plugins
        self.waiting: dict[str, dict[tuple[int, OrderKey], dict[int, None]]] = {}
        self._moved: dict[str, None] = {}
        self._told: dict[str, ElasticQuota | QuotaSource | Node] = {}
        self.facts = 0
        self._seen_changes = 0
        # Answers about heads, by key; they hold as long as nothing changes.
        self._promises: dict[str, Promise | Refusal] = {}
        self._checked: dict[str, Refusal | None] = {}
        self._answered_at: tuple[int | None, int, int] = (None, 0, 0)

    # --- judging ------------------------------------------------------------------------------

    def check(self, line: SchedulingQueue, info: QueueUnitInfo, wall: int | None) -> Refusal | None:
        """Say why a unit that fits now may not start, or None.

        Args:
            line: Its queue; it is the first there that is not refused.
            info: The unit.
            wall: Seconds since the epoch; None: not known, and then nobody passes.
        """
        head = self._find_delayed(line, info, wall)
        if head is None:
            return None
        self._note_waiting(line, info, head)
        silent = remaining_seconds(info.unit) is None
        reason = Reason.NO_MAX_EXECUTION_TIME if silent else Reason.WOULD_DELAY_HEAD
        return Refusal(reason=reason, quota=info.quota, other=head.info.key)

    @staticmethod
    def is_its_own(refusal: Refusal) -> bool:
        """Return whether a refusal is one of `check`; whoever has it, is woken from here."""
        return refusal.reason in _NOT_PASSED

    def delays(self, line: SchedulingQueue, info: QueueUnitInfo, wall: int | None) -> bool:
        """Return whether `check` would refuse; nobody waits for having been asked about."""
        return self._find_delayed(line, info, wall) is not None

    def is_behind(self, line: SchedulingQueue, info: QueueUnitInfo, wall: int | None) -> bool:
        """Return whether a unit stands behind a head that it competes with."""
        return self._find_behind(line, info, wall) is not None

    def stays_behind(self, line: SchedulingQueue, info: QueueUnitInfo, wall: int | None) -> bool:
        """Return whether a unit has nobody evicted for itself, for it stands behind a head.

        Whether it may pass once its victims are gone cannot be told: without them the head may be
        promised an earlier start. It is asked again as if `check` had refused it.
        """
        behind = self._find_behind(line, info, wall)
        if behind is None:
            return False
        self._note_waiting(line, info, behind[0])
        return True

    def again_seconds(
        self, line: SchedulingQueue, info: QueueUnitInfo, wall: int | None
    ) -> int | None:
        """Return when to ask a unit again that `check` refused, though nothing happens; or None.

        What does not run yet ends later with every second, so that what runs may come to end before
        it. When both end at once, more will have ended at the promised time.
        """
        behind = self._find_behind(line, info, wall)
        if behind is None or wall is None or remaining_seconds(info.unit) is None:
            return None
        promise = behind[1]
        if not isinstance(promise, Promise):
            return None
        booked = [end for _, end in self._units.bookings.ends]
        put_off = [end.at(wall) for end in booked if end.since is None]
        latest = max((at for at in put_off if at <= promise.at), default=None)
        if latest is None:
            return None
        after = [end.at(wall) for end in booked if end.since is not None and end.at(wall) > latest]
        return min(after) - latest if after else None

    def _find_delayed(
        self, line: SchedulingQueue, info: QueueUnitInfo, wall: int | None
    ) -> _Head | None:
        """Return the head that a unit must not pass, or None."""
        behind = self._find_behind(line, info, wall)
        if behind is None:
            return None
        head, promise = behind
        seconds = remaining_seconds(info.unit)
        if not isinstance(promise, Promise) or wall is None or seconds is None:
            return head
        ends_before = runs_at_once(line, info.unit) and wall + seconds <= promise.at
        return None if ends_before or self._fits_beside(info, head, promise) else head

    def _find_behind(
        self, line: SchedulingQueue, info: QueueUnitInfo, wall: int | None
    ) -> tuple[_Head, Promise | Refusal | None] | None:
        """Return the head that a unit stands behind, with its promise, or None."""
        self._forget_answers(wall)
        for head in self._find_heads(line, info):
            if _is_kept_for(info, head.refusal):
                continue
            promise = self._promise(head, wall) if wall is not None else None
            if not (isinstance(promise, Refusal) and _is_kept_for(info, promise)):
                return head, promise
        return None

    def _note_waiting(self, line: SchedulingQueue, info: QueueUnitInfo, head: _Head) -> None:
        if not self.waiting:
            self._seen_changes = self._count_changes()
        heads = self.waiting.setdefault(line.name, {})
        behind = heads.setdefault((head.number, head.info.order_key), {})
        behind[line.class_number(info)] = None

    def _fits_beside(self, info: QueueUnitInfo, head: _Head, promise: Promise) -> bool:
        beside = [Supposed.started(info)]
        return self._plugins.check_without(head.info, promise.released, beside) is None

    def _find_heads(self, line: SchedulingQueue, info: QueueUnitInfo) -> Iterator[_Head]:
        """Iterate over the refused units before this one that compete with it, in order."""
        refused = [
            (place, refusal)
            for place, refusal in line.last_refusals()
            if place < info.order_key and refusal.reason not in _NOT_PASSED
        ]
        for place, last in sorted(refused, key=lambda each: each[0]):
            head = self._units.records[unit_key(place)].info
            assert head is not None, f"{unit_key(place)} is in line without a demand"
            if not self._compete(head.quota, info.quota):
                continue
            # It starts as soon as its fewest pods fit.
            least = at_least(head)
            refusal = self._check_again(least) or last
            if may_fit_one_day(refusal):
                yield _Head(line.class_number(head), least, refusal)

    def _check_again(self, head: QueueUnitInfo) -> Refusal | None:
        """Return why a sleeping unit does not fit now.

        What helps it may have changed since the line was told; it sleeps on as long as it does not
        fit.
        """
        if head.key not in self._checked:
            checked = self._plugins.check(head)
            self._checked[head.key] = checked[0] if checked is not None else None
        return self._checked[head.key]

    def _compete(self, one: str, other: str) -> bool:
        domains = self._plugins.domains
        return one == other or not domains(one).isdisjoint(domains(other))

    def _forget_answers(self, wall: int | None) -> None:
        """Ask anew about heads once anything has changed that the answers follow from."""
        at = (wall, self._units.bookings.changes, self.facts)
        if at != self._answered_at:
            self._answered_at = at
            self._checked, self._promises = {}, {}

    # --- promising ----------------------------------------------------------------------------

    def _promise(self, head: _Head, wall: int) -> Promise | Refusal:
        """Return the head's promise; a Refusal: why it would not fit whatever ends."""
        key = head.info.key
        if key not in self._promises:
            self._promises[key] = self._find_promise(head.info, wall)
        return self._promises[key]

    def _find_promise(self, head: QueueUnitInfo, wall: int) -> Promise | Refusal:
        ends = nsmallest(MAX_ENDS, self._ends_of(head.quota, wall))
        uids = tuple(uid for _, uid in ends)
        refusal = self._plugins.check_without(head, uids)
        if refusal is not None:
            return refusal
        counts = [n for n, (end, _) in enumerate(ends, 1) if n == len(ends) or ends[n][0] != end]
        low, high = 0, len(counts) - 1  # it fits at `high`
        while low < high:
            middle = (low + high) // 2
            if self._plugins.check_without(head, uids[: counts[middle]]) is None:
                high = middle
            else:
                low = middle + 1
        if not counts:
            return Promise(wall, is_overdue=False, released=())
        released = counts[high]
        is_overdue = any(end < wall for end, _ in ends[:released])
        return Promise(max(wall, ends[released - 1][0]), is_overdue, uids[:released])

    def _ends_of(self, quota: str, wall: int) -> Iterator[tuple[int, Uid]]:
        """Iterate over the ends of what competes with a quota."""
        compete: dict[str, bool] = {}
        for uid, end in self._units.bookings.ends:
            if end.quota not in compete:
                compete[end.quota] = self._compete(quota, end.quota)
            if compete[end.quota]:
                yield end.at(wall), uid

    # --- waking -------------------------------------------------------------------------------

    def on_fact(self, key: str, thing: ElasticQuota | QuotaSource | Node | None) -> None:
        """A quota or a node came or changed, or is gone (None); what is told twice is no news."""
        if self._told.get(key) == thing:
            return
        self.facts += 1
        if thing is None:
            del self._told[key]
        else:
            self._told[key] = thing

    def on_refused(self, line: SchedulingQueue, info: QueueUnitInfo) -> None:
        """A unit was refused by a plugin: a head anew, or perhaps another one."""
        heads = self.waiting.get(line.name)
        if heads and any(info.order_key <= place for _, place in heads):
            self._moved[line.name] = None

    def take_woken(self) -> list[Waiter]:
        """Return, once and in a fixed order, the classes that may pass now."""
        has_changed = self._count_changes() != self._seen_changes
        woken: list[Waiter] = []
        for name in sorted(self.waiting):
            heads = self.waiting[name]
            if has_changed or name in self._moved or not self._are_in_place(name, heads):
                del self.waiting[name]
                numbers = {number for behind in heads.values() for number in behind}
                woken.extend((name, number) for number in sorted(numbers))
        self._seen_changes = self._count_changes()
        self._moved.clear()
        return woken

    def _count_changes(self) -> int:
        # Whatever is booked besides may put a promise off, and let others end before it.
        return self._units.bookings.changes + self.facts

    def _are_in_place(self, name: str, heads: dict[tuple[int, OrderKey], dict[int, None]]) -> bool:
        """Return whether the heads stand where they stood; a woken one is asked before them."""
        line = self._units.queues.line(name)
        return line is not None and all(line.head_of(number) == place for number, place in heads)

    # --- questions ----------------------------------------------------------------------------

    def holds_up(self, key: str) -> bool:
        """Return whether somebody waits behind a unit."""
        record = self._units.records.get(key)
        if record is None or record.info is None:
            return False
        heads = self.waiting.get(record.info.queue, {})
        return any(place == record.info.order_key for _, place in heads)

    def promise_of_unit(self, key: str, wall: int) -> Promise | None:
        """Return what a unit is promised; None: nothing, or nobody waits behind it."""
        if not self.holds_up(key):
            return None
        info = self._units.records[key].info
        assert info is not None, f"{key} is in line without a demand"
        promise = self._find_promise(at_least(info), wall)
        return promise if isinstance(promise, Promise) else None

    def fork(self, units: UnitCache, plugins: PluginRunner) -> Backfill:
        """Return a copy over forked units and plugins."""
        twin = Backfill(units, plugins)
        twin.waiting = {
            name: {head: dict(behind) for head, behind in heads.items()}
            for name, heads in self.waiting.items()
        }
        twin._moved = dict(self._moved)
        twin._told = dict(self._told)
        twin.facts = self.facts
        twin._seen_changes = self._seen_changes
        return twin


def runs_at_once(line: SchedulingQueue, unit: QueueUnit) -> bool:
    """Return whether a unit may run as soon as it has quota; else nobody knows when it will end."""
    return not (line.options.is_strict or needed_checks(line.queue, unit))


def may_fit_one_day(refusal: Refusal) -> bool:
    """Return whether a refused unit may have what it asks for when others have ended."""
    more_than_nodes = refusal.reason is Reason.NO_CAPACITY and refusal.requested > refusal.limit
    return not more_than_nodes and refusal.reason not in PASSED


def _is_kept_for(info: QueueUnitInfo, refusal: Refusal) -> bool:
    """Return whether a head is refused because of what this unit, or its quota, is guaranteed."""
    if refusal.reason is Reason.ROOM_FOR_PREEMPTOR:
        return refusal.other == info.key
    return refusal.reason is Reason.GUARANTEE_OF_OTHERS and refusal.other == info.quota
