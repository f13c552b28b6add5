"""Records events, which users see in `kubectl describe`; repeated events are aggregated.

    record ──► inbox ──► step: known? ──no──► create the Event
                                └──yes──► count it; write the count every few minutes at most

An event that is repeated, about the same object and with the same text, becomes a series under the
name of the first. Names are derived from the content, so that after a restart the event is found
again (the create answers AlreadyExists) instead of being written twice. A text with changing
numbers would make a new event each time; the number of events per object is limited.

All writes go through the dispatcher's low lane: an event never delays a decision, and is dropped
rather than waited for.

Model: client-go `tools/events` (series) and `tools/record` (the limit per object). The API's rules:
events.k8s.io/v1 and its validation (only `series` may change).
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from shared_api.client.errors import AlreadyExists, NotFound
from shared_api.client.flow_control import Lane
from shared_api.client.resource_types import EVENTS
from shared_api.client.writes import Outcome, Rejected, Verb, Write, WriteSink, Written
from shared_api.timestamps import rfc3339_micro

if TYPE_CHECKING:
    from shared_api.objects.meta import Timestamp, Uid
    from shared_api.process.clock import Clock

V = TypeVar("V")

MAX_NOTE_BYTES: Final = 1024
"""Longest note: the limit of the API's validation."""
MAX_WORD_BYTES: Final = 128
"""Longest reason, action and reporting instance: the limit of the API's validation."""
MAX_NAME_CHARS: Final = 253
"""Longest name of an event: a DNS subdomain."""
HASH_CHARS: Final = 16
"""64 bits, so that two events of one object do not collide."""
COUNT_SECONDS: Final = 300.0
"""Interval between two writes of one series' count: users do not need it to the second."""
OBJECT_BURST: Final = 25
OBJECT_REFILL_SECONDS: Final = 300.0
"""Time until one more new event about an object is allowed: client-go's spam filter (burst 25, one
more every 5 minutes)."""
MAX_SERIES: Final = 4096
MAX_OBJECTS: Final = 4096
"""Sizes of the LRU caches of objects and series: client-go's."""
MAX_INBOX: Final = 10_000
"""Most events that wait for `step`; above it the oldest are dropped."""
EVENTS_PER_STEP: Final = 500
"""Most events taken from the inbox per step, so that the thread notices a stop."""
IN_FLIGHT_SECONDS: Final = 5.0
"""A count whose event is still being written is tried again after this time, the longest write."""
DEFAULT_NAMESPACE: Final = "default"
"""The namespace that the API requires for events about cluster-scoped objects."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]")
_QUALIFIED_NAME: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


class EventType(Enum):
    """Severity of an event, as the API defines it."""

    NORMAL = "Normal"
    WARNING = "Warning"


class ObjectReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: Uid | str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event to record."""

    regarding: ObjectReference
    type: EventType = EventType.NORMAL
    reason: str
    """One CamelCase word for programs: "QuotaReserved"."""
    action: str
    """One CamelCase word for what was done: "Dequeue"."""
    note: str
    """Text for users. It should not contain changing numbers: each text is an event of its own."""
    related: ObjectReference | None = None


