"""Queues and units for the tests of one queue."""

from __future__ import annotations

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from tests.properties.engine_kit import build_info, build_queue, build_unit

NO = Refusal(reason=Reason.OVER_QUOTA_MAX)
TOO_LARGE = Refusal(reason=Reason.EXCEEDS_QUOTA)
ELSE = Refusal(reason=Reason.GUARANTEE_OF_OTHERS)
POLICIES = {policy.name: policy for policy in BUILT_IN_POLICIES}


def line_of(policy: str = "Priority") -> SchedulingQueue:
    return SchedulingQueue(build_queue("q", policy), POLICIES[policy])


def info(
    place: int, quota: str = "a", shape: str = "", *, band: int | None = None, priority: int = 0
) -> QueueUnitInfo:
    """Return a unit at that position; each shape is its own class."""
    bands, name = () if band is None else (band,), f"u{place:02}"
    unit = build_unit(name, quota, priority=priority)
    order_key = (*bands, place, "ns", name)
    return build_info(unit, quota, order_key=order_key, class_key=(quota, shape))


def next_place(queue: SchedulingQueue) -> int | None:
    queue.validate()
    key = queue.next_key()
    return key[-3] if key is not None else None


def filled(policy: str, *infos: QueueUnitInfo) -> SchedulingQueue:
    queue = line_of(policy)
    for each in infos:
        queue.pending.add(each)
    return queue
