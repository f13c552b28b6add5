"""Reports objects that cannot be read: by an event, and a condition on units, queues and policies.

The caches are asked for unreadable objects when this replica may write, so it does not matter
whether it led when an object arrived. All of a unit but its demand still counts (`salvage_unit`): a
pending unit is put on hold. Of other objects the last good version counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from queue_scheduler.reporting.events import NoticeSink
from shared_api.client.errors import ApiFailure, DecodeFailure, NotFound
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import (
    QUEUE_RESERVATIONS,
    QUEUE_UNITS,
    QUEUES,
    QUOTA_POLICIES,
)
from shared_api.client.response_decoding import read_json
from shared_api.client.writes import Dropped, Outcome, Unknown, WriteSink, status_report
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue import READY
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import QUOTA_RESERVED, Phase
from shared_api.timestamps import rfc3339
from shared_api.work_queue import WorkQueue

UNREADABLE: Final = "Unreadable"
"""Reason of the event and of the condition."""

RETRY_SECONDS: Final = 5.0
"""The pause after a write that was not sent, or whose outcome is unknown."""

CONDITION_OF: Final[Mapping[str, tuple[ResourceType[Any], str]]] = {
    QUEUE_UNITS.kind: (QUEUE_UNITS, QUOTA_RESERVED),
    QUEUES.kind: (QUEUES, READY),
    QUOTA_POLICIES.kind: (QUOTA_POLICIES, READY),
    QUEUE_RESERVATIONS.kind: (QUEUE_RESERVATIONS, READY),
}
"""Kinds with conditions of ours. ElasticQuota has none: its owner gets the event alone."""

_WAITING_PHASES: Final = frozenset({"", Phase.ENQUEUED.value, Phase.TIMEOUT_BACKOFF.value})

log = structlog.get_logger("undecodable_objects")

Unreadable = Callable[[], Mapping[str, DecodeFailure]]
"""Returns the objects of a kind whose newest version cannot be read, by key."""


class UndecodableObjects:
    """The step that reports objects that cannot be read.

    Args:
        caches: Return what cannot be read now, by kind.
        events: Takes the events.
        writes: Takes the patches.
        read_raw: Returns the body of a path, or raises ApiFailure.
        may_write: False while this process does not lead.
        due: (kind, key) of the objects to report.
    """

    def __init__(
        self,
        caches: Mapping[str, Unreadable],
        events: NoticeSink,
        writes: WriteSink,
        read_raw: Callable[[str], bytes],
        may_write: Callable[[], bool],
        clock: Clock,
        due: WorkQueue[tuple[str, str]],
    ) -> None:
        self._caches = caches
        self._events = events
        self._writes = writes
        self._read_raw = read_raw
        self._may_write = may_write
        self._clock = clock
        self._due = due
        self._reported: dict[tuple[str, str], tuple[str, str]] = {}  # -> (uid, error)

    def on_undecodable(self, kind: str) -> Callable[[DecodeFailure], None]:
        """Return the handler of one kind, for its informer."""

        def on_failure(failure: DecodeFailure) -> None:
            self._due.add((kind, failure.key))

        return on_failure

    def step(self) -> float | None:
        """Report one object; return how many seconds to rest, None: until woken."""
        if not self._may_write():
            return None
        rest = self._due.work(self._try)
        if rest != 0.0:
            self._forget_readable()
        return rest

    def _try(self, place: tuple[str, str]) -> None:
        try:
            self._inspect(*place)
            self._due.forget(place)
        except NotFound:
            self._due.forget(place)
        except ApiFailure as failure:
            log.warning(
                "unreadable object, and it cannot be inspected", place=place, error=str(failure)
            )
            self._due.add_rate_limited(place, at_least_seconds=failure.retry_after_seconds)

    def _forget_readable(self) -> None:
        """Forget objects that can be read or are gone: they are reported if they break again."""
        if self._reported:
            there = {(kind, key) for kind, cache in self._caches.items() for key in cache()}
            self._reported = {
                place: problem for place, problem in self._reported.items() if place in there
            }

    def _inspect(self, kind: str, key: str) -> None:
        failure = self._caches[kind]().get(key)
        if failure is None:
            return
        problem = (failure.uid, failure.error)
        if self._reported.get((kind, key)) != problem:
            self._reported[kind, key] = problem
            note = f"this {kind} cannot be read and is not acted upon: {failure.error}"
            self._events.record(kind, key, failure.uid, UNREADABLE, note, warning=True)
        if kind in CONDITION_OF:
            self._write_condition(kind, key, failure)

    def _write_condition(self, kind: str, key: str, failure: DecodeFailure) -> None:
        resource_type, condition_type = CONDITION_OF[kind]
        path = resource_type.path(failure.namespace, failure.name)
        found = read_json(self._read_raw(path))
        now = rfc3339(self._clock.now())
        body = build_unreadable_patch(found, condition_type, failure.error, now)
        if body is None:
            return
        write = status_report(resource_type, failure.namespace, failure.name, body)
        self._writes.submit(write, lambda outcome: self._on_outcome((kind, key), outcome))

    def _on_outcome(self, place: tuple[str, str], outcome: Outcome[Any]) -> None:
        # The answer to a write that was carried out cannot be decoded either: that is Unknown too.
        if isinstance(outcome, Dropped):
            self._due.add_after(place, max(outcome.retry_after_seconds, RETRY_SECONDS))
        elif isinstance(outcome, Unknown):
            self._due.add_after(place, RETRY_SECONDS)


def build_unreadable_patch(
    found: Mapping[str, Any], condition_type: str, error: str, now: Timestamp
) -> dict[str, Any] | None:
    """Return the merge patch of the condition; None if it is there, or if the unit is admitted.

    Args:
        found: The object as the server has it, since no struct holds it.
        condition_type: Which condition to set to False.
        error: Why it cannot be read, with the path.
        now: For a condition that changes.
    """
    status = found.get("status") or {}
    if condition_type == QUOTA_RESERVED and status.get("phase", "") not in _WAITING_PHASES:
        return None  # what it occupies is still reserved, by its last good version
    conditions = list(status.get("conditions") or ())
    old: Mapping[str, Any] = next(
        (each for each in conditions if each.get("type") == condition_type), {}
    )
    new = {
        "type": condition_type,
        "status": "False",
        "reason": UNREADABLE,
        "message": error,
        "lastTransitionTime": old.get("lastTransitionTime") or now,
    }
    if old.get("status") != "False":
        new["lastTransitionTime"] = now
    if all(old.get(field) == value for field, value in new.items()):
        return None
    conditions = [each for each in conditions if each.get("type") != condition_type]
    return {
        "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
        "status": {"conditions": [*conditions, new]},
    }
