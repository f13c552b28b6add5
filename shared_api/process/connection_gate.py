"""One listening port: which connections it accepts, for how long, and which it closes first.

    accept --> READING --head complete--> ANSWERING --answer made--> WRITING --sent--> closed
                  |                        (never cut)                  |
                  +--- 2 s, or the oldest when there are too many ------+--- 30 s, or the oldest

Between READING and ANSWERING, a POST to a port that takes bodies is RECEIVING: 10 s, or less when
there are more than `MAX_BODIES` bodies. A port that keeps connections open has them IDLE after
an answer, until the first byte of another request makes them READING again.

A port may put refusals (429) off: they are HELD for that time after ANSWERING, or until their place
is needed, and those of an address are sent one by one (`REFUSALS_PER_SECOND`). A client that asks
with hundreds of connections, and again at each refusal, would keep the port's thread busy with
handshakes.

All socket work happens on one thread, in `step`, and never blocks: a client that sends nothing, or
does not read, costs a descriptor but no thread. A connection counts from the moment it is accepted,
before any TLS handshake. When there are more connections than the port's share, one is closed that
is idle, or whose request is incomplete, after a last check whether it has arrived in the meantime;
if there is none, one that does not read its answer. It is the oldest one of the address that has
most of them, an idle one if it has any. So new connections are read as long as the port has more
places than answers in the making: a client that opens a thousand connections and sends nothing
loses only its own, and a probe that sends its request at once is answered.

Answers that need no waiting are made on that thread; those that may wait for something (the API
server, a lock) are made by the workers of an `AnswerDesk`, which touch no socket.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Final, Protocol

import structlog
from msgspec.structs import replace

from shared_api.process.answer_desk import AnswerDesk, Answerer, make_answer
from shared_api.process.clock import Clock
from shared_api.process.http_chunks import ChunkedBody, is_chunked
from shared_api.process.http_exchange import (
    MAX_HEAD_BYTES,
    Answer,
    BadRequestError,
    Client,
    Request,
    body_length,
    encode,
    head_length,
    is_head_complete,
    read_request,
    text_answer,
)
from shared_api.process.loop_thread import LoopThread, Step
from shared_api.process.victims import NO_DESCRIPTOR, find_victim

HEAD_SECONDS: Final = 2.0
"""Time from the accept to a complete request, TLS handshake included. A kubelet's probe gives up
after 1 s by default; a client that needs longer is not in the cluster."""

BODY_SECONDS: Final = 10.0
"""Time from the head of a request to the end of its body: a mebibyte over a port-forward."""

MAX_BODIES: Final = 16
"""Bodies in memory at once, which bounds what clients without a right can occupy: more than the
debug API's requests that are answered and that wait."""

MAX_DISCARDED: Final = 16_777_216
"""Bytes of a body that is too long, which are read before the refusal is sent: most clients read no
answer before they have sent all."""

ANSWER_SECONDS: Final = 30.0
"""Time in which a client must read the answer: some megabytes over a slow port-forward. Prometheus
gives up a scrape after 10 s by default."""

REFUSAL_SECONDS: Final = 1.0
"""How long a refusal is put off at least: as long as the client is told to wait."""

REFUSALS_PER_SECOND: Final = 20
"""Most refusals that are sent to an address, where they are put off, and so most handshakes of its
clients that come back at once. They were a few hundred at the same moment, for all others to wait
behind."""

MAX_HELD_SECONDS: Final = 10.0
"""Longest time that a refusal is put off, however many there are: most clients wait longer."""

KEPT_SECONDS: Final = 300.0
"""The age at which a connection is closed after its next answer. So clients find a
new replica, and certificates that were changed meanwhile."""

REST_SECONDS: Final = 0.5
"""Longest wait of a step for something to happen, and so the longest delay of a `stop`."""

FULL_REST_SECONDS: Final = 0.05
"""Pause after an accept for which the process had no descriptor left."""

ACCEPTS_PER_STEP: Final = 64
"""Bounds the time until open connections are looked at again."""

RECEIVE_BYTES: Final = 16_384
"""The largest record of TLS."""

log = structlog.get_logger("connection_gate")


