"""Questions about one queue: why units are pending, which come first, which hold back others.

They change nothing, and the next decision depends on none of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo, unit_key
from queue_scheduler.queueing.class_queue import UnitClass
from queue_scheduler.queueing.queue_policies import HoldsBack
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue


def refusal_of(queue: SchedulingQueue, info: QueueUnitInfo) -> Refusal:
    """Return why a unit is pending."""
    if queue.rules.is_stopped:
        return Refusal(reason=Reason.STOPPED_QUEUE, quota=info.quota, other=queue.name)
    refusal = queue.pending.class_of(info).refusal
    if refusal is not None:
        return refusal
    waiting = Refusal(reason=Reason.WAITING, quota=info.quota)
    return next(refusals_by_order(queue, info), waiting)


def refusals_by_order(queue: SchedulingQueue, info: QueueUnitInfo) -> Iterator[Refusal]:
    """Yield why a pending unit is not asked now, whether or not it would fit.

    The queue must not be stopped.
    """
    rules, pending, quota = queue.rules, queue.pending, info.quota
    if queue.in_flight:
        yield Refusal(reason=Reason.WAITING_FOR_PODS_RUNNING, quota=quota)
    if queue.requests.hold_back(pending.class_of(info).priority):
        yield Refusal(reason=Reason.WAITING_FOR_NODES_OF_OTHERS, quota=quota)
    if rules.band_of(info.order_key) > pending.tried.first_band:
        firsts = filter(None, (each.first() for each in pending.by_quota.values()))
        # There is none where all others stand aside, such as units over a limit of their user.
        if (first := min(firsts, default=None)) is not None:
            yield Refusal(reason=Reason.BEHIND_HIGHER_BAND, quota=quota, other=unit_key(first))
    barrier, place = queue.barrier(quota), queue.place(info.order_key)
    if barrier is not None and barrier < place:
        yield Refusal(reason=Reason.BEHIND_REFUSED_UNIT, quota=quota, other=unit_key(barrier))
    if rules.depth is not None and queue.is_beyond(place):
        yield Refusal(reason=Reason.BEYOND_MAX_DEPTH, limit=rules.depth, other=queue.name)


def refused_at(queue: SchedulingQueue, info: QueueUnitInfo) -> int | None:
    """Return when the answer of `refusal_of` was found; None if it is current.

    In seconds since the epoch; 0: unknown.
    """
    unit_class = queue.pending.class_of(info)
    if queue.rules.is_stopped or unit_class.refusal is None:
        return None
    return unit_class.refused_at or 0


def count_by_reason(queue: SchedulingQueue) -> dict[Reason, int]:
    """Return how many units are pending for each reason; the reasons are those of `refusal_of`.

    The cost grows with the classes, not the units.
    """
    rules, pending = queue.rules, queue.pending
    if rules.is_stopped:
        return {Reason.STOPPED_QUEUE: pending.length} if pending.length else {}
    counts: dict[Reason, int] = {}
    beyond = pending.at(rules.depth, tried=True) if rules.depth is not None else None
    for unit_class in pending.numbered.values():
        for reason, count in _reasons_of(queue, unit_class, beyond):
            if count:
                counts[reason] = counts.get(reason, 0) + count
    return counts


def _reasons_of(
    queue: SchedulingQueue, unit_class: UnitClass, beyond: OrderKey | None
) -> Iterator[tuple[Reason, int]]:
    """Yield why units of a class are pending, and how many; `beyond`: the first past depth."""
    order = unit_class.order
    count = len(order)
    if unit_class.refusal is not None:
        yield unit_class.refusal.shown.reason, count
        return
    if queue.in_flight:
        yield Reason.WAITING_FOR_PODS_RUNNING, count
        return
    if queue.requests.hold_back(unit_class.priority):
        yield Reason.WAITING_FOR_NODES_OF_OTHERS, count
        return
    tried = count
    if queue.rules.banded is not None:
        tried = order.count_before((queue.pending.tried.first_band + 1,))
    barrier = queue.barrier(unit_class.quota)
    free = tried if barrier is None else min(tried, _count_before(queue, unit_class, barrier))
    near = free if beyond is None else min(free, _count_before(queue, unit_class, beyond))
    yield Reason.BEHIND_HIGHER_BAND, count - tried
    yield Reason.BEHIND_REFUSED_UNIT, tried - free
    yield Reason.BEYOND_MAX_DEPTH, free - near
    yield Reason.WAITING, near


def _count_before(queue: SchedulingQueue, unit_class: UnitClass, place: OrderKey) -> int:
    """Return how many units of a class come before a place."""
    if queue.fair is not None:
        return queue.fair.count_in(unit_class, place)
    return unit_class.order.count_before(place)


def refused_classes(queue: SchedulingQueue) -> Iterator[tuple[OrderKey, Refusal, int | None]]:
    """Yield the classes and groups that are asleep, in the order in which they came.

    Each as the position of its first unit, why it was refused, and when, in seconds since the epoch
    (None if unknown). Of classes that are asleep with their group, the first stands for the others.
    """
    pending = queue.pending
    for entries in (pending.numbered.values(), pending.groups.values()):
        for entry in entries:
            if entry.own_refusal is not None and entry.head is not None:
                yield queue.place(entry.head), entry.own_refusal, entry.own_refused_at


def class_heads(queue: SchedulingQueue) -> Iterator[OrderKey]:
    """Iterate over the position of the first unit of every class."""
    classes = queue.pending.numbered.values()
    return (queue.place(each.head) for each in classes if each.head is not None)


def queue_head(queue: SchedulingQueue) -> OrderKey | None:
    """Return the position of the head of the queue; None if there is none.

    That is the first unit, except that units that stand aside are skipped, and those that ask for
    more than their quota may ever have, if they hold back no others.
    """
    return min(
        (
            queue.place(each.head)
            for each in queue.pending.numbered.values()
            if each.head is not None
            and not each.stands_aside
            and not (
                each.refusal is not None
                and each.refusal.reason is Reason.EXCEEDS_QUOTA
                and queue.rules.holds_back(each.head) is HoldsBack.NOBODY
            )
        ),
        default=None,
    )


def would_keep_from_turn(
    queue: SchedulingQueue,
    place: OrderKey,
    quota: str,
    info: QueueUnitInfo,
    besides: int = 0,
) -> bool:
    """Return whether another unit, pending and refused, would keep this one from being asked.

    Args:
        queue: Their queue.
        place: The order key that the other would have.
        quota: The quota of the other.
        info: The pending unit.
        besides: How many further units would be placed before it.
    """
    own = queue.place(info.order_key)
    if queue.place(place) > own:
        return False
    rules = queue.rules
    if rules.band_of(place) < rules.band_of(info.order_key):
        return True
    if quota == info.quota and rules.holds_back(place) is HoldsBack.SAME_QUOTA:
        return True
    if rules.depth is None:
        return False
    return queue.pending.count_before(own) + besides + 1 >= rules.depth
