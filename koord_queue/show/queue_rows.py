"""Queues as rows of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from koord_queue.answers.queues import FairAccount
from koord_queue.show.times import ago
from shared_api.objects.meta import find_condition
from shared_api.objects.queue import READY, Queue

COLUMNS: Final = ("QUEUE", "POLICY", "PENDING", "ADMITTED", "STATE", "AGE", "MESSAGE")
SHARE_COLUMNS: Final = ("LEVEL", "NAME", "GROUP", "WEIGHT", "TIMES SHARE", "PENDING", "RUNNING")
STYLES: Final = {"Open": "good", "Stopped": "warn", "Draining": "warn", "NotReady": "bad"}
"""How a state looks on a terminal."""
_STOPPED: Final = {"Hold": "Stopped", "HoldAndDrain": "Draining"}


def state_of(queue: Queue) -> str:
    """Return what the queue does, as one word; `Unknown` until the scheduler has said so."""
    if stopped := _STOPPED.get(queue.status.stop_policy_in_force):
        return stopped
    ready = find_condition(queue.status.conditions, READY)
    if ready is None:
        return "Unknown"
    return "Open" if ready.status == "True" else "NotReady"


def cells_of(queue: Queue, now: datetime) -> list[str]:
    """Return the cells of a queue, for `COLUMNS`."""
    ready = find_condition(queue.status.conditions, READY)
    text = ready.message if ready is not None and ready.status != "True" else ""
    return [
        queue.metadata.name,
        queue.status.policy_in_force or queue.spec.queue_policy,
        str(queue.status.pending),
        str(queue.status.admitted),
        state_of(queue),
        ago(queue.metadata.creation_timestamp, now),
        text,
    ]


def share_rows(accounts: Iterable[FairAccount]) -> Iterator[list[str]]:
    """Yield a row for each account of a queue, for `SHARE_COLUMNS`."""
    for each in accounts:
        times = "" if each.times_share is None else f"{each.times_share:.2f}"
        numbers = (str(each.weight), times, str(each.pending), str(each.running))
        yield [each.level, each.name, each.group, *numbers]
