"""The cache of one resource: one reflector, one store, and handlers that receive every change.

    API server ──► Reflector ──► IndexedStore ──► handlers, in the order in which they were added

A handler is called with ``(old, new)``: ``(None, new)`` added, ``(old, new)`` changed,
``(old, None)`` deleted, and ``(same, same)`` from the periodic resync. All calls come from the
informer's thread, one after the other, so a handler must be quick: it turns the change into an
event or a key and returns. Handlers compare states; each may be called twice, late, or with a new
uid under an old name (reported as deleted, then added). The resync repeats what a handler that
raised has left undone.

``new`` has a lower version than what was reported or written before only after the server's history
was replaced (restored from a backup), and is valid all the same. ``is_rewound`` says
so while handlers are called.

``indexed_store`` explains the store (own writes, order of versions), ``reflector`` the connection.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec
import structlog

from shared_api.client.errors import DecodeFailure
from shared_api.client.resource_client import Page, ResourceType, WatchEvent
from shared_api.informer.fresh_read import FRESH_READ_PATIENCE_SECONDS, FreshRead
from shared_api.informer.indexed_store import ApiObject, Change, IndexedStore, version_number
from shared_api.informer.reflector import EventStream, Reflector, ReflectorObserver
from shared_api.process.clock import Clock
from shared_api.process.loop_thread import STOP_SECONDS, LoopThread

RESYNC_SECONDS: Final = 600.0
"""How often handlers are called again for all objects; normally nothing has changed for them."""

RESYNC_JITTER: Final = 0.1
"""Jitter of the resync interval, as a share, so that the informers of a program take turns."""

RESYNC_CHUNK: Final = 500
"""Objects per step while resyncing, so that events do not wait for the resync."""

WAIT_SECONDS: Final = 1.0
"""How long a step on the informer's own thread waits for an event, and so the longest delay of a
handler that is added late, a requested list and a stop."""

GATHER_SECONDS: Final = 0.005
"""Longest pause of an informer after its watch delivered something: under load several events then
arrive at a time, and waking a thread costs more than handling one of them. Pauses end at multiples
of this value, so that several informers run together while their code is in the processor's caches.
The first event after a quiet time is not delayed."""

MAX_WHY_CHARS: Final = 300
"""What is told of an exception: it may quote what a user wrote."""

T = TypeVar("T", bound=ApiObject)
AnyT = TypeVar("AnyT")

Handler = Callable[[T | None, T | None], None]

UndecodableHandler = Callable[[DecodeFailure], None]
"""Called once for every version of an object that cannot be decoded, on the informer's thread; sets
event and condition on that object."""

log = structlog.get_logger("shared_informer")


class ListWatchClient(Protocol):
    """The part of ``ResourceClient`` that an informer uses."""

    def list_page(
        self,
        resource_type: ResourceType[AnyT],
        *,
        namespace: str = ...,
        label_selector: str = ...,
        field_selector: str = ...,
        limit: int = ...,
        continue_token: str = ...,
    ) -> Page[AnyT]:
        """Return one page of a list."""

    def watch(
        self,
        resource_type: ResourceType[AnyT],
        *,
        namespace: str = ...,
        label_selector: str = ...,
        field_selector: str = ...,
        resource_version: str = ...,
        timeout_seconds: int = ...,
    ) -> EventStream[AnyT]:
        """Open a watch."""


class InformerObserver(ReflectorObserver, Protocol):
    """Counts what an informer does, for metrics."""

    def on_decode_failure(self) -> None:
        """Count a version of an object that cannot be decoded."""

    def on_handler_error(self) -> None:
        """Count an exception of a handler."""

    def show(
        self,
        *,
        objects: Callable[[], float],
        synced: Callable[[], float],
        undecodable: Callable[[], float],
        watch_age: Callable[[], float],
    ) -> None:
        """Receive, once, functions that return the state of the cache, callable from any thread."""

    def on_finding(self) -> None:
        """Count a change that a list after the first one found and no watch had reported."""

    def on_stop(self) -> None:
        """Count that the informer has stopped for good; called from any thread."""


class InformerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects an informer follows, and its durations."""

    namespace: str = ""
    """Namespace of the objects; "" for all namespaces."""
    label_selector: str = ""
    field_selector: str = ""
    resync_seconds: float = RESYNC_SECONDS
    """Interval between resyncs; 0 for none."""
    wait_seconds: float = WAIT_SECONDS
    """How long a step waits for an event; 0 for steps that never block, so that one thread can run
    several informers (tests)."""
    gather_seconds: float = GATHER_SECONDS
    """Longest pause to gather events; 0 handles each event as it arrives, as do steps that never
    block."""
    if_missing: str = "nothing of them is known until then"
    """The consequence while the server does not have the kind, for the log and ``/readyz``."""


