"""A transport served over real HTTP/1.1 on loopback, including watches.

For kubectl, curl, the demo, and tests of the real transport against the fake server. One
thread per connection reads requests with the C parser that the product's client uses, and passes
them to a `Transport`; fifty watches are fifty sleeping threads. If the transport reports a lost
connection, the socket is closed without an answer.

Plain HTTP without credentials; meant for 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Self
from urllib.parse import parse_qsl

import httptools

from shared_api.client.errors import ApiFailure, StreamIdle
from shared_api.client.transport import Request, Response, ResponseStream, Transport

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""Source: --max-resource-write-bytes of kube-apiserver."""
LINGER_SECONDS: Final = 0.5
"""How long a watch may be silent before the server checks whether its client is still connected."""
LINES_PER_CHUNK: Final = 500
_ANSWER_SECONDS: Final = 3600.0
_RECEIVE_BYTES: Final = 65536
_BACKLOG: Final = 1024
_JOIN_SECONDS: Final = 5.0
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


class HttpFace:
    """Serves a transport; to be used as a context manager, or with `start` and `stop`."""

    def __init__(self, transport: Transport, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """Bind the socket, so that `port` is known; port 0 chooses a free port.

        Raises:
            OSError: The port is in use.
        """
        self._transport = transport
        self._listener = socket.create_server((host, port), backlog=_BACKLOG)
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        # Guards the next two fields.
        self._lock = threading.Lock()
        self._connections: set[_Connection] = set()
        self._is_stopped = False
        self._acceptor = threading.Thread(
            target=self._accept, name=f"http-face-{self.port}", daemon=True
        )

    @property
    def url(self) -> str:
        """The URL, such as `http://127.0.0.1:PORT`."""
        return f"http://{self.host}:{self.port}"

    def start(self) -> None:
        """Accept connections from now on."""
        self._acceptor.start()

    def stop(self) -> None:
        """Close the listener and all connections, and wait for their threads."""
        with self._lock:
            self._is_stopped = True
            connections = list(self._connections)
        # Closing alone does not wake a thread that is in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in connections:
            connection.close()
        for connection in connections:
            connection.thread.join(_JOIN_SECONDS)
        if self._acceptor.is_alive():
            self._acceptor.join(_JOIN_SECONDS)

    def wait_for_clients(self) -> None:
        """Wait until the clients have closed all connections that are open now.

        Raises:
            TimeoutError: Some are still open after a while.
        """
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.thread.join(_JOIN_SECONDS)
            if connection.thread.is_alive():
                raise TimeoutError("a client has not closed its connection")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(client, self._transport, self._forget)
            with self._lock:
                if self._is_stopped:
                    client.close()
                    return
                self._connections.add(connection)
            connection.thread.start()

    def _forget(self, connection: _Connection) -> None:
        with self._lock:
            self._connections.discard(connection)


class _Message:
    """One request while it is being parsed."""

    __slots__ = ("body", "headers", "is_done", "keep_alive", "method", "size", "url")

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[str, str]] = []
        self.body: list[bytes] = []
        self.size = 0
        self.method = ""
        self.keep_alive = True
        self.is_done = False

    def request(self) -> Request:
        """Return the request for the transport."""
        url = self.url.decode("latin-1")
        path, _, query = url.partition("?")
        pairs = tuple(parse_qsl(query, keep_blank_values=True)) if query else ()
        return Request(self.method, path, pairs, tuple(self.headers), b"".join(self.body))


