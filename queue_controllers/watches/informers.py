"""Creates the informers of the controllers, and watches for kinds that may come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from queue_controllers.jobframework.generic_job import JobKind
from queue_controllers.watches.kind_election import KindTurn
from shared_api.client.discovery import is_served, served_version
from shared_api.client.errors import DecodeFailure
from shared_api.client.event_recorder import Event, EventRecorder, EventType, ObjectReference
from shared_api.client.resource_client import ResourceType
from shared_api.informer.indexed_store import ApiObject, IndexedStore
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import InformerSettings, SharedInformer
from shared_api.program import Host

GATHER_SECONDS: Final = 0.05
"""How long caches batch changes: no job is quicker than this, and most changes lead to no write."""

ObjectT = TypeVar("ObjectT", bound=ApiObject)


class InformerFactory:
    """Creates informers that share a host.

    Args:
        host: The process.
        wait_seconds: 0 if steps are called on one thread.
    """

    def __init__(self, host: Host, wait_seconds: float) -> None:
        self._host = host
        self._wait_seconds = wait_seconds
        self.runs_threads = False
        """Whether an informer starts as it is created, on a thread of its own."""

    def make(
        self,
        resource_type: ResourceType[ObjectT],
        store: IndexedStore[ObjectT],
        *,
        gather_seconds: float = GATHER_SECONDS,
        label_selector: str = "",
    ) -> SharedInformer[ObjectT]:
        """Return an informer that fills a store; it is not started."""
        host = self._host
        return SharedInformer(
            host.client,
            resource_type,
            clock=host.clock,
            rng=host.rng,
            settings=InformerSettings(
                wait_seconds=self._wait_seconds,
                gather_seconds=gather_seconds,
                label_selector=label_selector,
            ),
            store=store,
            observer=host.metrics.informers.of_resource(resource_type.plural),
        )

    def follow(
        self,
        resource_type: ResourceType[ObjectT],
        store: IndexedStore[ObjectT],
        *,
        on_made: Callable[[SharedInformer[ObjectT]], None],
        on_gone: Callable[[], None] | None = None,
        label_selector: str = "",
        turn: KindTurn | None = None,
        older: Sequence[ResourceType[ObjectT]] = (),
    ) -> KindWatch[ObjectT]:
        """Return the watch for a kind that may not be served; `on_made` adds handlers.

        With a turn the kind is watched only while that is taken, and `on_gone` is the turn's.
        Without one, `older` are versions of the kind that are watched where the newest is missing.
        """
        rt = resource_type

        def serves(kind: JobKind | ResourceType[ObjectT]) -> bool:
            return is_served(self._host.client, kind.group, kind.version, kind.plural)

        def find() -> ResourceType[ObjectT] | str | None:
            if turn is None:
                return served_version(self._host.client, (rt, *older))
            why_not = turn.take(serves)
            return rt if why_not == "" else why_not

        def make(version: ResourceType[ObjectT]) -> SharedInformer[ObjectT]:
            informer = self.make(version, store, label_selector=label_selector)
            on_made(informer)
            return informer

        return KindWatch(
            f"{rt.kind} ({rt.api_version})",
            find=find,
            make_informer=make,
            clock=self._host.clock,
            start=self.start,
            on_gone=on_gone if turn is None else turn.give_back,
        )

    def start(self, informer: SharedInformer[Any]) -> None:
        """Start an informer on a thread of its own, if there are threads."""
        if self.runs_threads:
            informer.start(self._host.metrics.process.on_loop_error)


# --- events on objects that cannot be decoded -----------------------------------------------------
# Events on objects that cannot be decoded. Events of reconcilers: `reconcile.execute`.

UNREADABLE: Final = "Unreadable"


def unreadable_recorder(
    recorder: EventRecorder, api_version: str, kind: str
) -> Callable[[DecodeFailure], None]:
    """Return the handler that records events on objects of a kind that cannot be decoded."""

    def record(failure: DecodeFailure) -> None:
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

    return record