class Outcome(Enum):
    """How a connection ended; the values of a metric's label."""

    ANSWERED = "answered"
    """Also one that was kept open for more requests, of which none was on its way."""
    LATE = "late"
    """Its request was not complete, or its answer was not read, in time."""
    EVICTED = "evicted"
    """Its request was not complete, or its answer was not read, and its place was needed."""
    BROKEN = "broken"
    """The client closed it before it was answered, or TLS failed."""
    REFUSED = "refused"
    """No other could be closed for it: all requests were complete and being answered."""


class _Stage(Enum):
    IDLE = "idle"
    READING = "reading"
    RECEIVING = "receiving"
    ANSWERING = "answering"
    HELD = "held"
    WRITING = "writing"


_READ: Final = (_Stage.IDLE, _Stage.READING, _Stage.RECEIVING)
"""Stages in which something is received."""

_TIMED: Final = (*_READ, _Stage.HELD, _Stage.WRITING)
"""Stages that end by themselves after a time."""

Observer = Callable[[Outcome], None]
"""Called on the gate's thread with the outcome of every connection that has ended."""

ReadHead = Callable[[bytes, Client | None], Request]
"""Returns the request of a complete head, or raises BadRequestError."""

Spawn = Callable[[str, Step], LoopThread]
"""Returns a thread that runs a step, not yet started."""


class ServerTls(Protocol):
    """Begins TLS on accepted connections; an `ssl.SSLContext` is one."""

    def wrap_socket(
        self, sock: socket.socket, *, server_side: bool, do_handshake_on_connect: bool
    ) -> ssl.SSLSocket:
        """Return the socket with TLS."""


class _Connection:
    """One accepted socket."""

    __slots__ = (
        "chunks",
        "client",
        "deadline",
        "held",
        "keep_until",
        "length",
        "received",
        "refusal",
        "request",
        "socket",
        "stage",
        "stays_open",
        "unsent",
        "watched",
        "with_body",
    )

    def __init__(self, accepted: socket.socket, client: Client | None, now: float) -> None:
        self.socket = accepted
        self.client = client
        self.stage = _Stage.READING
        self.deadline = now
        self.keep_until = now + KEPT_SECONDS
        self.watched = 0
        """The selector events for which it is registered; 0 when it is not registered."""
        self.begin_request()

    def begin_request(self) -> None:
        """Forget the last request, if any."""
        self.received = bytearray()
        self.request: Request | None = None
        """The request, set once its head is complete."""
        self.length = 0
        """The length of the body in bytes; for one that is discarded, of what is still to come; for
        one in chunks, the longest that there may be."""
        self.chunks: ChunkedBody | None = None
        """The body, if it is sent in chunks."""
        self.refusal: Answer | None = None
        """The answer, once all of a body that is too long has been discarded."""
        self.held: Answer | None = None
        """The answer, while it is put off."""
        self.unsent = memoryview(b"")
        self.with_body = True
        self.stays_open = False
        """Whether another request may follow the answer."""

    def watch(self, selector: selectors.BaseSelector, events: int) -> None:
        """Register it for these events alone; 0 takes it out."""
        if events == self.watched:
            return
        if not events:
            selector.unregister(self.socket)
        elif self.watched:
            selector.modify(self.socket, events, self)
        else:
            selector.register(self.socket, events, self)
        self.watched = events


