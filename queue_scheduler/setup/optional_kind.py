"""The cache of a kind of ours whose CRD the cluster may lack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from shared_api.client.discovery import RawReader, served_version
from shared_api.client.errors import DecodeFailure
from shared_api.client.resource_client import ResourceType
from shared_api.informer.indexed_store import ApiObject
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import SharedInformer
from shared_api.process.clock import Clock

ObjectT = TypeVar("ObjectT", bound=ApiObject)

UndecodableHandler = Callable[[DecodeFailure], None]


class OptionalKind(Generic[ObjectT]):
    """Follows the objects of a kind in the namespace of queues (`WritersCache`).

    Without the kind the program works as before; it is found once its CRD is installed.

    Args:
        kind: The kind.
        client: Asked whether it is served.
        make_informer: Makes a new informer of it.
        start: Starts one.
        clock: The time between two looks.

    Attributes:
        kind: The kind.
        watch: Looks for it.
    """

    def __init__(
        self,
        kind: ResourceType[ObjectT],
        client: RawReader,
        make_informer: Callable[[ResourceType[ObjectT]], SharedInformer[ObjectT]],
        start: Callable[[SharedInformer[ObjectT]], None],
        clock: Clock,
    ) -> None:
        self.kind = kind
        self._make_informer = make_informer
        self._handlers: list[Callable[[ObjectT | None, ObjectT | None], None]] = []
        self._undecodable_handlers: list[UndecodableHandler] = []
        self.watch: KindWatch[ObjectT] = KindWatch(
            f"{kind.kind} ({kind.group})",
            find=lambda: served_version(client, (kind,)),
            make_informer=self._make,
            clock=clock,
            start=start,
            is_expected=False,
        )

    @property
    def informer(self) -> SharedInformer[ObjectT] | None:
        """The present informer; None while the kind is not served."""
        return self.watch.informer

    def add_handler(self, handler: Callable[[ObjectT | None, ObjectT | None], None]) -> None:
        """Register a handler of objects; call it before the first look."""
        self._handlers.append(handler)

    def add_undecodable_handler(self, handler: UndecodableHandler) -> None:
        """Register a handler of objects that cannot be read; call it before the first look."""
        self._undecodable_handlers.append(handler)

    def undecodable(self) -> Mapping[str, DecodeFailure]:
        """Return the objects whose newest version cannot be read, by key."""
        informer = self.informer
        return {} if informer is None else informer.undecodable()

    def is_readable(self, key: str) -> bool:
        """Return whether the newest version of an object can be read."""
        informer = self.informer
        return informer is not None and informer.is_readable(key)

    def note_written(self, written: ObjectT) -> object:
        """Store the object that the server returned."""
        informer = self.informer
        return None if informer is None else informer.note_written(written)

    def check(self) -> tuple[bool, str]:
        """Return (ok, detail) for `/readyz`: it counts from the first decision on."""
        return self.watch.check()

    def _make(self, kind: ResourceType[ObjectT]) -> SharedInformer[Any]:
        informer = self._make_informer(kind)
        for handler in self._handlers:
            informer.add_handler(handler)
        for undecodable_handler in self._undecodable_handlers:
            informer.add_undecodable_handler(undecodable_handler)
        return informer
