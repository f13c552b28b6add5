"""An API server in memory: `FakeApiServer`, a `Transport` that answers requests itself.

In process:

    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(7))
    server.direct.create(queue_unit_body("a"))     # set up, without faults
    client = ResourceClient(server, ...)           # the code under test

Over real HTTP on loopback, for the demo, kubectl and curl:

    server = FakeApiServer(clock=SystemClock(), rng=random.Random(7), waits=True)
    with server.serve_http(port=0) as face:
        print(face.url)

Determinism: with `waits=False` (the default), no call waits and no time passes except for the
delays that a test asks for. The same calls in the same order with the same seed give the same
answers, including uids and versions. Watch streams hold lines until they are read, and `read_line`
raises `StreamIdle` at once if there are none (see `watch_stream`); `watches.unread_lines` counts
the lines that are left. With `waits=True`, readers wait on the clock.

The conformance suite, which also runs against a real server, covers what is imitated. Known
differences: no managedFields and no server-side apply (415); built-in kinds have no schema; CEL
rules and admission webhooks are not evaluated; no protobuf; no authentication and no authorization;
a CRD is served at once; garbage is collected at once; the very first write to an object whose
status is defaulted is a no-op here if it changes nothing (the real server then stores the default,
in a new version).
"""

from __future__ import annotations

import random
import re
import threading
from collections import Counter, deque
from http import HTTPStatus
from typing import Final

import msgspec

from shared_api.client.errors import ConnectionLost, Timeout
from shared_api.client.transport import Request, Response
from shared_api.fake_api_server.access_reviews import AccessReviews
from shared_api.fake_api_server.api_errors import RequestFailed
from shared_api.fake_api_server.builtin_kinds import STANDARD_NAMESPACES, builtin_kinds
from shared_api.fake_api_server.direct_access import DirectAccess
from shared_api.fake_api_server.faults import Fault, Faults, RequestInfo
from shared_api.fake_api_server.garbage_collector import GarbageCollector
from shared_api.fake_api_server.http_server import HttpFace
from shared_api.fake_api_server.list_and_watch import ReadPath
from shared_api.fake_api_server.object_storage import HISTORY_CHANGES, ChangeObserver, ObjectStorage
from shared_api.fake_api_server.open_watches import OpenWatches
from shared_api.fake_api_server.request_router import (
    ParsedRequest,
    RequestRouter,
    refusal,
    take_apart,
)
from shared_api.fake_api_server.resource_registry import ResourceRegistry
from shared_api.fake_api_server.watch_stream import FakeStream, StreamPlan
from shared_api.fake_api_server.writes import WritePath
from shared_api.process.clock import Clock

BOOKMARK_SECONDS: Final = 60.0
"""Seconds between bookmarks; the real server sends one about every minute."""
JOURNAL_LENGTH: Final = 10_000
_NO_FAULT: Final = Fault()
_TIMEOUT: Final = re.compile(r"^(\d+(?:\.\d+)?)(ms|s|m)$")
_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}


class JournalEntry(msgspec.Struct, frozen=True):
    """One answered request."""

    info: RequestInfo
    status: int


