"""Accepts TLS connections. Handshakes that are not finished have a bounded number of places.

    accept --> SILENT --its first byte--> READY --a place--> handshake --finished--> the protocol
                 5 s, or too many           5 s, or too many     5 s, or 1 s if its place is needed

The server of the framework's loop bounds them by time only: a client that opens connections and
sends nothing would hold descriptors without end, and one that opens hundreds at once would have the
loop at work on all of them, beside those that are served. Here an address has a bounded number of
handshakes at once, and so have all together. Further connections wait, which costs a descriptor and
no work. One that sends nothing takes no place, so silent clients keep no one out. Of those that are
ready, one comes first whose address has the fewest handshakes.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - the framework's own loop
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog

from queue_insight.page.networks import Networks, is_within
from queue_insight.page.renewed_certificate import RenewedCertificate
from shared_api.process.connection_gate import Observer, Outcome
from shared_api.process.victims import NO_DESCRIPTOR, find_victim

SECONDS: Final = 5.0
"""Time of a handshake, and the longest wait for its first byte and for a place."""
STALLED_SECONDS: Final = 1.0
"""A handshake that has taken so long goes on only if its place is not needed. If its client does
not hold it up, it takes some milliseconds."""
LOOK_SECONDS: Final = 0.25
"""Between two looks at who is late, and at places that are needed, while connections wait."""
ACCEPTS: Final = 64
"""Connections that are accepted before others are looked after."""
REST_SECONDS: Final = 0.1
"""Pause after an accept for which the process had no descriptor left."""

_GONE: Final = (BlockingIOError, InterruptedError, ConnectionAbortedError)

log = structlog.get_logger("page")


class HandshakeLimits(NamedTuple):
    """How many handshakes may be unfinished.

    Attributes:
        in_all: The limit for all addresses together.
        of_address: The limit for one address.
        waiting: How many connections may be silent, or wait for a place.
        shared: The networks whose addresses stand for many visitors, such as those of an Ingress:
            for them only `in_all` counts, since before the handshake nothing tells whose connection
            it is.
    """

    in_all: int = 128
    of_address: int = 32
    waiting: int = 256
    shared: Networks = ()


class _Arrival(NamedTuple):
    """Where a connection comes from, and since when it is in its state."""

    address: str
    since: float


class TlsAcceptor:
    """Accepts connections of one port; used by the loop of the server only.

    It stands in for a server of the loop, whose `close` and `wait_closed` it has.

    Args:
        connect: Makes the protocol of a connection.
        listener: The socket of the port, listening; its owner closes it.
        certificate: What connections are served with.
        limits: How many handshakes may be unfinished.
        observe: Called with the outcome of each connection that never became one.
    """

    def __init__(
        self,
        connect: Callable[[], asyncio.Protocol],
        listener: socket.socket,
        certificate: RenewedCertificate,
        limits: HandshakeLimits,
        observe: Observer,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connect = connect
        self._listener = listener
        self._certificate = certificate
        self._limits = limits
        self._observe = observe
        self._is_closed = False
        # The oldest first.
        self._unfinished: dict[asyncio.Task[Any], _Arrival] = {}
        self._ready: dict[socket.socket, _Arrival] = {}
        self._silent: dict[socket.socket, _Arrival] = {}
        self._look: asyncio.TimerHandle | None = None  # while some wait
        listener.settimeout(0)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept no more, and end handshakes."""
        self._is_closed = True
        self._loop.remove_reader(self._listener)
        if self._look is not None:
            self._look.cancel()
        for task in self._unfinished:
            task.cancel()
        for accepted in [*self._silent, *self._ready]:
            self._drop(accepted)

    def wait_closed(self) -> asyncio.Future[None]:
        """Return what is done: nothing is waited for."""
        done: asyncio.Future[None] = self._loop.create_future()
        done.set_result(None)
        return done

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            try:
                accepted, address = self._listener.accept()
            except _GONE:
                return
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    log.warning("no descriptor for a connection", error=str(error))
                    self._loop.remove_reader(self._listener)
                    self._loop.call_later(REST_SECONDS, self._go_on)
                return
            self._take(accepted, str(address[0]))

    def _go_on(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)

    def _take(self, accepted: socket.socket, address: str) -> None:
        """Wait for the first byte of a connection."""
        accepted.settimeout(0)
        self._silent[accepted] = _Arrival(address, self._loop.time())
        self._loop.add_reader(accepted, self._on_first_byte, accepted)
        if len(self._silent) + len(self._ready) > self._limits.waiting:
            # Silent ones first, of the same address: one that is ready speaks TLS, perhaps.
            arrivals = self._silent | self._ready
            victim = find_victim(arrivals, lambda each: arrivals[each].address)
            self._give_up(victim or accepted, Outcome.EVICTED)
        if self._look is None:
            self._look = self._loop.call_later(LOOK_SECONDS, self._look_after)

    def _on_first_byte(self, accepted: socket.socket) -> None:
        self._loop.remove_reader(accepted)
        self._ready[accepted] = self._silent.pop(accepted)
        self._begin_those_with_a_place()

    def _begin_those_with_a_place(self) -> None:
        while (accepted := self._find_next()) is not None:
            self._begin(accepted, self._ready.pop(accepted).address)

    def _find_next(self) -> socket.socket | None:
        """Return the next connection that has a place, or None if none has."""
        if not self._ready or len(self._unfinished) >= self._limits.in_all:
            return None
        begun = Counter(each.address for each in self._unfinished.values())
        able = (
            accepted
            for accepted, each in self._ready.items()
            if begun[each.address] < self._limits.of_address or self._is_shared(each.address)
        )
        # The oldest of those whose address has the fewest.
        return min(able, key=lambda each: begun[self._ready[each].address], default=None)

    def _is_shared(self, address: str) -> bool:
        return is_within(address, self._limits.shared)

    def _begin(self, accepted: socket.socket, address: str) -> None:
        made: list[asyncio.Protocol] = []

        def connect() -> asyncio.Protocol:
            made.append(self._connect())
            return made[0]

        task = self._loop.create_task(
            self._loop.connect_accepted_socket(
                connect,
                accepted,
                ssl=self._certificate.context,
                ssl_handshake_timeout=SECONDS,
            )
        )
        self._unfinished[task] = _Arrival(address, self._loop.time())
        task.add_done_callback(lambda done: self._finish(done, None if made else accepted))

    def _look_after(self) -> None:
        """End what is late, and handshakes whose places are needed."""
        self._look = self._loop.call_later(LOOK_SECONDS, self._look_after)
        now = self._loop.time()
        for accepted, each in [*self._silent.items(), *self._ready.items()]:
            if each.since + SECONDS <= now:
                self._give_up(accepted, Outcome.LATE)
        for each in list(self._ready.values()):
            self._end_one_for(each.address, now - STALLED_SECONDS)
            self._begin_those_with_a_place()
        if not (self._silent or self._ready):
            self._look.cancel()
            self._look = None

    def _end_one_for(self, address: str, until: float) -> None:
        """End the oldest handshake whose place an address needs, if it began until then."""
        own = [task for task, each in self._unfinished.items() if each.address == address]
        if len(own) >= self._limits.of_address and not self._is_shared(address):
            oldest = own[0]
        elif len(self._unfinished) >= self._limits.in_all:
            oldest = next(iter(self._unfinished))
        else:
            return
        if self._unfinished[oldest].since <= until:
            del self._unfinished[oldest]
            oldest.cancel()
            self._observe(Outcome.EVICTED)

    def _give_up(self, accepted: socket.socket, outcome: Outcome) -> None:
        self._drop(accepted)
        self._observe(outcome)

    def _drop(self, accepted: socket.socket) -> None:
        """Close a connection that has no place."""
        if self._silent.pop(accepted, None) is not None:
            self._loop.remove_reader(accepted)
        self._ready.pop(accepted, None)
        accepted.close()

    def _finish(self, task: asyncio.Task[Any], left: socket.socket | None) -> None:
        """Note the end of a handshake; `left`: its socket, if no transport has got it."""
        self._unfinished.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # So the loop ends a handshake that takes too long.
            is_late = isinstance(error, ConnectionAbortedError)
            self._observe(Outcome.LATE if is_late else Outcome.BROKEN)
        if left is not None:
            left.close()  # the task was ended before its first step; else its transport closes it
        if not self._is_closed:
            self._begin_those_with_a_place()
