"""Where queues stand."""

from __future__ import annotations

from koord_queue.answers.decoding import Answer
from koord_queue.answers.units import Refusal, Unit


class Queue(Answer, frozen=True):
    """One queue; `head` is its first pending unit, and null also if it may not be read."""

    name: str = ""
    policy: str = ""
    stop_policy: str = ""
    backfill: bool = False
    max_priority: int | None = None
    problems: tuple[str, ...] = ()
    priority: int = 0
    quotas: tuple[str, ...] = ()
    pending: int = 0
    admitted: int = 0
    head: Unit | None = None
    last_refusal: Refusal | None = None


class QueuePage(Answer, frozen=True):
    """A page of queues, by name."""

    leader: bool = True
    total: int = 0
    offset: int = 0
    limit: int = 0
    items: tuple[Queue, ...] = ()


class QueueDetail(Answer, frozen=True):
    """A queue with a page of its units; `others` counts those that may not be read."""

    leader: bool = True
    queue: Queue = Queue()
    offset: int = 0
    limit: int = 0
    units: tuple[Unit, ...] = ()
    others: int = 0