class FakeApiServer:
    """A `Transport` that answers requests from memory; safe to use from many threads.

    Attributes:
        faults: failures to inject into requests.
        watches: the open watches, to break, end or stall.
        reviews: the answers to TokenReview and SubjectAccessReview.
        direct: reads and writes to set up and check a test, without faults and journal.
        journal: the last requests, in order.
        counts: the number of requests by (verb, plural, subresource).
    """

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        waits: bool = False,
        history_changes: int = HISTORY_CHANGES,
        bookmark_seconds: float = BOOKMARK_SECONDS,
        collects_garbage: bool = True,
    ) -> None:
        """Create a server with only the standard namespaces.

        Args:
            clock: the source of all time: timestamps, ends of watches, bookmarks, delays.
            rng: the source of all randomness: uids, generated names, faults with a probability.
            waits: whether readers of a watch without news wait on the clock.
            history_changes: the number of changes kept per kind; older versions get 410.
            bookmark_seconds: the interval between the bookmarks of a watch.
            collects_garbage: whether garbage is collected after each write; if False, only by
                `collect_garbage`.
        """
        # Guards everything below; re-entrant, since a change may end a stream, which calls back.
        self._lock = threading.RLock()
        self._clock = clock
        self._storage = ObjectStorage(history_changes=history_changes)
        self._registry = ResourceRegistry()
        for resource in builtin_kinds():
            self._registry.add(resource)
        writes = WritePath(self._storage, clock, rng)
        reads = ReadPath(self._storage, clock, rng, waits=waits, bookmark_seconds=bookmark_seconds)
        self._router = RequestRouter(self._storage, self._registry, writes, reads, clock)
        self._collector = GarbageCollector(self._storage, self._registry, writes)
        self._collects_garbage = collects_garbage
        self._is_down = False
        self._is_closed = False
        self.faults = Faults(rng)
        self.watches = OpenWatches(self._lock)
        self.direct = DirectAccess(self._answer_directly, self._registry)
        self.journal: deque[JournalEntry] = deque(maxlen=JOURNAL_LENGTH)
        self.counts: Counter[tuple[str, str, str]] = Counter()
        for name in STANDARD_NAMESPACES:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.direct.create(body)

    @property
    def reviews(self) -> AccessReviews:
        """The answers to TokenReview and SubjectAccessReview."""
        return self._router.reviews

    @property
    def resource_version(self) -> int:
        """The newest version of any object."""
        with self._lock:
            return self._storage.version

    # ------------------------------------------------------------------- Transport

    def send(self, request: Request, timeout_seconds: float) -> Response:
        """Answer a request; see `Transport.send`.

        Raises:
            Timeout: A delay is longer than the timeout.
            ConnectionLost: A fault breaks the connection, or the server is down.
        """
        parsed = take_apart(request)
        fault = self._take_fault(parsed.info)
        response = self._suffer(fault, parsed.query.get("timeout", ""), timeout_seconds)
        if response is not None:
            self._note(parsed.info, response.status)
            return response
        response = self._carry_out(parsed)
        self._note(parsed.info, response.status)
        if fault.delay_seconds >= timeout_seconds:
            raise Timeout(f"no answer within {timeout_seconds} s", sent=True)
        if fault.loses_answer:
            raise ConnectionLost("the connection broke before the answer", sent=True)
        return response

    def stream(self, request: Request, timeout_seconds: float) -> FakeStream:
        """Open a watch, or return any other answer as one line; see `Transport.stream`.

        Raises:
            Timeout: A delay is longer than the timeout.
            ConnectionLost: A fault breaks the connection, or the server is down.
        """
        parsed = take_apart(request)
        if parsed.info.verb != "watch":
            return self._as_stream(parsed.info, self.send(request, timeout_seconds))
        fault = self._take_fault(parsed.info)
        response = self._suffer(fault, "", timeout_seconds)
        if response is not None:
            self._note(parsed.info, response.status)
            return self._as_stream(parsed.info, response)
        if fault.delay_seconds >= timeout_seconds:
            raise Timeout(f"no answer within {timeout_seconds} s", sent=True)
        with self._lock:
            try:
                stream = self._router.open_watch(parsed, self.watches.forget)
            except RequestFailed as refused:
                stream = self._as_stream(parsed.info, refusal(refused))
            if stream.is_open:
                self.watches.add(stream)
            self._note(parsed.info, stream.status)
        return stream

    def close(self) -> None:
        """End all watches; later requests raise ConnectionLost."""
        with self._lock:
            self._is_closed = True
        self.watches.drop()

    def serve_http(self, *, host: str = "127.0.0.1", port: int = 0) -> HttpFace:
        """Return an HTTP server for this, to be started or entered; port 0 chooses a free port."""
        return HttpFace(self, host=host, port=port)

    def add_observer(self, observer: ChangeObserver) -> None:
        """Call `observer` with every change of any kind, in order, before its request is answered.

        It must not raise: it is called in the middle of the write.
        """
        with self._lock:
            self._storage.observers.append(observer)

    # -------------------------------------------------- what a test does to the server

    def go_down(self) -> None:
        """Break every watch and refuse every connection until `come_up`."""
        with self._lock:
            self._is_down = True
        self.watches.drop()

    def come_up(self) -> None:
        """Serve again, with all objects."""
        with self._lock:
            self._is_down = False

    def compact(self, plural: str | None = None) -> None:
        """Forget the history, of one kind or all: watches and lists of older versions get 410."""
        with self._lock:
            for key, table in self._storage.tables.items():
                if plural is None or key[1] == plural:
                    table.forget_history(self._storage.version)

    def collect_garbage(self) -> None:
        """Delete objects whose owners are deleted; for a server with `collects_garbage=False`."""
        with self._lock:
            self._collector.collect()

    # -------------------------------------------------------------------------- private

    def _answer_directly(self, request: Request) -> Response:
        return self._carry_out(take_apart(request))

    def _carry_out(self, parsed: ParsedRequest) -> Response:
        with self._lock:
            response = self._router.answer(parsed)
            if self._collects_garbage and self._collector.has_work:
                self._collector.collect()
            return response

    def _take_fault(self, info: RequestInfo) -> Fault:
        with self._lock:
            if self._is_down or self._is_closed:
                raise ConnectionLost("connection refused", sent=False)
            return self.faults.take(info) or _NO_FAULT

    def _suffer(self, fault: Fault, server_timeout: str, timeout_seconds: float) -> Response | None:
        """Apply a fault; return its answer, if it has one."""
        if fault.loses_request:
            raise ConnectionLost("the connection broke before the request", sent=False)
        if fault.delay_seconds:
            gives_up = _seconds(server_timeout)
            self._clock.sleep(min(fault.delay_seconds, timeout_seconds, gives_up))
            # The server gives up first, so it has written nothing.
            if gives_up < min(fault.delay_seconds, timeout_seconds):
                return refusal(
                    RequestFailed(
                        HTTPStatus.GATEWAY_TIMEOUT,
                        "Timeout",
                        "Timeout: request did not complete within the allotted timeout",
                    )
                )
        return None if fault.failure is None else refusal(fault.failure)

    def _note(self, info: RequestInfo, status: int) -> None:
        with self._lock:
            self.journal.append(JournalEntry(info, status))
            self.counts[info.verb, info.plural, info.subresource] += 1

    def _as_stream(self, info: RequestInfo, response: Response) -> FakeStream:
        plan = StreamPlan(status=response.status, headers=response.headers)
        stream = FakeStream(info, self._clock, plan)
        stream.push(response.body)
        stream.end()
        return stream


def _seconds(duration: str) -> float:
    """Return the seconds of a Go duration (the `timeout` parameter); infinite for ""."""
    found = _TIMEOUT.match(duration)
    return float(found[1]) * _UNIT_SECONDS[found[2]] if found else float("inf")
