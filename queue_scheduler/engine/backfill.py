"""Which units may pass a unit that does not fit yet, without delaying it: EASY backfill. Pure.

A queue that backfills holds back every unit behind its *head*: the first refused unit of each group
of quotas that share a limit. The head has a *promise*: the earliest time at which it would fit if
every admitted unit ended at its declared end, and would run into no window (`reservations`). A unit
behind the head that fits starts only if its own declared end is before the promised time, or if the
head still fits beside it at that time. A unit that declares no end does not pass. If the admitted
units declare too few ends for the head ever to fit, no unit passes. A unit that waits for admission
checks or nodes after it has quota has no known end: it passes only if the head fits beside it.

No state is kept that cannot be computed again: a promise follows from the charges, the units and
the time. It moves later only if room is lost, or if a unit that is waited for starts late or is
overdue; an overdue unit is expected to end at any moment, so the promise is now. While a promise
stands, passing only gets harder as time goes by, with one exception: a running unit may come to end
before an admitted one that does not run yet, and the waiting unit is asked again at that time. Its
answer may also change when the head leaves or is refused anew; when an admitted unit comes, goes,
changes, begins to run or declares another end; and when another demand of a quota, for which its
guarantee is kept, becomes the first to wait. Then the waiting units are *reviewed* before the next
decision, and only those that may pass are asked. To ask each of them anew would cost a decision
each, with every unit that starts or ends.

No room is made for a unit that would pass: a unit behind a head does not preempt.

A unit that can never have what it asks for is no head: it has no start to delay. Nor is one that a
window refuses. Nor does a head hold back a unit of the quota whose guarantee is the reason for the
head's own refusal: each would wait for the other. For such a unit, the next refused unit is the
head.

Source: Lifka, The ANL/IBM SP Scheduling System (1995); Mu'alem and Feitelson, Utilization,
Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with Backfilling
(2001).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from enum import Enum, auto
from heapq import nsmallest
from typing import Final, NamedTuple, TypeAlias

import msgspec

from queue_scheduler.cache.admission_check_rules import needed_checks
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.decision import Reason, Refusal, Trait, reasons_with
from queue_scheduler.framework.extension_points import Supposed, Waiter
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import (
    BackfillKey,
    OrderKey,
    QueueUnitInfo,
    at_least,
    remaining_seconds,
    unit_key,
)
from queue_scheduler.queueing.class_queue import UnitClass
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit

MAX_ENDS: Final = 512
"""How many units a promise considers, those that end first: a binary search asks ten questions,
each of which lists them. A head that does not fit after so many ends has no promise."""

_NOT_PASSED: Final = reasons_with(Trait.BACKFILL)
"""Why a unit that would delay the head is refused."""

PASSED: Final = reasons_with(Trait.NO_HEAD)
"""Reasons of units that are no head: they fit, or cannot fit until something is repaired."""


_Place: TypeAlias = tuple[int, OrderKey]
"""Number of a head's class, and the head's order key: it is another place once the head has left.
"""


class Promise(msgspec.Struct, frozen=True, gc=False):
    """When a head can start at the latest, by the declared ends.

    Attributes:
        at: Seconds since the epoch.
        is_overdue: Whether a unit that is waited for should have ended already.
        released: The units that will have ended by then.
        fits_at: When it fits; later than that, it also runs into no window.
    """

    at: int
    is_overdue: bool
    released: tuple[Uid, ...]
    fits_at: int


class Reviewed(NamedTuple):
    """What follows for classes that wait behind heads.

    Attributes:
        woken: Those to ask anew.
        timed: Those that wait on, but are to be asked after so many seconds.
    """

    woken: list[Waiter]
    timed: list[tuple[Waiter, int]]


class _Answer(Enum):
    """What the filters say of a unit that waits behind a head."""

    FIT = auto()
    MISFIT = auto()
    UNCLEAR = auto()
    """It has to be asked in full: it may start with fewer pods, or evict others."""


class _Review(msgspec.Struct, gc=False):
    """A review of one queue.

    Attributes:
        queue: The queue.
        wall: Seconds since the epoch; None if unknown.
        may_evict: Whether a unit of a queue may evict others.
        found: What follows for its classes.
        answers: By what the filters are asked: their answer, and the first head before the unit
            they were asked about. Units behind a head have many ends, but few demands.
    """

    queue: SchedulingQueue
    wall: int | None
    may_evict: Callable[[SchedulingQueue, QueueUnitInfo], bool]
    found: Reviewed
    answers: dict[Hashable, tuple[_Answer, _Place | None]] = {}


class _Head(msgspec.Struct, frozen=True, gc=False):
    """A refused unit that others must not delay."""

    number: int
    info: QueueUnitInfo
    refusal: Refusal

    @property
    def place(self) -> _Place:
        """Where it stands."""
        return self.number, self.info.order_key


class Backfill:
    """Decides which units may pass a head, and knows which ones wait behind it.

    Attributes:
        waiting: By queue, then by class number and position of a head: the classes that it holds
            back. Written only here, read by others.
        unreviewed: Queues in which some of these may pass, after a change. Read by others.
        other_changes: Counts the changes, other than of charges (`Usage.changes`), that may let a
            unit start: of quotas and nodes, which the engine counts, and of protected first units.
    """

    def __init__(self, units: UnitCache, plugins: PluginRunner) -> None:
        self._units = units
        self._plugins = plugins
        self._windows = units.usage.windows
        self.waiting: dict[str, dict[_Place, dict[int, None]]] = {}
        self.unreviewed: dict[str, None] = {}
        self._moved: dict[str, None] = {}
        self.other_changes = 0
        self._seen_changes = 0
        # Answers about heads by unit key; valid until `_forget_answers` sees a change.
        self._promises: dict[str, Promise | Refusal] = {}
        self._checked: dict[str, Refusal | None] = {}
        self._overtaken: dict[str, int | None] = {}
        self._beside: dict[tuple[Hashable, ...], bool] = {}
        self._answered_at: tuple[int | None, int, int] = (None, 0, 0)

    # --- judging ------------------------------------------------------------------------------

    def check(
        self, queue: SchedulingQueue, info: QueueUnitInfo, wall: int | None
    ) -> Refusal | None:
        """Return why a unit that fits now may not start, or None.

        Args:
            queue: Its queue; the unit is the first there that is not refused.
            info: The unit.
            wall: Seconds since the epoch; None if unknown, and then no unit passes.
        """
        head = self._find_delayed(queue, info, wall)
        if head is None:
            return None
        self._note_waiting(queue, queue.pending.class_of(info).number, head.place)
        return self._refuse(info, head)

    @staticmethod
    def _refuse(info: QueueUnitInfo, head: _Head) -> Refusal:
        silent = remaining_seconds(info.unit) is None
        reason = Reason.NO_MAX_EXECUTION_TIME if silent else Reason.WOULD_DELAY_HEAD
        return Refusal(reason=reason, quota=info.quota, other=head.info.key)

    @staticmethod
    def is_its_own(refusal: Refusal) -> bool:
        """Return whether a refusal is one of `check`; classes refused by it are woken from here."""
        return refusal.reason in _NOT_PASSED

    def delays(self, queue: SchedulingQueue, info: QueueUnitInfo, wall: int | None) -> bool:
        """Return whether `check` would refuse, without registering a waiter."""
        return self._find_delayed(queue, info, wall) is not None

    def why_delayed(
        self, queue: SchedulingQueue, info: QueueUnitInfo, wall: int | None
    ) -> Refusal | None:
        """Return what `check` would, without registering a waiter."""
        head = self._find_delayed(queue, info, wall)
        return None if head is None else self._refuse(info, head)

    def is_behind(self, queue: SchedulingQueue, info: QueueUnitInfo, wall: int | None) -> bool:
        """Return whether a unit stands behind a head that it competes with."""
        return self._find_behind(queue, info, wall) is not None

    def stays_behind(self, queue: SchedulingQueue, info: QueueUnitInfo, wall: int | None) -> bool:
        """Return whether a unit must not preempt because it stands behind a head.

        Whether it may pass once its victims are gone is unknown: without them the head may be
        promised an earlier start. It is asked again as if `check` had refused it.
        """
        behind = self._find_behind(queue, info, wall)
        if behind is None:
            return False
        self._note_waiting(queue, queue.pending.class_of(info).number, behind[0].place)
        return True

    def again_seconds(
        self, queue: SchedulingQueue, info: QueueUnitInfo, wall: int | None
    ) -> int | None:
        """Return in how many seconds to ask a delayed unit again; None: not by time alone.

        An admitted unit that does not run yet ends later with every second, so a running unit may
        come to end before it. Where both end at once, more units have ended at the promised time.
        """
        behind = self._find_behind(queue, info, wall)
        return None if behind is None else self._again_behind(behind[0], info, wall)

    def _again_behind(self, head: _Head, info: QueueUnitInfo, wall: int | None) -> int | None:
        """Return the same for a unit whose head is known."""
        if wall is None or remaining_seconds(info.unit) is None:
            return None
        promise = self._promise(head, wall)
        if not isinstance(promise, Promise):
            return None
        key = head.info.key
        if key not in self._overtaken:
            times = (
                self._seconds_until_overtaken(promise, wall),
                self._seconds_until_window(head, promise, wall),
            )
            self._overtaken[key] = min((each for each in times if each is not None), default=None)
        return self._overtaken[key]

    def _seconds_until_window(self, head: _Head, promise: Promise, wall: int) -> int | None:
        """Return when a promise may pass on from before a window to after it, by time alone.

        That is if the head fits later with every second: it waits for a unit that does not run yet,
        or for an overdue one.
        """
        if not self._windows.is_on:
            return None
        ends = (end for _, end in self._units.usage.ends if end.since is None)
        if promise.fits_at != wall and all(end.at(wall) != promise.fits_at for end in ends):
            return None
        last = promise.at
        if promise.at == promise.fits_at:
            start = self._windows.last_start(head.info, promise.at)
            if start is None:
                return None
            last = start
        return last - promise.fits_at + 1

    def _seconds_until_overtaken(self, promise: Promise, wall: int) -> int | None:
        """Return when a running unit may come to end before one that does not run yet."""
        ends = [end for _, end in self._units.usage.ends]
        put_off = [end.at(wall) for end in ends if end.since is None]
        latest = max((at for at in put_off if at <= promise.at), default=None)
        if latest is None:
            return None
        after = [end.at(wall) for end in ends if end.since is not None and end.at(wall) > latest]
        return min(after) - latest if after else None

    def _find_delayed(
        self, queue: SchedulingQueue, info: QueueUnitInfo, wall: int | None
    ) -> _Head | None:
        """Return the head that a unit must not pass, or None."""
        behind = self._find_behind(queue, info, wall)
        if behind is None:
            return None
        head, promise = behind
        seconds = remaining_seconds(info.unit)
        if not isinstance(promise, Promise) or wall is None or seconds is None:
            return head
        ends_before = wall + seconds <= promise.at and runs_at_once(queue, info.unit)
        return None if ends_before or self._fits_beside(info, head, promise) else head

    def _find_behind(
        self, queue: SchedulingQueue, info: QueueUnitInfo, wall: int | None
    ) -> tuple[_Head, Promise | Refusal | None] | None:
        """Return the head that a unit stands behind, with its promise, or None."""
        self._forget_answers(wall)
        for head in self._find_heads(queue, info):
            if _is_kept_for(info, head.refusal):
                continue
            promise = self._promise(head, wall) if wall is not None else None
            if isinstance(promise, Refusal) and (
                _is_kept_for(info, promise) or promise.reason is Reason.RESERVED_FOR
            ):
                continue
            return head, promise
        return None

    def _note_waiting(self, queue: SchedulingQueue, number: int, head: _Place) -> None:
        if not self.waiting:
            # While none waits, changes are not followed: those until now are no reason to review.
            self._seen_changes = self._count_changes()
        heads = self.waiting.setdefault(queue.name, {})
        heads.setdefault(head, {})[number] = None

    def _fits_beside(self, info: QueueUnitInfo, head: _Head, promise: Promise) -> bool:
        beside = Supposed.started(info)
        amounts = sorted(beside.amounts.items())
        # Units behind a head have many ends, but few demands.
        asked = (head.info.key, beside.quota, beside.non_preemptible, beside.pods, *amounts)
        if asked not in self._beside:
            refusal = self._plugins.check_without(head.info, promise.released, [beside])
            self._beside[asked] = refusal is None
        return self._beside[asked]

    def _find_heads(self, queue: SchedulingQueue, info: QueueUnitInfo) -> Iterator[_Head]:
        """Iterate over the refused units before this one that compete with it, in order."""
        own = queue.place(info.order_key)
        for place, last in queue.pending.refused_in_order():
            if place >= own:
                return
            head = self._info(place)
            if not self._compete(head.quota, info.quota):
                continue
            if last.reason is Reason.RESERVED_FOR:
                continue  # until the window is over, whatever else refuses it by now
            # The head starts as soon as its least pod count fits.
            least = at_least(head)
            refusal = self._check_again(least) or last
            if may_fit_one_day(refusal):
                yield _Head(queue.pending.class_of(head).number, least, refusal)

    def _check_again(self, head: QueueUnitInfo) -> Refusal | None:
        """Return why a unit with a recorded refusal does not fit now.

        What it waits for may have changed since the refusal was recorded; the unit is not woken as
        long as it does not fit.
        """
        if head.key not in self._checked:
            checked = self._plugins.check(head)
            self._checked[head.key] = checked[0] if checked is not None else None
        return self._checked[head.key]

    def _compete(self, one: str, other: str) -> bool:
        domains = self._plugins.domains
        return one == other or not domains(one).isdisjoint(domains(other))

    def _forget_answers(self, wall: int | None) -> None:
        """Drop the answers about heads if anything has changed that they follow from."""
        at = (wall, self._units.usage.changes, self.other_changes)
        if at != self._answered_at:
            self._answered_at = at
            self._checked, self._promises = {}, {}
            self._overtaken, self._beside = {}, {}

    # --- promising ----------------------------------------------------------------------------

    def _promise(self, head: _Head, wall: int) -> Promise | Refusal:
        """Return the head's promise; a Refusal: it would not fit whichever units end."""
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
        fits_at, released = wall, 0
        if counts:
            released = counts[high]
            fits_at = max(wall, ends[released - 1][0])
        at = self._windows.first_start(head, fits_at) if self._windows.is_on else fits_at
        if at is None:
            refusal = self._windows.check(head, fits_at)
            assert refusal is not None, f"{head.key} starts at no time, and at {fits_at}"
            return refusal
        while at > fits_at and released < len(ends) and ends[released][0] <= at:
            released += 1
        is_overdue = any(end < wall for end, _ in ends[:released])
        return Promise(at, is_overdue, uids[:released], fits_at)

    def _ends_of(self, quota: str, wall: int) -> Iterator[tuple[int, Uid]]:
        """Yield the ends of the units that compete with a quota."""
        compete: dict[str, bool] = {}
        for uid, end in self._units.usage.ends:
            if end.quota not in compete:
                compete[end.quota] = self._compete(quota, end.quota)
            if compete[end.quota]:
                yield end.at(wall), uid

    # --- waking -------------------------------------------------------------------------------

    def on_refused(self, queue: SchedulingQueue, info: QueueUnitInfo) -> None:
        """Note that a plugin refused a unit: it may be a head again, or another unit may be."""
        # Those of a queue with another policy cannot be compared; it is reviewed anyway.
        heads = self.waiting.get(queue.name) if queue.name not in self.unreviewed else None
        place = queue.place
        if heads and any(place(info.order_key) <= place(head) for _, head in heads):
            self._moved[queue.name] = None

    def note_changes(self) -> None:
        """Note whose waiting classes may pass by now: `review` looks at them before a decision."""
        has_changed = self._count_changes() != self._seen_changes
        for name, heads in self.waiting.items():
            if has_changed or name in self._moved or not self._are_in_place(name, heads):
                self.unreviewed[name] = None
        self._seen_changes = self._count_changes()
        self._moved.clear()

    def review(
        self, wall: int | None, may_evict: Callable[[SchedulingQueue, QueueUnitInfo], bool]
    ) -> Reviewed:
        """Return which of the classes that wait behind heads to ask anew; the others wait on.

        A class waits on, with the reason that it was given, if it would still delay its head. It
        also does if it does not fit any more: to refuse it for that would be to pass it to and fro
        between two waiting lists with each unit that starts and ends.

        Args:
            wall: Seconds since the epoch; None if unknown, and then all that fit are asked.
            may_evict: Whether a unit of a queue may evict others; then it is asked.
        """
        self._forget_answers(wall)
        found = Reviewed([], [])
        names, self.unreviewed = sorted(self.unreviewed), {}
        for name in names:
            queue = self._units.queues.find(name)
            # Taken out first: a class that waits on is noted again, perhaps behind another head.
            heads = self.waiting.pop(name, {})
            if queue is None:
                continue
            review = _Review(queue, wall, may_evict, found)
            behind = {number: head for head, numbers in heads.items() for number in numbers}
            for number in sorted(behind):
                unit_class = queue.pending.numbered.get(number)
                if unit_class is None or unit_class.refusal is None:
                    continue
                try:
                    waits_on = self._waits_on(review, unit_class, behind[number])
                except Exception:  # noqa: BLE001 - raised again when the unit is asked
                    # Here it would keep all queues from deciding, and lose who waits.
                    waits_on = False
                if not waits_on:
                    found.woken.append((name, number))
        return found

    def _waits_on(self, review: _Review, unit_class: UnitClass, head: _Place) -> bool:
        """Return whether a refused class need not be asked; note behind which head it waits then.

        Args:
            review: What is known of its queue.
            unit_class: The class.
            head: The head that it waited behind.
        """
        key, place, refusal = unit_class.key, unit_class.head, unit_class.refusal
        if place is None or refusal is None or not self.is_its_own(refusal):
            return False
        asked = key.asked if isinstance(key, BackfillKey) else key
        # The first head before another unit is also the first before this one, if this one stands
        # behind it. Otherwise other heads, or none, come before this one.
        answer, first = review.answers.get(asked, (None, None))
        places = review.queue.place
        if answer is None or first is None or places(first[1]) >= places(place):
            answer, first = self._ask_filters(review, self._info(place))
            review.answers[asked] = answer, first
        if answer is _Answer.MISFIT and first == head:
            self._note_waiting(review.queue, unit_class.number, head)
            return True
        if answer is not _Answer.FIT:
            return False
        return self._still_delays(review, unit_class.number, self._info(place))

    def _ask_filters(self, review: _Review, info: QueueUnitInfo) -> tuple[_Answer, _Place | None]:
        """Return what the filters say of a unit, and the first head before it."""
        first = next(self._find_heads(review.queue, info), None)
        head = None if first is None else first.place
        if info.demand.least is not None or review.may_evict(review.queue, info):
            return _Answer.UNCLEAR, head
        refused = self._plugins.check(info)
        if refused is None:
            return _Answer.FIT, head
        # A misfit waits for the next change here, so what refuses it must not end in another way.
        follows = self._plugins.follows_charges(refused[1])
        return _Answer.MISFIT if follows else _Answer.UNCLEAR, head

    def _still_delays(self, review: _Review, number: int, info: QueueUnitInfo) -> bool:
        """Note the head that a unit would delay, if any, and when time alone may let it pass."""
        queue, wall = review.queue, review.wall
        head = self._find_delayed(queue, info, wall)
        if head is None or wall is None:
            return False
        again = self._again_behind(head, info, wall)
        self._note_waiting(queue, number, head.place)
        if again is not None:
            review.found.timed.append(((queue.name, number), again))
        return True

    def _info(self, place: OrderKey) -> QueueUnitInfo:
        info = self._units.records[unit_key(place)].info
        assert info is not None, f"{unit_key(place)} is pending without a demand"
        return info

    def _count_changes(self) -> int:
        # A new charge may move a promise later, and so let units with a later end pass.
        return self._units.usage.changes + self.other_changes

    def _are_in_place(self, name: str, heads: dict[_Place, dict[int, None]]) -> bool:
        """Return whether the heads are where they were; a woken head comes before its waiters."""
        queue = self._units.queues.find(name)
        if queue is None:
            return False
        numbered = queue.pending.numbered
        return all(n in numbered and numbered[n].head == head for n, head in heads)

    # --- questions ----------------------------------------------------------------------------

    def holds_up(self, key: str) -> bool:
        """Return whether other units wait behind a unit."""
        record = self._units.records.get(key)
        if record is None or record.info is None:
            return False
        heads = self.waiting.get(record.info.queue, {})
        return any(place == record.info.order_key for _, place in heads)

    def promise_of_unit(self, key: str, wall: int) -> Promise | None:
        """Return the promise of a unit; None if it has none, or no unit waits behind it."""
        if not self.holds_up(key):
            return None
        info = self._units.records[key].info
        assert info is not None, f"{key} is pending without a demand"
        promise = self._find_promise(at_least(info), wall)
        return promise if isinstance(promise, Promise) else None

    def fork(self, units: UnitCache, plugins: PluginRunner) -> Backfill:
        """Return a copy over forked units and plugins."""
        twin = Backfill(units, plugins)
        twin.waiting = {
            name: {head: dict(behind) for head, behind in heads.items()}
            for name, heads in self.waiting.items()
        }
        twin.unreviewed = dict(self.unreviewed)
        twin._moved = dict(self._moved)
        twin.other_changes = self.other_changes
        twin._seen_changes = self._seen_changes
        return twin


def runs_at_once(queue: SchedulingQueue, unit: QueueUnit) -> bool:
    """Return whether a unit may run as soon as it has quota; otherwise its end is unknown."""
    return not (queue.rules.options.is_strict or needed_checks(queue.rules.api_object, unit))


def may_fit_one_day(refusal: Refusal) -> bool:
    """Return whether a refused unit may get what it asks for once others have ended."""
    more_than_nodes = refusal.reason is Reason.NO_CAPACITY and refusal.requested > refusal.limit
    return not more_than_nodes and refusal.reason not in PASSED


def _is_kept_for(info: QueueUnitInfo, refusal: Refusal) -> bool:
    """Return whether a head is refused because of what this unit or its quota is guaranteed."""
    if refusal.reason is Reason.ROOM_FOR_PREEMPTOR:
        return refusal.other == info.key
    return refusal.reason is Reason.GUARANTEE_OF_OTHERS and refusal.other == info.quota
