"""Writes notices as events on the objects that they are about, and as lines of the log.

The event is for readers of the object, the line for readers of the scheduler's log. Each notice is
made once while nothing changes, so it is written once. If very many are alike, the log has the
first of them, and the number of the others.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from shared_api.client.event_recorder import Event, EventRecorder, EventType, ObjectReference
from shared_api.client.resource_types import (
    CONFIG_MAPS,
    ELASTIC_QUOTA_TREES,
    ELASTIC_QUOTAS,
    PODS,
    QUEUE_RESERVATIONS,
    QUEUE_UNITS,
    QUEUES,
    QUOTA_POLICIES,
    RESOURCE_QUOTAS,
)
from shared_api.objects.meta import Uid
from shared_api.process.clock import Clock

POLL_SECONDS: Final = 1.0
"""Between two steps. Notices are read by people, and each step takes a lock."""

MAX_LINES: Final = 20
"""Lines in the log for one kind and reason in `FOLD_SECONDS`. A deleted queue may have had ten
thousand units; each of them has its event and its condition."""

FOLD_SECONDS: Final = 60.0

MAX_NOTICES: Final = 10_000
"""Notices that wait for the next step; above it the oldest are lost, as in the event recorder."""

ACTION: Final = "Schedule"
"""The `action` of all events."""

_API_VERSIONS: Final = {
    kind.kind: kind.api_version
    for kind in (
        *(QUEUES, QUEUE_UNITS, QUOTA_POLICIES, QUEUE_RESERVATIONS, ELASTIC_QUOTAS),
        *(ELASTIC_QUOTA_TREES, RESOURCE_QUOTAS, PODS, CONFIG_MAPS),
    )
}

log = structlog.get_logger("events")


class NoticeSink(Protocol):
    """Records events."""

    def record(
        self, kind: str, key: str, uid: Uid, reason: str, note: str, *, warning: bool
    ) -> None:
        """Record an event on the object `key` (`namespace/name`) of a kind."""


class ObjectEvents:
    """A `NoticeSink` over the recorder; silent while this replica does not lead."""

    def __init__(self, recorder: EventRecorder, may_write: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._may_write = may_write

    def record(
        self, kind: str, key: str, uid: Uid, reason: str, note: str, *, warning: bool
    ) -> None:
        """Record an event; kinds that the scheduler does not know have no API version."""
        if not self._may_write():
            return
        namespace, _, name = key.rpartition("/")
        self._recorder.record(
            Event(
                regarding=ObjectReference(
                    api_version=_API_VERSIONS.get(kind, ""),
                    kind=kind,
                    name=name,
                    namespace=namespace,
                    uid=uid,
                ),
                type=EventType.WARNING if warning else EventType.NORMAL,
                reason=reason,
                action=ACTION,
                note=note,
            )
        )


class NoticeLog:
    """One line for each notice, and one a minute for all above `MAX_LINES` that are alike."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._fold_at = 0.0
        self._seen: Counter[tuple[str, str]] = Counter()
        """(kind, reason) since the last fold."""

    def write(self, notice: Notice) -> None:
        """Log a notice, or count it."""
        alike = (notice.kind, notice.reason)
        self._seen[alike] += 1
        if self._seen[alike] > MAX_LINES:
            return
        report = log.warning if notice.warning else log.info
        report(
            "object needs attention",
            kind=notice.kind,
            object=notice.key,
            reason=notice.reason,
            note=notice.note,
        )

    def fold(self) -> None:
        """Log how many notices were only counted, once every `FOLD_SECONDS`."""
        now = self._clock.monotonic()
        if now < self._fold_at:
            return
        self._fold_at = now + FOLD_SECONDS
        for (kind, reason), seen in self._seen.items():
            if seen > MAX_LINES:
                more = seen - MAX_LINES
                log.warning("more objects need attention", kind=kind, reason=reason, more=more)
        self._seen.clear()


class EventReporter:
    """The step that writes notices: the engine's, and those that others `report`."""

    def __init__(
        self,
        shared: SharedEngine,
        events: NoticeSink,
        may_write: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._shared = shared
        self._events = events
        self._may_write = may_write
        self._log = NoticeLog(clock)
        # Added to by any thread, taken from by the step.
        self._notices: deque[Notice] = deque(maxlen=MAX_NOTICES)

    def report(self, notice: Notice) -> None:
        """Queue a notice to be written at the next step. Callable from any thread."""
        self._notices.append(notice)

    def step(self) -> float:
        """Write the notices; return how many seconds to rest.

        While this replica does not lead, notices wait: it may lead soon.
        """
        if self._may_write():
            for notice in self._shared.ask(Engine.take_notices):
                self._pass_on(notice)
            while self._notices:
                self._pass_on(self._notices.popleft())
            self._log.fold()
        return POLL_SECONDS

    def _pass_on(self, notice: Notice) -> None:
        self._events.record(
            notice.kind,
            notice.key,
            notice.uid,
            notice.reason,
            notice.note,
            warning=notice.warning,
        )
        self._log.write(notice)
