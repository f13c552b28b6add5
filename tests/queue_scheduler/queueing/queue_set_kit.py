"""Queues with pending units, without an engine."""

from __future__ import annotations

from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.queueing.queue_policies import PRIORITY
from queue_scheduler.queueing.queue_set import QueueSet
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from tests.properties.engine_kit import build_info, build_queue, build_unit


def info(name: str, queue: str, quota: str = "a") -> QueueUnitInfo:
    unit = build_unit(name, quota)
    return build_info(unit, quota, queue=queue, order_key=PRIORITY.order_key(unit))


def one_tree(_quota: str) -> frozenset[str]:
    return frozenset(("tree",))


def apart(quota: str) -> frozenset[str]:
    return frozenset((quota,))


def nothing(_quota: str) -> frozenset[str]:
    return frozenset()


def set_of(*names: str, ranks: dict[str, int] | None = None) -> QueueSet:
    queues = QueueSet()
    for name in names:
        queues.put(build_queue(name), PRIORITY, ((ranks or {}).get(name, 0),))
    return queues


def line_of(queues: QueueSet, name: str) -> SchedulingQueue:
    queue = queues.find(name)
    assert queue is not None
    return queue
