"""Takes writes as values at once; workers send them, one at a time per object.

    submit ──► waiting ──► in flight ──► outcome, reported once to the submitter
                  │
                  ├─ a newer patch of the same object and lane: the two are merged, except
                  │  decisions on one version that contradict each other
                  ├─ a low one beside a normal one: the low one is dropped (it is outdated)
                  └─ stop, or too little time of the lease left: dropped

The guarantees and their reasons:

- *One in flight per object.* Two patches in flight at once could be applied in either order.
- *A guard stays as its author set it.* A patch that waited for another write of this process keeps
  the version that it was based on, and may therefore end in a conflict: its author has seen the
  newer version in the meantime, and may have changed the decision.
- *Normal before low.* A worker takes a low write only if no normal one waits, and only some
  workers may be busy with low ones, so the low lane's slower rate never delays the normal lane.
- *Nothing is sent that could outlive the lease.* Before each send, at least the time that a write
  may take with all its tries (`WRITE_SECONDS`) must be left of the lease.
- *Nothing is sent after `stop` has returned True.*

A write is dropped only when the server certainly has not acted on it.

What a write or its report raises is logged and counted, and the worker goes on: an object at which
the program fails must not keep the writes of others waiting.

Model: kube-scheduler's `backend/api_dispatcher`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import structlog

from shared_api.client.errors import ApiFailure
from shared_api.client.flow_control import FlowControl, Lane
from shared_api.client.resource_client import WRITE_SECONDS, ResourceType
from shared_api.client.writes import (
    Dropped,
    Outcome,
    Rejected,
    Unknown,
    Verb,
    Write,
    Written,
    is_pointless_beside,
    merge,
    outcome_of,
    supersedes,
)

if TYPE_CHECKING:
    from shared_api.objects.meta import Uid
    from shared_api.process.clock import Clock

__all__ = [
    "Dropped",
    "Lane",
    "Outcome",
    "Rejected",
    "Unknown",
    "Verb",
    "Write",
    "WriteClient",
    "WriteDispatcher",
    "WriteWorker",
    "Written",
]

T = TypeVar("T")

WORKERS: Final = 12
"""Writes in flight at once; 8 to 16 saturate an API server with two cores, more gain nothing."""
MAX_OUTSTANDING: Final = 200
"""Normal writes without an outcome from which `has_room` returns False. A decision in this state is
charged and unconfirmed: a crash or a lost lease must not leave thousands of them."""
ROOM_AGAIN: Final = 150
"""Outstanding writes at which `has_room` returns True again. The gap keeps waiting callers from
being woken for a single place."""
MAX_WAITING_LOW: Final = 10_000
"""Most low writes that wait, some 50 MB; further ones are dropped."""
LOW_WORKERS_SHARE: Final = 4
"""One in this many workers may be busy with the low lane."""


class WriteClient(Protocol):
    """The part of `ResourceClient` that the dispatcher uses."""

    def create(
        self, resource_type: ResourceType[T], namespace: str, body: Mapping[str, Any], *, lane: Lane
    ) -> T:
        """Create an object."""

    def patch(
        self,
        resource_type: ResourceType[T],
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str,
        lane: Lane,
    ) -> T:
        """Apply a merge patch to an object."""

    def delete(
        self,
        resource_type: ResourceType[T],
        namespace: str,
        name: str,
        *,
        uid: Uid | None,
        lane: Lane,
    ) -> None:
        """Delete an object."""


MAX_SHOWN: Final = 200
"""Characters that are logged of an outcome."""

log = structlog.get_logger("write_dispatcher")

OnOutcome = Callable[[Outcome[Any]], None]
_Key = tuple[str, str, str, str]


class _Pending:
    """A write that waits or is in flight, with the callbacks for its outcome."""

    __slots__ = ("callbacks", "write")

    def __init__(self, write: Write[Any], callbacks: list[OnOutcome]) -> None:
        self.write = write
        self.callbacks = callbacks


class _Object:
    """The writes of one object."""

    __slots__ = ("in_flight", "queued", "waiting")

    def __init__(self) -> None:
        self.in_flight: _Pending | None = None
        self.waiting: deque[_Pending] = deque()
        self.queued: Lane | None = None
        """The lane of the ready queue that it is in; an entry in the other one is stale."""


class WriteDispatcher:
    """Takes writes from any thread; `WriteWorker.step` sends them."""

    def __init__(
        self,
        client: WriteClient,
        *,
        flow: FlowControl,
        clock: Clock,
        writable_seconds: Callable[[], float],
        on_room: Callable[[], None] = lambda: None,
        on_error: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """Make a dispatcher without workers.

        Args:
            client: Sends the writes.
            flow: The flow control of the client; asked whether the low lane may send.
            clock: The time, for `stop`.
            writable_seconds: Returns how many seconds a write that begins now may take
                (`leader_election`); infinite without an election. Called before each send.
            on_room: Called on a worker's thread when `has_room` becomes True again.
            on_error: Called with each exception of a write or of a report, for a metric.
        """
        self._client = client
        self._flow = flow
        self._clock = clock
        self._writable_seconds = writable_seconds
        self._on_room = on_room
        self._on_error = on_error
        self._workers = 0
        self._settled = threading.Event()
        # Guards all fields below. No write is sent, no callback called and no worker woken while it
        # is held.
        self._lock = threading.Lock()
        self._objects: dict[_Key, _Object] = {}
        self._ready: dict[Lane, deque[_Key]] = {Lane.NORMAL: deque(), Lane.LOW: deque()}
        self._in_flight = {Lane.NORMAL: 0, Lane.LOW: 0}
        self._waiting = {Lane.NORMAL: 0, Lane.LOW: 0}
        self._resting: dict[WriteWorker, None] = {}  # the last to rest is woken first
        self._full = False
        self._stopped = False

    # ---------------------------------------------------------------------- from any thread

    def submit(self, write: Write[Any], on_outcome: OnOutcome) -> None:
        """Send a write later; `on_outcome` is called exactly once with its outcome.

        It is called on a worker's thread, or on this one if the write is dropped at once. It must
        not block: a worker waits for it, and so does the next write of the object.
        """
        dropped: list[OnOutcome] = []
        reason = "superseded by a write that matters more"
        worker = None
        with self._lock:
            if self._stopped:
                dropped, reason = [on_outcome], "writing has ended"
            elif write.lane is Lane.LOW and self._waiting[Lane.LOW] >= MAX_WAITING_LOW:
                dropped, reason = [on_outcome], "too many writes of the low lane wait"
            else:
                dropped = self._add(_Pending(write, [on_outcome]))
                self._full = self._full or self._outstanding() >= MAX_OUTSTANDING
                worker = self._resting.popitem()[0] if self._resting else None
        if worker is not None:
            worker.wake()
        self._report(dropped, Dropped(reason))

    def has_room(self) -> bool:
        """Return whether more normal writes should be submitted now; takes no lock."""
        return not self._full

    def counts(self) -> tuple[int, int, int]:
        """Return how many writes wait in the normal lane, wait in the low lane, are in flight."""
        with self._lock:
            waiting = self._waiting
            return waiting[Lane.NORMAL], waiting[Lane.LOW], sum(self._in_flight.values())

    def stop(self, wait_seconds: float = WRITE_SECONDS + 1.0) -> bool:
        """Send no more writes: drop those that wait, and wait for those in flight.

        Returns whether none is in flight any more: from then on this process writes nothing.
        """
        with self._lock:
            self._stopped = True
            dropped = [call for each in self._objects.values() for call in _all_callbacks(each)]
            self._objects = {key: o for key, o in self._objects.items() if o.in_flight}
            for each in self._objects.values():
                each.waiting.clear()
            for lane in Lane:
                self._ready[lane].clear()
                self._waiting[lane] = 0
            if not any(self._in_flight.values()):
                self._settled.set()
        self._report(dropped, Dropped("writing has ended"))
        return self._clock.wait(self._settled, wait_seconds)

    def new_worker(self) -> WriteWorker:
        """Return one more worker, for a thread of its own."""
        self._workers += 1
        return WriteWorker(self._step)

    def validate(self) -> None:
        """Check the invariants; for tests."""
        with self._lock:
            for key, each in self._objects.items():
                assert each.in_flight or each.waiting, f"{key} is kept without need"
                ready = bool(each.waiting) and each.in_flight is None
                assert ready == (each.queued is not None), f"{key} is {each.queued}"
                assert each.queued is None or key in self._ready[each.queued], f"{key} is lost"
            waiting = [p.write.lane for each in self._objects.values() for p in each.waiting]
            flying = [o.in_flight.write.lane for o in self._objects.values() if o.in_flight]
            for lane in Lane:
                assert self._waiting[lane] == waiting.count(lane), f"{lane}: waiting"
                assert self._in_flight[lane] == flying.count(lane), f"{lane}: in flight"

    # ------------------------------------------------------------------------- the workers

    def _step(self, worker: WriteWorker) -> float | None:
        with self._lock:
            self._resting.pop(worker, None)  # its rest may have ended without a wake
            taken, rest = self._take()
            if taken is None:
                self._resting[worker] = None
                return rest
        key, pending = taken
        outcome: Outcome[Any] = Unknown(ApiFailure("the write ended by an error of this program"))
        try:
            outcome = self._send(pending.write)
        except Exception as error:  # noqa: BLE001 - the worker goes on with the writes of others
            self._note_error(error, pending.write.name)
        finally:
            # Reported before the object's next write can be taken, so that outcomes are reported in
            # the order of the writes.
            try:
                self._report(pending.callbacks, outcome)
            finally:
                self._finish(key, pending, outcome)
        return 0.0

    def _report(self, callbacks: list[OnOutcome], outcome: Outcome[Any]) -> None:
        """Call all callbacks, even if one raises: the others may be about other objects."""
        for on_outcome in callbacks:
            try:
                on_outcome(outcome)
            except Exception as error:  # noqa: BLE001 - as above
                self._note_error(error, str(outcome))

    def _note_error(self, error: Exception, about: str) -> None:
        log.error("a write failed in this program", about=about[:MAX_SHOWN], exc_info=error)
        self._on_error(error)

    def _send(self, write: Write[Any]) -> Outcome[Any]:
        if self._writable_seconds() < WRITE_SECONDS:
            return Dropped("this process does not lead, or not for long enough")
        kind, namespace, name = write.resource_type, write.namespace, write.name
        try:
            match write.verb:
                case Verb.CREATE:
                    made = self._client.create(kind, namespace, write.body, lane=write.lane)
                    return Written(made)
                case Verb.PATCH:
                    patched = self._client.patch(
                        kind,
                        namespace,
                        name,
                        write.body,
                        subresource=write.subresource,
                        lane=write.lane,
                    )
                    return Written(patched)
                case Verb.DELETE:
                    self._client.delete(kind, namespace, name, uid=write.uid, lane=write.lane)
                    return Written(None)
        except ApiFailure as failure:
            return outcome_of(failure)

    # ------------------------------------------------------------------- with the lock held

    def _add(self, new: _Pending) -> list[OnOutcome]:
        """Queue a write; return the callbacks of the writes that were dropped for it."""
        key = _key_of(new.write)
        each = self._objects.get(key)
        if each is None:
            each = self._objects[key] = _Object()
        dropped: list[OnOutcome] = []
        if any(is_pointless_beside(new.write, old.write) for old in each.waiting):
            return new.callbacks
        for old in [old for old in each.waiting if supersedes(new.write, old.write)]:
            each.waiting.remove(old)
            self._waiting[old.write.lane] -= 1
            dropped.extend(old.callbacks)
        last = each.waiting[-1] if each.waiting else None
        merged = merge(last.write, new.write) if last is not None else None
        if last is not None and merged is not None:
            last.write = merged
            last.callbacks.extend(new.callbacks)
        else:
            each.waiting.append(new)
            self._waiting[new.write.lane] += 1
        self._make_ready(key, each)
        return dropped

    def _make_ready(self, key: _Key, each: _Object) -> None:
        """Put an object without a write in flight into the ready queue of its most urgent write."""
        if each.in_flight is not None:
            return
        if not each.waiting:
            each.queued = None
            del self._objects[key]
            return
        urgent = any(pending.write.lane is Lane.NORMAL for pending in each.waiting)
        lane = Lane.NORMAL if urgent else Lane.LOW
        if each.queued is not lane:
            each.queued = lane
            self._ready[lane].append(key)

    def _take(self) -> tuple[tuple[_Key, _Pending] | None, float | None]:
        """Return the next write, the seconds until there may be one, or None to wait for a wake."""
        key = self._next_key(Lane.NORMAL)
        if key is None and self._ready[Lane.LOW]:
            if self._in_flight[Lane.LOW] >= max(1, self._workers // LOW_WORKERS_SHARE):
                return None, None  # the worker that finishes one of them takes the next
            pause = self._flow.seconds_until(Lane.LOW)
            if pause > 0:
                return None, pause
            key = self._next_key(Lane.LOW)
        if key is None:
            return None, None
        each = self._objects[key]
        each.queued = None
        pending = each.waiting.popleft()
        each.in_flight = pending
        self._waiting[pending.write.lane] -= 1
        self._in_flight[pending.write.lane] += 1
        return (key, pending), None

    def _next_key(self, lane: Lane) -> _Key | None:
        ready = self._ready[lane]
        while ready:
            key = ready.popleft()
            each = self._objects.get(key)
            if each is not None and each.queued is lane and each.waiting:
                return key
        return None

    def _outstanding(self) -> int:
        return self._waiting[Lane.NORMAL] + self._in_flight[Lane.NORMAL]

    # --------------------------------------------------------------------- after the write

    def _finish(self, key: _Key, pending: _Pending, outcome: Outcome[Any]) -> None:
        with self._lock:
            each = self._objects[key]
            each.in_flight = None
            self._in_flight[pending.write.lane] -= 1
            self._make_ready(key, each)
            if self._stopped and not any(self._in_flight.values()):
                self._settled.set()
            room_again = self._full and self._outstanding() <= ROOM_AGAIN
            if room_again:
                self._full = False
        if room_again:
            self._on_room()


class WriteWorker:
    """Sends writes one after the other; `step` is for a `LoopThread`, whose `wake` is set here."""

    def __init__(self, step: Callable[[WriteWorker], float | None]) -> None:
        self._step = step
        self.wake: Callable[[], None] = lambda: None
        """Called from any thread when there is something to send."""

    def step(self) -> float | None:
        """Send one write and report its outcome; return the seconds to rest, None until woken."""
        return self._step(self)


def _key_of(write: Write[Any]) -> _Key:
    kind = write.resource_type
    return (kind.group, kind.plural, write.namespace, write.name)


def _all_callbacks(each: _Object) -> list[OnOutcome]:
    return [call for pending in each.waiting for call in pending.callbacks]
