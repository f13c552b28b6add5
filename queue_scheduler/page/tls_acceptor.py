"""Accepts TLS connections. Handshakes that are not finished have a bounded number of places.

The server of the framework's loop bounds them by time only: a client that opens connections and
sends nothing would hold descriptors without end. Here a further connection takes the place of the
oldest one, first of its own address. So a client that floods the port loses its own, and one that
speaks at once is served.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - the framework's own loop
import errno
import socket
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog

from queue_scheduler.page.networks import Networks, is_within
from queue_scheduler.page.renewed_certificate import RenewedCertificate
from shared_api.process.connection_gate import Observer, Outcome

SECONDS: Final = 5.0
"""Time of a handshake."""
ACCEPTS: Final = 64
"""Connections that are accepted before others are looked after."""
REST_SECONDS: Final = 0.1
"""Pause after an accept for which the process had no descriptor left."""

_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_GONE: Final = (BlockingIOError, InterruptedError, ConnectionAbortedError)

log = structlog.get_logger("page")


class Places(NamedTuple):
    """How many handshakes may be unfinished.

    Attributes:
        in_all: Of all addresses together.
        of_address: Of one address.
        shared: The networks whose addresses stand for many visitors, such as those of an Ingress:
            for them only `in_all` counts, since before the handshake nothing tells whose connection
            it is.
    """

    in_all: int = 128
    of_address: int = 32
    shared: Networks = ()


class TlsAcceptor:
    """Accepts connections of one port; used by the loop of the server only.

    It stands in for a server of the loop, whose `close` and `wait_closed` it has.

    Args:
        connect: Makes the protocol of a connection.
        listener: The socket of the port, listening; its owner closes it.
        certificate: What connections are served with.
        places: How many handshakes may be unfinished.
        observe: Called with the outcome of each connection that never became one.
    """

    def __init__(
        self,
        connect: Callable[[], asyncio.Protocol],
        listener: socket.socket,
        certificate: RenewedCertificate,
        places: Places,
        observe: Observer,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connect = connect
        self._listener = listener
        self._certificate = certificate
        self._places = places
        self._observe = observe
        self._is_closed = False
        # The oldest first, with their addresses.
        self._unfinished: dict[asyncio.Task[Any], str] = {}
        listener.settimeout(0)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept no more, and end handshakes."""
        self._is_closed = True
        self._loop.remove_reader(self._listener)
        for task in self._unfinished:
            task.cancel()

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
                if error.errno in _FULL:
                    log.warning("no descriptor for a connection", error=str(error))
                    self._loop.remove_reader(self._listener)
                    self._loop.call_later(REST_SECONDS, self._go_on)
                return
            self._begin(accepted, str(address[0]))

    def _go_on(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)

    def _begin(self, accepted: socket.socket, address: str) -> None:
        self._make_room(address)
        accepted.settimeout(0)
        task = self._loop.create_task(
            self._loop.connect_accepted_socket(
                self._connect,
                accepted,
                ssl=self._certificate.context,
                ssl_handshake_timeout=SECONDS,
            )
        )
        self._unfinished[task] = address
        task.add_done_callback(lambda done: self._finish(done, accepted))

    def _make_room(self, address: str) -> None:
        """End the oldest handshake of an address that has too many, or of all."""
        own: list[asyncio.Task[Any]] = []
        if not is_within(address, self._places.shared):
            own = [task for task, each in self._unfinished.items() if each == address]
        if len(own) >= self._places.of_address:
            oldest = own[0]
        elif len(self._unfinished) >= self._places.in_all:
            oldest = next(iter(self._unfinished))
        else:
            return
        del self._unfinished[oldest]
        oldest.cancel()
        self._observe(Outcome.EVICTED)

    def _finish(self, task: asyncio.Task[Any], accepted: socket.socket) -> None:
        self._unfinished.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # So the loop ends a handshake that takes too long.
            is_late = isinstance(error, ConnectionAbortedError)
            self._observe(Outcome.LATE if is_late else Outcome.BROKEN)
        if error is not None or task.cancelled():
            accepted.close()  # a task that is ended before its first step has closed nothing