class _Connection:
    """One client's connection, on its own thread; also the callbacks of its parser."""

    def __init__(
        self,
        client: socket.socket,
        transport: Transport,
        forget: Callable[[_Connection], None],
    ) -> None:
        self._socket = client
        self._transport = transport
        self._forget = forget
        self._parser = httptools.HttpRequestParser(self)
        self._message = _Message()
        self._complete: list[_Message] = []
        self._stream: ResponseStream | None = None
        self.thread = threading.Thread(target=self._run, name="http-face-client", daemon=True)

    def close(self) -> None:
        """End the connection from another thread."""
        stream = self._stream
        if stream is not None:
            stream.close()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    # ---------------------------------------------------------------- callbacks of the parser

    def on_message_begin(self) -> None:
        """Start a request."""
        self._message = _Message()

    def on_url(self, url: bytes) -> None:
        """Append a part of the request target."""
        self._message.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._message.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Send 100 Continue to a client that waits for it before it sends the body."""
        if any(name.lower() == "expect" for name, _ in self._message.headers):
            self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Append a part of the body; beyond the limit, only its size is counted."""
        self._message.size += len(body)
        if self._message.size <= MAX_BODY_BYTES:
            self._message.body.append(body)

    def on_message_complete(self) -> None:
        """Complete the request."""
        self._message.method = self._parser.get_method().decode()
        self._message.keep_alive = self._parser.should_keep_alive()
        self._complete.append(self._message)

    # -------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            # The client disconnected, or a fault breaks the connection on purpose.
            with contextlib.suppress(OSError, ApiFailure, httptools.HttpParserError):
                self._serve()
        finally:
            self._socket.close()
            self._forget(self)

    def _serve(self) -> None:
        while True:
            data = self._socket.recv(_RECEIVE_BYTES)
            if not data:
                return
            self._parser.feed_data(data)
            while self._complete:
                message = self._complete.pop(0)
                self._answer(message)
                if not message.keep_alive:
                    return

    def _answer(self, message: _Message) -> None:
        if message.size > MAX_BODY_BYTES:
            self._send(_too_large(), message)
            return
        request = message.request()
        if _is_watch(request):
            self._answer_stream(self._transport.stream(request, _ANSWER_SECONDS), message)
        else:
            self._send(self._transport.send(request, _ANSWER_SECONDS), message)

    def _send(self, response: Response, message: _Message) -> None:
        head = _head(response.status, response.headers, f"content-length: {len(response.body)}")
        body = b"" if message.method == "HEAD" else response.body
        self._socket.sendall(head + body)

    def _answer_stream(self, stream: ResponseStream, message: _Message) -> None:
        self._stream = stream
        try:
            if stream.status != HTTPStatus.OK:
                body = stream.read_line(LINGER_SECONDS) or b""
                self._send(Response(stream.status, stream.headers, body), message)
                return
            head = _head(stream.status, stream.headers, "transfer-encoding: chunked")
            self._socket.sendall(head)
            while self._send_lines(stream):
                pass
        finally:
            self._stream = None
            stream.close()

    def _send_lines(self, stream: ResponseStream) -> bool:
        """Send all available lines as one chunk; return False if stream or client has ended."""
        try:
            line = stream.read_line(LINGER_SECONDS)
        except StreamIdle:
            return not self._client_is_gone()
        lines = [line]
        while line is not None and len(lines) < LINES_PER_CHUNK:
            try:
                line = stream.read_line(0.0)
            except StreamIdle:
                break
            lines.append(line)
        text = b"".join(one + b"\n" for one in lines if one is not None)
        end = b"0\r\n\r\n" if lines[-1] is None else b""
        chunk = b"%x\r\n%b\r\n" % (len(text), text) if text else b""
        self._socket.sendall(chunk + end)
        return not end

    def _client_is_gone(self) -> bool:
        readable, _, _ = select.select([self._socket], [], [], 0)
        return bool(readable) and not self._socket.recv(1, socket.MSG_PEEK)


def _is_watch(request: Request) -> bool:
    return request.method == "GET" and any(
        name == "watch" and value in {"true", "1"} for name, value in request.query
    )


def _head(status: int, headers: dict[str, str], framing: str) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    phrase = _PHRASES.get(status, "")
    return f"HTTP/1.1 {int(status)} {phrase}\r\n{lines}{framing}\r\n\r\n".encode("latin-1")


def _too_large() -> Response:
    body = (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":'
        b'"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","code":413}'
    )
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return Response(status, {"content-type": "application/json"}, body)
