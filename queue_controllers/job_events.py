"""What the reconcilers tell people, as events of the API."""

from __future__ import annotations

from collections.abc import Callable

from shared_api.client.errors import DecodeFailure
from shared_api.client.event_recorder import (
    EventRecorder,
    EventType,
    Happening,
    ObjectReference,
)
from shared_api.objects.meta import ObjectMeta


class JobEvents:
    """An `EventSink`: what the reconcilers tell becomes events."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def tell(
        self,
        api_version: str,
        kind: str,
        about: ObjectMeta,
        *,
        event_type: str,
        reason: str,
        message: str,
    ) -> None:
        """Put an event on an object."""
        regarding = ObjectReference(api_version, kind, about.name, about.namespace, about.uid)
        self._recorder.record(
            Happening(
                regarding=regarding,
                type=EventType(event_type),
                reason=reason,
                action=reason,
                note=message,
            )
        )

    def on_undecodable(self, api_version: str, kind: str) -> Callable[[DecodeFailure], None]:
        """Return the handler that tells of objects of a kind that can not be read."""

        def tell(failure: DecodeFailure) -> None:
            about = ObjectMeta(name=failure.name, namespace=failure.namespace, uid=failure.uid)
            message = f"It can not be read: {failure.error}"
            self.tell(
                api_version,
                kind,
                about,
                event_type=EventType.WARNING.value,
                reason="Unreadable",
                message=message,
            )

        return tell
