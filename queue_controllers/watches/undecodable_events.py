"""Events on objects that cannot be read. What reconcilers say: `jobframework.execute`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shared_api.client.errors import DecodeFailure
from shared_api.client.event_recorder import Event, EventRecorder, EventType, ObjectReference

UNREADABLE: Final = "Unreadable"


def tell_of_unreadable(
    recorder: EventRecorder, api_version: str, kind: str
) -> Callable[[DecodeFailure], None]:
    """Return the handler that tells of objects of a kind that cannot be read."""

    def tell(failure: DecodeFailure) -> None:
        regarding = ObjectReference(api_version, kind, failure.name, failure.namespace, failure.uid)
        note = f"It cannot be read: {failure.error}"
        recorder.record(
            Event(
                regarding=regarding,
                type=EventType.WARNING,
                reason=UNREADABLE,
                action=UNREADABLE,
                note=note,
            )
        )

    return tell