class _OpenConnections:
    """All connections of a port by stage, in each stage the one first that came to it first."""

    def __init__(self) -> None:
        # Dicts keep the order of insertion.
        self._by_stage: dict[_Stage, dict[_Connection, None]] = {stage: {} for stage in _Stage}

    def __len__(self) -> int:
        return sum(map(len, self._by_stage.values()))

    def __iter__(self) -> Iterator[_Connection]:
        return chain.from_iterable(self._by_stage.values())

    def in_stage(self, stage: _Stage) -> Mapping[_Connection, None]:
        """Return the connections of a stage."""
        return self._by_stage[stage]

    def add(self, connection: _Connection) -> None:
        """Take a new connection, in its stage."""
        self._by_stage[connection.stage][connection] = None

    def move(self, connection: _Connection, stage: _Stage) -> None:
        """Bring a connection to a stage."""
        del self._by_stage[connection.stage][connection]
        connection.stage = stage
        self._by_stage[stage][connection] = None

    def remove(self, connection: _Connection) -> None:
        """Forget a connection, which may never have had a place."""
        self._by_stage[connection.stage].pop(connection, None)

    def firsts(self) -> Iterator[_Connection]:
        """Return of each stage that ends by itself the connection whose time ends first."""
        timed = (open_ for stage in _TIMED if (open_ := self._by_stage[stage]))
        held = self._by_stage[_Stage.HELD]
        # Of those that are held, those of an address with few overtake those of one with many.
        return (
            min(open_, key=_deadline_of) if open_ is held else next(iter(open_)) for open_ in timed
        )

    def find_victim(self) -> _Connection | None:
        """Return the oldest connection of the address that has most; one that is idle, if any.

        Those that are held come first, since nobody loses by it. Those that do not read an answer
        come after all others.
        """
        unread = [each for stage in _READ for each in self._by_stage[stage]]
        held = self._by_stage[_Stage.HELD]
        return find_victim(held or unread or self._by_stage[_Stage.WRITING], _host_of)

    @property
    def bodies(self) -> int:
        """How many bodies are in memory, in whole or in part."""
        held = sum(each.length > 0 for each in self._by_stage[_Stage.ANSWERING])
        return held + len(self._incomplete_bodies())

    def find_body(self) -> _Connection | None:
        """Return the connection whose incomplete body is given up for another one, if any is."""
        return find_victim(self._incomplete_bodies(), _host_of)

    def _incomplete_bodies(self) -> list[_Connection]:
        return [each for each in self._by_stage[_Stage.RECEIVING] if each.refusal is None]


