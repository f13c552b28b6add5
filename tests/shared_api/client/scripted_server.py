"""A small HTTP(S) server on loopback that answers by a test's script.

Each request takes the next act of the script. An act gets the connection and may send a
valid answer, an invalid one, one in pieces, or none. The requests are kept for the test.
"""

from __future__ import annotations

import contextlib
import io
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.tls_files import CA, CLIENT_CERTIFICATE, CLIENT_KEY, server_context

CA_PEM = Path(CA).read_bytes()
CLIENT_PEM = Path(CLIENT_CERTIFICATE).read_bytes()
CLIENT_KEY_PEM = Path(CLIENT_KEY).read_bytes()
PATIENCE_SECONDS = 60.0
"""The time after which a test that waits for the other side fails instead of hanging."""


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """The number of its connection, from 1."""


@dataclass
class Peer:
    """The server's end of a connection, for an act to use."""

    sock: socket.socket
    number: int

    def send(self, data: bytes) -> None:
        """Write raw bytes."""
        self.sock.sendall(data)

    def close(self) -> None:
        """Close the connection in the regular way."""
        raise _EndOfConnectionError

    def reset(self) -> None:
        """Close the connection with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise _EndOfConnectionError


class _EndOfConnectionError(Exception):
    """An act ends the connection."""


Act = Callable[[Peer], None]


@dataclass
class ScriptedServer:
    """The server as a test sees it."""

    port: int
    script: deque[Act] = field(default_factory=deque)
    otherwise: Callable[[Seen], Act] = lambda request: answers(200, request.target.encode())
    """The act for a request when the script is empty; the answer is its target."""
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    greeting: Act | None = None
    """Called for each new connection before it is read: a proxy's tunnel, a wait, a close."""
    client_certificates: list[object] = field(default_factory=list)
    closed: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released once for each connection that the server has closed."""
    never: threading.Event = field(default_factory=threading.Event)
    """Set when the server ends; an act that must not answer waits for it."""

    @property
    def url(self) -> str:
        """The URL for plain HTTP."""
        return f"http://127.0.0.1:{self.port}"

    def act_on(self, request: Seen) -> Act:
        """Return the next act of the script, or the default one."""
        return self.script.popleft() if self.script else self.otherwise(request)

    def wait_until_closed(self) -> None:
        """Wait until the server has closed a connection; its FIN has arrived then."""
        assert self.closed.acquire(timeout=PATIENCE_SECONDS), "no connection was closed"

    def plays(self, *acts: Act) -> None:
        """Add acts to the script."""
        self.script.extend(acts)

    def hangs(self, peer: Peer) -> None:
        """Act: send nothing until the server ends."""
        del peer
        self.never.wait(PATIENCE_SECONDS)


def answers(status: int = 200, body: bytes = b"{}", **headers: str) -> Act:
    """Return an act that sends a valid answer; `retry_after="1"` becomes `retry-after: 1`."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
    lines.extend(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())
    data = "\r\n".join([*lines, "", ""]).encode() + body
    return lambda peer: peer.send(data)


def sends(*pieces: bytes, then: Callable[[Peer], None] | None = None) -> Act:
    """Return an act that sends raw bytes in pieces, then perhaps calls `then`."""

    def act(peer: Peer) -> None:
        for piece in pieces:
            peer.send(piece)
        if then is not None:
            then(peer)

    return act


CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@contextmanager
def scripted_server(
    *, tls: bool = False, ask_client_certificate: bool = False
) -> Iterator[ScriptedServer]:
    """Run a server for the duration of a test."""
    context = _server_context(ask_client_certificate=ask_client_certificate) if tls else None
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        ThreadPoolExecutor(max_workers=32) as threads,
    ):
        server = ScriptedServer(listener.getsockname()[1])
        peers: list[Peer] = []
        threads.submit(_accept, server, listener, context, threads, peers)
        try:
            yield server
        finally:
            server.never.set()
            # A shutdown wakes accept() and recv(); close alone would leave them blocked.
            for sock in (listener, *(peer.sock for peer in peers)):
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _server_context(*, ask_client_certificate: bool) -> ssl.SSLContext:
    context = server_context()
    if ask_client_certificate:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(CA)
    return context


def _accept(
    server: ScriptedServer,
    listener: socket.socket,
    context: ssl.SSLContext | None,
    threads: ThreadPoolExecutor,
    peers: list[Peer],
) -> None:
    while not server.never.is_set():
        try:
            accepted, _ = listener.accept()
        except OSError:
            return
        server.connections += 1
        peers.append(Peer(accepted, server.connections))
        threads.submit(_serve, server, peers[-1], context)


def _serve(server: ScriptedServer, peer: Peer, context: ssl.SSLContext | None) -> None:
    peer.sock.settimeout(PATIENCE_SECONDS)
    try:
        if server.greeting is not None:
            server.greeting(peer)
        if context is not None:
            peer.sock = context.wrap_socket(peer.sock, server_side=True)
            server.client_certificates.append(peer.sock.getpeercert())
        reader = peer.sock.makefile("rb")
        with reader:
            while (request := _read_request(reader, peer.number)) is not None:
                server.seen.append(request)
                server.act_on(request)(peer)
    except (OSError, ValueError, _EndOfConnectionError):
        pass  # the client or an act has closed the connection
    finally:
        peer.sock.close()
        server.closed.release()


def _read_request(reader: io.BufferedReader, number: int) -> Seen | None:
    line = reader.readline().decode()
    if not line:
        return None
    method, target, _ = line.split(" ", 2)
    headers = {}
    while line := reader.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    return Seen(method, target, headers, body, number)