class EventRecorder:
    """Takes events from any thread; one thread calls `step`, which writes them."""

    # No lock: `record` and the outcomes append to deques, which are thread-safe; everything else
    # belongs to the thread that calls `step`.

    def __init__(
        self,
        writes: WriteSink,
        clock: Clock,
        *,
        reporting_controller: str,
        reporting_instance: str,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a recorder.

        Args:
            writes: Sends the writes.
            clock: The time, for events and limits.
            reporting_controller: The reporter, as a qualified name: "koord-queue/scheduler".
            reporting_instance: The instance of the reporter: the name of its pod.
            wake: Called when there is something to do; wakes the thread that calls `step`.
        """
        assert _QUALIFIED_NAME.fullmatch(reporting_controller), reporting_controller
        self.wake = wake
        self.lost = 0
        """Number of events that were dropped, because of the limits or of a failed write."""
        self._writes = writes
        self._clock = clock
        self._controller = reporting_controller
        self._instance = cut(reporting_instance, MAX_WORD_BYTES) or "unknown"
        self._inbox: deque[tuple[Event, Timestamp]] = deque(maxlen=MAX_INBOX)
        self._outcomes: deque[tuple[str, Outcome[Any]]] = deque()
        self._series: _Recent[_Series] = _Recent(MAX_SERIES)
        self._allowances: _Recent[_Allowance] = _Recent(MAX_OBJECTS)
        self._due: dict[str, float] = {}
        """Series whose count is to be written -> when it may be, on the monotonic clock."""

    def record(self, event: Event) -> None:
        """Write an event, or increment its count, later. Returns at once; never raises."""
        self._inbox.append((_cut_texts(event), rfc3339_micro(self._clock.now())))
        self.wake()

    def step(self) -> float | None:
        """Submit the writes that are due; return the seconds to rest (None: until woken)."""
        while self._outcomes:
            self._settle(*self._outcomes.popleft())
        for _ in range(min(len(self._inbox), EVENTS_PER_STEP)):
            self._see(*self._inbox.popleft())
        now = self._clock.monotonic()
        for name in [name for name, due in self._due.items() if due <= now]:
            self._write_count(name, now)
        if self._inbox:
            return 0.0
        return max(0.0, min(self._due.values()) - now) if self._due else None

    # ---------------------------------------------------------------------------- internals

    def _see(self, event: Event, seen_at: Timestamp) -> None:
        name = event_name(event, self._controller)
        known = self._series.get(name)
        if known is not None:
            known.count += 1
            known.seen_at = seen_at
            self._due.setdefault(name, known.write_at)
        elif self._is_allowed(event.regarding):
            known = _Series(event, seen_at)
            forgotten = self._series.put(name, known)
            if forgotten is not None:
                self._due.pop(forgotten, None)
            self._create(name, known)
        else:
            self.lost += 1

    def _is_allowed(self, regarding: ObjectReference) -> bool:
        key = regarding.uid or f"{regarding.kind}/{regarding.namespace}/{regarding.name}"
        now = self._clock.monotonic()
        allowance = self._allowances.get(key)
        if allowance is None:
            allowance = _Allowance(now)
            self._allowances.put(key, allowance)
        return allowance.take(now)

    def _create(self, name: str, series: _Series) -> None:
        event = series.event
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": _namespace_of(event)},
            "eventTime": series.seen_at,
            "type": event.type.value,
            "reason": event.reason,
            "action": event.action,
            "note": event.note,
            "regarding": msgspec.to_builtins(event.regarding),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
        }
        if event.related is not None:
            body["related"] = msgspec.to_builtins(event.related)
        self._submit(name, series, Verb.CREATE, body)

    def _write_count(self, name: str, now: float) -> None:
        series = self._series.get(name)
        if series is None:
            del self._due[name]
        elif series.in_flight:
            self._due[name] = now + IN_FLIGHT_SECONDS
        else:
            del self._due[name]
            body = {"series": {"count": series.count, "lastObservedTime": series.seen_at}}
            self._submit(name, series, Verb.PATCH, body)

    def _submit(self, name: str, series: _Series, verb: Verb, body: dict[str, Any]) -> None:
        series.in_flight = True
        series.write_at = self._clock.monotonic() + COUNT_SECONDS
        write = Write(
            resource_type=EVENTS,
            namespace=_namespace_of(series.event),
            name=name,
            body=body,
            verb=verb,
            lane=Lane.LOW,
        )
        self._writes.submit(write, lambda outcome: self._on_outcome(name, outcome))

    def _on_outcome(self, name: str, outcome: Outcome[Any]) -> None:
        """Receive an outcome on a thread of the dispatcher."""
        self._outcomes.append((name, outcome))
        if not isinstance(outcome, Written):
            self.wake()  # a success needs no action before the next event

    def _settle(self, name: str, outcome: Outcome[Any]) -> None:
        series = self._series.get(name)
        if series is None:
            return
        series.in_flight = False
        match outcome:
            case Written():
                pass
            case Rejected(error=AlreadyExists()):
                # Recorded before a restart. The old count is not read, so the count restarts.
                series.count += 1
                self._due[name] = self._clock.monotonic()
            case Rejected(error=NotFound()) if series.count > 1:
                # The server deletes events after an hour, and this one is still repeated.
                series.count = 1
                self._create(name, series)
            case _:
                # If the event is repeated, it is written anew.
                self.lost += 1
                self._series.forget(name)
                self._due.pop(name, None)


class _Series:
    """The count and state of one event and its repetitions."""

    __slots__ = ("count", "event", "in_flight", "seen_at", "write_at")

    def __init__(self, event: Event, seen_at: Timestamp) -> None:
        self.event = event
        self.seen_at = seen_at
        self.count = 1
        self.in_flight = False
        self.write_at = 0.0
        """When the count may be written again, on the monotonic clock."""


class _Allowance:
    """A token bucket that limits new events about one object."""

    __slots__ = ("_at", "_tokens")

    def __init__(self, now: float) -> None:
        self._at = now
        self._tokens = float(OBJECT_BURST)

    def take(self, now: float) -> bool:
        """Take a token; return whether there was one."""
        grown = self._tokens + (now - self._at) / OBJECT_REFILL_SECONDS
        self._tokens = min(grown, float(OBJECT_BURST))
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


class _Recent(Generic[V]):
    """A dict of limited size that evicts the least recently used item."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[str, V] = OrderedDict()

    def get(self, key: str) -> V | None:
        """Return the value (None if there is none), and mark it as the most recently used."""
        value = self._items.get(key)
        if value is not None:
            self._items.move_to_end(key)
        return value

    def put(self, key: str, value: V) -> str | None:
        """Add a value; return the key that was evicted for it, or None."""
        self._items[key] = value
        return self._items.popitem(last=False)[0] if len(self._items) > self._limit else None

    def forget(self, key: str) -> None:
        """Remove a value."""
        self._items.pop(key, None)


def event_name(event: Event, controller: str) -> str:
    """Return the name of the event, derived from its content: equal events have equal names."""
    said = [controller, event.type.value, event.reason, event.action, event.note]
    for each in (event.regarding, event.related):
        if each is not None:
            said += [each.api_version, each.kind, each.namespace, each.name, each.uid]
    digest = hashlib.sha256("\0".join(said).encode()).hexdigest()[:HASH_CHARS]
    # Names of cluster roles, among others, have characters (colons) that an event's may not have.
    about = _NOT_IN_NAMES.sub("-", event.regarding.name.lower()).strip("-.")
    about = about[: MAX_NAME_CHARS - HASH_CHARS - 1].rstrip("-.")
    return f"{about}.{digest}" if about else digest


def _cut_texts(event: Event) -> Event:
    """Return an event with texts as long as the API takes them.

    Thousands of events wait and are remembered, and a note may repeat what a user has written.
    """
    return msgspec.structs.replace(
        event,
        reason=cut(event.reason, MAX_WORD_BYTES),
        action=cut(event.action, MAX_WORD_BYTES),
        note=cut(event.note, MAX_NOTE_BYTES),
    )


def cut(text: str, limit_bytes: int) -> str:
    """Return the text, truncated to at most `limit_bytes` bytes of UTF-8; never raises."""
    data = text.encode(errors="replace")
    if len(data) <= limit_bytes:
        return text
    ellipsis = "…"
    kept = data[: limit_bytes - len(ellipsis.encode())].decode("utf-8", "ignore")
    return kept + ellipsis


def _namespace_of(event: Event) -> str:
    return event.regarding.namespace or DEFAULT_NAMESPACE