class SharedInformer(Generic[T]):
    """The cache of one resource. One thread calls `step`; other methods are callable from any.

    Args:
        client: Reads from the API server.
        resource_type: The kind to follow.
        clock: The time, for deadlines, pauses and the resync.
        rng: Source of their jitter.
        settings: Selection of objects and durations; None: the defaults.
        store: A store with the required indexes and transform; None: one without any.
        observer: Counts for metrics; None: nothing is counted.
    """

    def __init__(
        self,
        client: ListWatchClient,
        resource_type: ResourceType[T],
        *,
        clock: Clock,
        rng: random.Random,
        settings: InformerSettings | None = None,
        store: IndexedStore[T] | None = None,
        observer: InformerObserver | None = None,
    ) -> None:
        self.store: IndexedStore[T] = IndexedStore() if store is None else store
        self._name = resource_type.plural
        self._clock = clock
        self._rng = rng
        self._settings = InformerSettings() if settings is None else settings
        self._observer = observer
        self._source = _Selected(client, resource_type, self._settings)
        self._reflector = Reflector(
            self._name,
            self._source,
            self,
            clock=clock,
            rng=rng,
            observer=observer,
            if_missing=(
                f"{resource_type.api_version} has no {self._name} here, the CRD "
                f"{self._name}.{resource_type.group} must be installed; {self._settings.if_missing}"
            ),
        )
        self._handlers: list[Handler[T]] = []
        self._joining: deque[Handler[T]] = deque()
        self._undecodable_handlers: list[UndecodableHandler] = []
        self._undecodable: dict[str, DecodeFailure] = {}
        self._listed: set[str] = set()  # keys of the running list
        self._unnamed = 0  # items of the running list that cannot be identified
        self._rewound = False
        self._is_creation = False
        self._has_listed = False
        self._resync_at = clock.monotonic() + self._resync_pause()
        self._resync_left: deque[str] = deque()
        self.thread: LoopThread | None = None
        if observer is not None:
            observer.show(
                objects=self.store.__len__,
                synced=self.has_synced,
                undecodable=self._undecodable.__len__,
                watch_age=self.silence_seconds,
            )

    # ------------------------------------------------------------------ from any thread

    def add_handler(self, on_change: Handler[T]) -> None:
        """Add a handler, which is called for existing objects as added, then for each change."""
        self._joining.append(on_change)
        if self.thread is not None:
            self.thread.wake()

    def add_undecodable_handler(self, on_undecodable: UndecodableHandler) -> None:
        """Add a handler that is called for objects that cannot be decoded; before `start`."""
        self._undecodable_handlers.append(on_undecodable)

    def has_synced(self) -> bool:
        """Return whether every handler has seen the whole first list."""
        return self._has_listed and not self._joining

    def is_forbidden(self) -> bool:
        """Return whether this process lacks permission to read the kind, by the last try."""
        return self._reflector.is_forbidden

    def note_written(self, written: T) -> bool:
        """Store the answer to a write of this process; see `IndexedStore.note_written`."""
        return self.store.note_written(written)

    def is_rewound(self) -> bool:
        """Return whether handlers are being called with a list of a replaced history.

        Meaningful only in handlers. What they or this process knew of these objects before is void,
        whatever the versions are.
        """
        return self._rewound

    def is_creation(self) -> bool:
        """Return whether handlers are being called for a creation that the watch reports.

        Meaningful only in handlers. What a list adds, or what can be decoded at last, may be old.
        """
        return self._is_creation

    def undecodable(self) -> Mapping[str, DecodeFailure]:
        """Return the failures of objects whose newest version cannot be decoded, by key."""
        return dict(self._undecodable)

    def is_readable(self, key: str) -> bool:
        """Return whether the newest known version of an object can be decoded."""
        return key not in self._undecodable

    @property
    def last_resource_version(self) -> str:
        """The version up to which handlers have seen everything; "" before the first full list."""
        return self._reflector.resource_version

    def silence_seconds(self) -> float:
        """Return the seconds since the server last sent anything."""
        return self._reflector.silence_seconds()

    def check_synced(self) -> tuple[bool, str]:
        """Return (ok, detail) for ``/readyz``: whether the cache is complete."""
        trouble = self._reflector.trouble
        detail = f"{len(self.store)} {self._name}"
        if not self.has_synced():
            detail = f"{self._name} not listed yet"
        return self.has_synced(), f"{detail}; {trouble}" if trouble else detail

    def start_fresh_read(self) -> FreshRead:
        """Ask the server for its current version; return a value that knows when it is cached.

        If it is not, the watch is reopened, so that it soon says how far it is.

        Raises:
            ApiFailure: The server could not be asked.
        """
        had = self._reflector.resource_version
        target = self._source.list_page(limit=1, continue_token="").resource_version
        deadline = self._clock.monotonic() + FRESH_READ_PATIENCE_SECONDS
        if version_number(target) >= version_number(had):
            if version_number(target) > version_number(self._reflector.resource_version):
                self._reflector.request_bookmark()
            return FreshRead(self._reflector, target, self._clock, deadline)
        # The server is behind what it sent before: the content of this cache is void.
        return FreshRead(self._reflector, target, self._clock, float("-inf"), void=had)

    def start(self, on_error: Callable[[str, Exception], None] | None = None) -> None:
        """Start to follow the resource on a thread of its own; once."""
        assert self.thread is None, "started twice"
        self.thread = LoopThread(
            f"informer-{self._name}",
            self.step,
            self._clock,
            on_error=on_error,
            unblock=self._reflector.interrupt,
        )
        self.thread.start()

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """End the thread and the watch; return whether the thread has ended."""
        ended = self.thread is None or self.thread.stop(timeout_seconds)
        self._reflector.close()
        if self._observer is not None:
            self._observer.on_stop()
        return ended

    # ------------------------------------------------------------------ from one thread

    def step(self) -> float:
        """Do a bounded piece of work; return the seconds for which there is nothing to do."""
        self._let_handlers_join()
        self._resync_some()
        # While there is more to resync, only take events that have arrived; do not wait for them.
        wait = 0.0 if self._resync_left or self._joining else self._settings.wait_seconds
        before = self._reflector.resource_version
        rest = self._reflector.step(wait)
        if self._resync_left:
            return 0.0
        if wait and before and self._reflector.resource_version != before:
            return max(rest, self._seconds_until_gathered())
        return rest

    def _seconds_until_gathered(self) -> float:
        gather = self._settings.gather_seconds
        return gather - self._clock.monotonic() % gather if gather else 0.0

    def on_list_start(self, resource_version: str, *, rewound: bool) -> None:
        """Begin to collect the keys of existing objects (`ReflectorSink`)."""
        self._listed.clear()
        self._unnamed = 0
        self._rewound = rewound
        if rewound:
            # The list reports everything again; until it ends, handlers must see only its objects.
            self._resync_left.clear()
            log.warning(
                "the server's history was replaced (restored from a backup?)",
                resource=self._name,
                had=self.last_resource_version,
                got=resource_version,
            )

    def on_page(self, items: Sequence[T | DecodeFailure]) -> None:
        """Store objects of a list and call the handlers (`ReflectorSink`)."""
        for item in items:
            if isinstance(item, DecodeFailure):
                self._keep(item, listed=True)
            else:
                self._listed.add(item.metadata.key)
                self._put(item, listed=True)

    def on_list_end(self, resource_version: str) -> None:
        """Remove the objects that the list did not have (`ReflectorSink`)."""
        if self._unnamed:
            # One of these may be a cached object: keeping a deleted object until the next list is
            # better than reporting an existing one as deleted.
            log.error("list with unnamed objects", resource=self._name, count=self._unnamed)
        else:
            vanished = self.store.remove_vanished(
                self._listed, resource_version, force=self._rewound
            )
            self._deliver(vanished, listed=True)
            for key in self._undecodable.keys() - self._listed:
                del self._undecodable[key]
        self.store.advance(resource_version, force=self._rewound)
        self._listed.clear()
        self._rewound = False
        if not self._has_listed:
            log.info("cache complete", resource=self._name, objects=len(self.store))
        self._has_listed = True

    def on_event(self, event: WatchEvent[T]) -> None:
        """Store one change and call the handlers (`ReflectorSink`)."""
        if event.type == "DELETED":
            self._remove(event)
        elif event.undecodable is not None:
            self._keep(event.undecodable, listed=False)
        elif event.object is not None:
            self._is_creation = event.type == "ADDED"
            try:
                self._put(event.object, listed=False)
            finally:
                self._is_creation = False

    def on_bookmark(self, resource_version: str) -> None:
        """Record the version that the watch has reached (`ReflectorSink`)."""
        self.store.advance(resource_version)

    # ------------------------------------------------------------------ private

    def _put(self, item: T, *, listed: bool) -> None:
        key = item.metadata.key
        rewound = self._rewound
        # An object that could not be decoded in the first list of a new history is reported only
        # now, so its handlers must still know that the history was replaced.
        self._rewound = rewound or self.store.is_void(key)
        try:
            changes = self.store.put_observed(item, force=self._rewound)
        except Exception as error:
            log.exception("object cannot be kept", resource=self._name, key=key)
            self._keep(_failure_of(item, error), listed=listed)
        else:
            self._undecodable.pop(key, None)
            self._deliver(changes, listed=listed)
        finally:
            self._rewound = rewound

    def _keep(self, failure: DecodeFailure, *, listed: bool) -> None:
        """Store an object that cannot be decoded.

        The part that could be decoded is stored; without one, the last decodable version is kept.
        """
        key = failure.key
        if not failure.name:
            self._unnamed += listed
        elif listed:
            self._listed.add(key)
        before = self._undecodable.get(key)
        if before is not None and before.resource_version == failure.resource_version:
            return  # a list repeats what the watch has delivered
        if failure.salvaged is not None:
            self._put(failure.salvaged, listed=listed)
        elif failure.name:
            changes = self.store.keep_observed(
                key, failure.uid, failure.resource_version, force=self._rewound
            )
            self._deliver(changes, listed=listed)
        if failure.name:
            self._undecodable[key] = failure
        if self._observer is not None:
            self._observer.on_decode_failure()
        # The condition that a handler sets on it makes a new version, but no new failure.
        is_known = before is not None and (before.uid, before.error) == (failure.uid, failure.error)
        report = log.debug if is_known else log.warning
        report("object cannot be read", resource=self._name, key=key, error=failure.error)
        for on_undecodable in self._undecodable_handlers:
            try:
                on_undecodable(failure)
            except Exception as error:  # noqa: BLE001 - as in _tell
                self._on_handler_error(error, key)

    def _remove(self, event: WatchEvent[T]) -> None:
        if event.object is not None:
            key, uid = event.object.metadata.key, event.object.metadata.uid
        elif event.undecodable is not None:
            key, uid = event.undecodable.key, event.undecodable.uid
        else:
            return
        self._undecodable.pop(key, None)
        self._deliver(self.store.remove_observed(key, uid, event.resource_version))

    def _deliver(self, changes: Iterable[Change[T]], *, listed: bool = False) -> None:
        """Call every handler for every change, in order; count the changes that a list found."""
        is_finding = listed and self._has_listed and self._observer is not None
        for old, new in changes:
            if is_finding and self._observer is not None:
                self._observer.on_finding()
            for handler in self._handlers:
                self._call_handler(handler, old, new)

    def _call_handler(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception as error:  # noqa: BLE001 - the other handlers must still be called
            some = new if new is not None else old
            self._on_handler_error(error, "" if some is None else some.metadata.key)

    def _on_handler_error(self, error: Exception, key: str) -> None:
        log.error("handler failed", resource=self._name, key=key, exc_info=error)
        if self._observer is not None:
            self._observer.on_handler_error()

    def _let_handlers_join(self) -> None:
        """Call new handlers for the existing objects, then add them to the handlers."""
        while self._joining:
            handler = self._joining[0]
            for known in self.store.seen_by_handlers():
                self._call_handler(handler, None, known)
            self._handlers.append(handler)
            self._joining.popleft()  # last: has_synced must not be true before

    def _resync_some(self) -> None:
        """Call the handlers again for some objects that they have seen, if a resync is due."""
        now = self._clock.monotonic()
        if self._rewound:
            return
        if self._settings.resync_seconds and self._has_listed and now >= self._resync_at:
            self._resync_at = now + self._resync_pause()
            self._resync_left.extend(each.metadata.key for each in self.store.seen_by_handlers())
        for _ in range(min(len(self._resync_left), RESYNC_CHUNK)):
            known = self.store.seen_by_handlers_of(self._resync_left.popleft())
            if known is not None:
                self._deliver([(known, known)])

    def _resync_pause(self) -> float:
        return self._settings.resync_seconds * (1 + RESYNC_JITTER * (2 * self._rng.random() - 1))


def _failure_of(item: ApiObject, error: Exception) -> DecodeFailure:
    """Return the failure of an object at which the store's transform or an index raises.

    It can be decoded, and not be used: for whoever follows, that is the same.
    """
    meta, why = item.metadata, f"{type(error).__name__}: {error}"[:MAX_WHY_CHARS]
    return DecodeFailure(meta.namespace, meta.name, meta.uid, meta.resource_version, why)


class _Selected(Generic[T]):
    """The `ListWatcher` of one resource under its selectors."""

    def __init__(
        self,
        client: ListWatchClient,
        resource_type: ResourceType[T],
        settings: InformerSettings,
    ) -> None:
        self._client = client
        self._resource_type = resource_type
        self._settings = settings

    def list_page(self, *, limit: int, continue_token: str) -> Page[T]:
        return self._client.list_page(
            self._resource_type,
            namespace=self._settings.namespace,
            label_selector=self._settings.label_selector,
            field_selector=self._settings.field_selector,
            limit=limit,
            continue_token=continue_token,
        )

    def watch(self, *, resource_version: str, timeout_seconds: int) -> EventStream[T]:
        return self._client.watch(
            self._resource_type,
            namespace=self._settings.namespace,
            label_selector=self._settings.label_selector,
            field_selector=self._settings.field_selector,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
        )
