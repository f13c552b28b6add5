"""Turns the engine's notices into events on the objects that they are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from queue_scheduler.engine import Engine
from queue_scheduler.shared_engine import SharedEngine
from shared_api.client.event_recorder import (
    EventRecorder,
    EventType,
    Happening,
    ObjectReference,
)
from shared_api.client.resource_types import ELASTIC_QUOTAS, PODS, QUEUE_UNITS, QUEUES
from shared_api.objects.meta import Uid

LOOK_SECONDS: Final = 1.0
"""Notices are for people: a second does not matter, and looking costs a lock."""

ACTION: Final = "Schedule"
"""The one word for what was being done."""

_API_VERSIONS: Final = {
    kind.kind: kind.api_version for kind in (QUEUES, QUEUE_UNITS, ELASTIC_QUOTAS, PODS)
}


class EventSink(Protocol):
    """Records events."""

    def record(
        self, kind: str, key: str, uid: Uid, reason: str, note: str, *, warning: bool
    ) -> None:
        """Record an event on the object `key` (`namespace/name`) of a kind."""
        ...


class ObjectEvents:
    """An `EventSink` over the recorder; silent while this replica does not lead."""

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
            Happening(
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


class NoticeEvents:
    """The step that passes notices on."""

    def __init__(
        self, shared: SharedEngine, events: EventSink, may_write: Callable[[], bool]
    ) -> None:
        self._shared = shared
        self._events = events
        self._may_write = may_write

    def step(self) -> float:
        """Record what the engine has to say; return how long to rest.

        While this replica follows, notices stay where they are: it may lead soon.
        """
        if self._may_write():
            for notice in self._shared.ask(Engine.take_notices):
                self._events.record(
                    notice.kind,
                    notice.key,
                    notice.uid,
                    notice.reason,
                    notice.note,
                    warning=notice.warning,
                )
        return LOOK_SECONDS
