"""Events on objects that cannot be decoded. Events of reconcilers: `reconcile.execute`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shared_api.client.errors import DecodeFailure
from shared_api.client.event_recorder import Event, EventRecorder, EventType, ObjectReference

UNREADABLE: Final = "Unreadable"


def tell_of_unreadable(
    recorder: EventRecorder, api_version: str, kind: str
) -> Callable[[DecodeFailure], None]:
    """Return the handler that records events on objects of a kind that cannot be decoded."""

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