class _Refusals:
    """When refusals are sent: each after a while, and those of an address one by one."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._last: dict[str, float] = {}  # of each address: when its last one is sent

    @property
    def are_put_off(self) -> bool:
        """Whether they are sent later at all."""
        return self._seconds > 0

    def time_of_next(self, host: str) -> float:
        """Return when to send another one to an address, on the monotonic clock."""
        now = self._clock.monotonic()
        in_turn = self._last.pop(host, 0.0) + 1 / REFUSALS_PER_SECOND
        self._last = {each: last for each, last in self._last.items() if last > now}
        self._last[host] = min(max(now + self._seconds, in_turn), now + MAX_HELD_SECONDS)
        return self._last[host]


class ConnectionGate:
    """Serves one port.

    Args:
        listener: Bound and listening; closed by `close`.
        answer: Makes the answers, on the gate's own thread, which suits answers that never wait; or
            the desk whose workers make them.
        limit: Most connections at once, in any state.
        clock: The time, for deadlines.
        tls: The context to serve HTTPS with; None serves HTTP.
        max_body: The longest body of a POST that is received, in bytes; 0: no body is read.
        read_head: Reads the head of a request.
        takes_chunks: Whether a body may be sent in chunks, without its length.
        head_seconds: The time from the accept, or a request's first byte, to a complete request.
        idle_seconds: How long a connection stays open after an answer, longer than its clients keep
            it, which else may send a request just as it is closed; 0: each has one request. What
            `read_head` returns says whether a client wants it.
        refusal_seconds: How long answers 429 are put off at least; 0: not at all.
        observe: Called with the outcome of each connection.
    """

    def __init__(  # noqa: PLR0913 - the settings of a port, each by its name
        self,
        listener: socket.socket,
        answer: Answerer | AnswerDesk,
        *,
        limit: int,
        clock: Clock,
        tls: ServerTls | None = None,
        max_body: int = 0,
        read_head: ReadHead = read_request,
        takes_chunks: bool = False,
        head_seconds: float = HEAD_SECONDS,
        idle_seconds: float = 0.0,
        refusal_seconds: float = 0.0,
        observe: Observer = lambda _: None,
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._limit = limit
        self._clock = clock
        self._tls = tls
        self._max_body = max_body
        self._read_head = read_head
        self._takes_chunks = takes_chunks
        self._head_seconds = head_seconds
        self._idle_seconds = idle_seconds
        self._refusals = _Refusals(refusal_seconds, clock)
        self._observe = observe
        self._open = _OpenConnections()
        # Some threads append and one pops: a deque needs no lock for that.
        self._answered: deque[tuple[_Connection, Answer]] = deque()
        self._alarm, self._bell = socket.socketpair()
        self._has_begun = False
        listener.settimeout(0)
        for each in (self._alarm, self._bell):
            each.settimeout(0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._alarm, selectors.EVENT_READ)

    def threads(self, name: str, spawn: Spawn) -> list[LoopThread]:
        """Return the threads of the gate and of its workers, not yet started."""
        workers = self._answer.threads(name, spawn) if isinstance(self._answer, AnswerDesk) else ()
        return [spawn(f"{name}-server", self.step), *workers]

    def step(self) -> float:
        """Handle what has happened on the sockets; wait for it for at most `REST_SECONDS`."""
        self._has_begun = True
        for key, _ in self._selector.select(self._seconds_to_wait()):
            # Between the events of others: hundreds of handshakes may be waiting in this step.
            self._send_answers()
            if isinstance(key.data, _Connection):
                self._go_on(key.data)
            elif key.fileobj is self._alarm:
                self._take_answers()
        # Last, so that requests that have arrived are read before newcomers evict them.
        rest = self._accept()
        self._end_late()
        if isinstance(self._answer, AnswerDesk):
            self._answer.tick()
        return rest

    def wake(self) -> None:
        """End the wait of a step; callable from any thread."""
        with contextlib.suppress(OSError):  # closed, or full of wake-ups that are not read yet
            self._bell.send(b"!")

    def end(self) -> None:
        """Make a step return soon; a gate that has never run a step closes everything at once."""
        if self._has_begun:
            self.wake()
        else:
            self.close()

    def close(self) -> None:
        """Close the port and all connections; after the thread that calls `step` has ended."""
        for connection in list(self._open):
            self._drop(connection)
        self._selector.close()
        for each in (self._listener, self._alarm, self._bell):
            each.close()

    # ------------------------------------------------------------------------ accepting

    def _seconds_to_wait(self) -> float:
        if self._answered:
            return 0.0
        now = self._clock.monotonic()
        rests = (each.deadline - now for each in self._open.firsts())
        return max(0.0, min((REST_SECONDS, *rests)))

    def _accept(self) -> float:
        """Accept waiting connections; return the seconds to rest if descriptors are missing."""
        for _ in range(ACCEPTS_PER_STEP):
            try:
                accepted, address = self._listener.accept()
            except BlockingIOError:
                return 0.0
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    continue  # the client has already closed it
                log.warning("no descriptor for a connection", error=str(error))
                self._make_room(1)
                return FULL_REST_SECONDS
            self._let_in(accepted, address[:2] if address else None)
            self._send_answers()
        return 0.0

    def _let_in(self, accepted: socket.socket, client: Client | None) -> None:
        """Give a new connection a place, and read its request, which usually is there already."""
        accepted.settimeout(0)
        connection = _Connection(accepted, client, self._clock.monotonic())
        connection.deadline += self._head_seconds
        self._make_room(1 + len(self._open) - self._limit)
        if len(self._open) >= self._limit:
            self._end(connection, Outcome.REFUSED)
            return
        self._open.add(connection)
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection.socket = self._tls.wrap_socket(
                    accepted, server_side=True, do_handshake_on_connect=False
                )
        except OSError:  # the client has closed it meanwhile, or does not speak TLS
            self._end(connection, Outcome.BROKEN)
            return
        self._go_on(connection)

    def _make_room(self, places: int) -> None:
        """Close `places` connections of those that wait for the client."""
        until = len(self._open) - places
        while len(self._open) > until:
            victim = self._open.find_victim()
            if victim is None:
                return
            stage = victim.stage
            self._go_on(victim)  # a last check: its request may have arrived
            if victim in self._open.in_stage(stage) and len(self._open) > until:
                self._end(victim, Outcome.EVICTED)

    def _end_late(self) -> None:
        now = self._clock.monotonic()
        while late := [each for each in self._open.firsts() if each.deadline <= now]:
            for each in late:
                if each.held is not None:
                    self._go_on(each)
                else:
                    self._end(each, Outcome.LATE)

    # ------------------------------------------------------------------- stages of a connection

    def _go_on(self, connection: _Connection) -> None:
        """Read or write as much as is possible without waiting, then watch for more."""
        if connection not in self._open.in_stage(connection.stage):
            return  # another event of the same step has ended it
        try:
            if connection.held is not None:
                self._reply(connection, connection.held)
            if connection.stage in _READ:
                self._read(connection)
            if connection.stage is _Stage.WRITING:
                self._write(connection)
        except ssl.SSLWantWriteError:
            connection.watch(self._selector, selectors.EVENT_WRITE)
        except (ssl.SSLWantReadError, BlockingIOError):
            is_writing = connection.stage is _Stage.WRITING and self._tls is None
            connection.watch(
                self._selector, selectors.EVENT_WRITE if is_writing else selectors.EVENT_READ
            )
        except OSError as error:  # ssl.SSLError is one
            log.debug("connection failed", error=repr(error))
            self._end(connection, Outcome.BROKEN)
        except Exception:  # whatever a client sends fails its own connection, and not the port
            log.exception("connection failed", client=connection.client)
            self._end(connection, Outcome.BROKEN)

    def _read(self, connection: _Connection) -> None:
        """Receive what has arrived until the request is complete, after a TLS handshake if any."""
        while connection.stage in _READ:
            piece = connection.socket.recv(RECEIVE_BYTES)
            if not piece:
                self._end(connection, Outcome.BROKEN)
                return
            if connection.stage is _Stage.IDLE:
                connection.deadline = self._clock.monotonic() + self._head_seconds
                self._open.move(connection, _Stage.READING)
            connection.received += piece
            if connection.stage is _Stage.RECEIVING:
                self._take_body(connection)
            elif is_head_complete(connection.received):
                self._take_head(connection)
            elif len(connection.received) > MAX_HEAD_BYTES:
                self._reply(connection, text_answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))

    def _take_head(self, connection: _Connection) -> None:
        try:
            request = self._read_head(bytes(connection.received), connection.client)
            length = self._body_length(connection, request)
        except BadRequestError as bad:
            self._reply(connection, bad.answer)
            return
        if isinstance(connection.socket, ssl.SSLSocket):
            certificate = connection.socket.getpeercert(binary_form=True) or b""
            request = replace(request, certificate=certificate)
        connection.request, connection.length = request, length
        connection.with_body = request.method != "HEAD"
        if length:
            self._receive_body(connection)
            return
        is_alone = len(connection.received) == head_length(connection.received)
        self._ask(connection, request, is_alone=is_alone and not _states_body(request))

    def _body_length(self, connection: _Connection, request: Request) -> int:
        if not self._max_body:
            return 0
        if self._takes_chunks and is_chunked(request):
            connection.chunks = ChunkedBody(self._max_body)
            return self._max_body
        return body_length(request)

    def _receive_body(self, connection: _Connection) -> None:
        """Begin to receive a body, whose first bytes may have come with the head."""
        length = connection.length
        if length > self._max_body:
            detail = f"a body may have at most {self._max_body} bytes"
            connection.refusal = text_answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
        elif not self._has_place_for_body():
            connection.refusal = _BUSY
        # Of a body in chunks nobody knows how much there would be to discard.
        is_endless = length > MAX_DISCARDED or connection.chunks is not None
        if connection.refusal is not None and is_endless:
            self._reply(connection, connection.refusal)
            return
        del connection.received[: head_length(connection.received)]
        connection.deadline = self._clock.monotonic() + BODY_SECONDS
        self._open.move(connection, _Stage.RECEIVING)
        self._take_body(connection)

    def _has_place_for_body(self) -> bool:
        """Return whether one more body may be received; an incomplete one makes place for it."""
        if self._open.bodies < MAX_BODIES:
            return True
        victim = self._open.find_body()
        if victim is None:
            return False
        self._end(victim, Outcome.EVICTED)
        return True

    def _take_body(self, connection: _Connection) -> None:
        """Ask once the whole body has arrived; of one that is refused, keep nothing."""
        received, length = connection.received, connection.length
        if connection.refusal is not None:
            connection.length -= len(received)
            received.clear()
            if connection.length <= 0:
                self._reply(connection, connection.refusal)
        elif connection.chunks is not None:
            self._take_chunks(connection, connection.chunks)
        elif connection.request is not None and len(received) >= length:
            request = replace(connection.request, body=bytes(received[:length]))
            self._ask(connection, request, is_alone=len(received) == length)

    def _take_chunks(self, connection: _Connection, chunks: ChunkedBody) -> None:
        piece = bytes(connection.received)
        connection.received.clear()
        try:
            is_complete = chunks.take(piece)
        except BadRequestError as bad:
            self._reply(connection, bad.answer)
            return
        if is_complete and connection.request is not None:
            request = replace(connection.request, body=bytes(chunks.content))
            self._ask(connection, request, is_alone=False)

    def _ask(self, connection: _Connection, request: Request, *, is_alone: bool) -> None:
        """Have a request answered.

        Args:
            connection: Where it came from.
            request: The request.
            is_alone: Whether nothing has followed it yet, and no part of it is still to come: what
                was received already is never another request.
        """
        wants_more = request.keep_alive and is_alone and self._idle_seconds > 0
        connection.stays_open = wants_more and self._clock.monotonic() < connection.keep_until
        connection.received.clear()
        if not isinstance(self._answer, AnswerDesk):
            self._reply(connection, make_answer(self._answer, request))
            return
        self._open.move(connection, _Stage.ANSWERING)
        connection.watch(self._selector, 0)
        self._answer.ask(request, partial(self._note_answer, connection))

    def _note_answer(self, connection: _Connection, answer: Answer) -> None:
        """Take an answer from any thread; this one sends it."""
        self._answered.append((connection, answer))
        self.wake()

    def _take_answers(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._alarm.recv(RECEIVE_BYTES):
                pass
        self._send_answers()

    def _send_answers(self) -> None:
        while self._answered:
            connection, answer = self._answered.popleft()
            if answer.status == HTTPStatus.TOO_MANY_REQUESTS and self._refusals.are_put_off:
                connection.held = answer
                connection.deadline = self._refusals.time_of_next(_host_of(connection))
                self._open.move(connection, _Stage.HELD)
                continue
            self._reply(connection, answer)
            self._go_on(connection)

    def _reply(self, connection: _Connection, answer: Answer) -> None:
        encoded = encode(
            answer,
            self._clock.now(),
            with_body=connection.with_body,
            keep_alive=connection.stays_open,
        )
        connection.held, connection.unsent = None, memoryview(encoded)
        connection.deadline = self._clock.monotonic() + ANSWER_SECONDS
        self._open.move(connection, _Stage.WRITING)

    def _write(self, connection: _Connection) -> None:
        while connection.unsent:
            sent = connection.socket.send(connection.unsent)
            connection.unsent = connection.unsent[sent:]
        if not connection.stays_open:
            self._end(connection, Outcome.ANSWERED)
            return
        connection.begin_request()
        connection.deadline = self._clock.monotonic() + self._idle_seconds
        self._open.move(connection, _Stage.IDLE)
        connection.watch(self._selector, selectors.EVENT_READ)

    # -------------------------------------------------------------------------- closing

    def _end(self, connection: _Connection, outcome: Outcome) -> None:
        if connection.stage is _Stage.IDLE:
            outcome = Outcome.ANSWERED  # each of its requests, whoever ends it
        self._observe(outcome)
        if outcome is Outcome.ANSWERED:
            _close_gracefully(connection.socket)
        elif outcome is not Outcome.BROKEN:
            # A reset, so that a client that keeps us waiting occupies no kernel memory either.
            with contextlib.suppress(OSError):
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self._open.remove(connection)
        connection.watch(self._selector, 0)
        connection.socket.close()


def _states_body(request: Request) -> bool:
    """Return whether a request says that a body follows, which is not read."""
    return "transfer-encoding" in request.headers or (
        request.headers.get("content-length", "0") != "0"
    )


def _deadline_of(connection: _Connection) -> float:
    return connection.deadline


_BUSY: Final = text_answer(HTTPStatus.SERVICE_UNAVAILABLE, "many requests; ask again")


def _host_of(connection: _Connection) -> str:
    return connection.client[0] if connection.client else ""


_NO_LINGER: Final = struct.pack("ii", 1, 0)
"""SO_LINGER, on, with a time of zero: closing resets the connection."""


def _close_gracefully(connection: socket.socket) -> None:
    """End our side of a connection, and read what the client sent after the request.

    Closing a socket with unread bytes resets the connection, and the answer may be lost with it.
    """
    with contextlib.suppress(OSError):  # for one, the client has not ended its side of TLS yet
        if isinstance(connection, ssl.SSLSocket):
            connection.unwrap()
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        connection.recv(RECEIVE_BYTES)
