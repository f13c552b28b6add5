"""How responses and lines are read from a connection, in whatever pieces they arrive."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from shared_api.client import http_connection
from shared_api.client.connection_settings import FixedLogin, Login, connection_settings
from shared_api.client.errors import AnswerTooLarge, ConnectionLost, StreamIdle, Timeout
from shared_api.client.http_connection import HttpConnection
from shared_api.client.http_transport import HttpTransport
from shared_api.client.transport import Request
from shared_api.process.clock import SystemClock
from shared_api.testing.virtual_clock import VirtualClock
from tests.shared_api.client.scripted_server import (
    CHUNKED_HEAD,
    LAST_CHUNK,
    PATIENCE_SECONDS,
    Peer,
    ScriptedServer,
    answers,
    chunk,
    scripted_server,
    sends,
)

GET = Request("GET", "/api/v1/pods")
SOON = 0.5
"""Seconds, for calls that must time out."""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[HttpTransport]:
    made = HttpTransport(connection_settings(server.url, FixedLogin(Login())), SystemClock())
    yield made
    made.close()


def transport_to(server: ScriptedServer, *, tls: bool) -> HttpTransport:
    """Return a transport to a server, which needs no certificate that is known."""
    url = server.url.replace("http:", "https:") if tls else server.url
    return HttpTransport(connection_settings(url, FixedLogin(Login()), verify=False), SystemClock())


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.mark.parametrize(
    ("pieces", "then", "want_status", "want_body"),
    [
        pytest.param([WHOLE], None, 200, b"hello", id="at once"),
        pytest.param([bytes([b]) for b in WHOLE], None, 200, b"hello", id="byte by byte"),
        pytest.param(
            [CHUNKED_HEAD, chunk(b"he"), chunk(b"llo"), LAST_CHUNK],
            None,
            200,
            b"hello",
            id="chunked",
        ),
        pytest.param([b"HTTP/1.1 204 No Content\r\n\r\n"], None, 204, b"", id="no body"),
        pytest.param([b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE], None, 200, b"hello", id="interim"),
        pytest.param(
            [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", WHOLE], None, 200, b"hello", id="hints"
        ),
        pytest.param(
            [b"HTTP/1.0 502 Bad\r\n\r\nsorry"], Peer.close, 502, b"sorry", id="ends with connection"
        ),
    ],
)
def test_a_response_is_read_however_it_arrives(
    server: ScriptedServer,
    transport: HttpTransport,
    pieces: list[bytes],
    then: object,
    want_status: int,
    want_body: bytes,
) -> None:
    assert then in (None, Peer.close)
    server.plays(sends(*pieces, then=Peer.close if then else None))
    got = transport.send(GET, PATIENCE_SECONDS)
    assert (got.status, got.body) == (want_status, want_body)
    assert "link" not in got.headers


def test_header_names_are_in_lower_case_and_repeated_headers_are_joined(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    head = b"HTTP/1.1 200 OK\r\nWarning: 299 - a\r\nRetry-After: 3\r\nwarning: 299 - b\r\n"
    server.plays(sends(head + b"Content-Length: 0\r\n\r\n"))
    got = transport.send(GET, PATIENCE_SECONDS).headers
    assert got == {"warning": "299 - a, 299 - b", "retry-after": "3", "content-length": "0"}


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(sends(then=Peer.close), id="closed without an answer"),
        pytest.param(sends(then=Peer.reset), id="reset without an answer"),
        pytest.param(sends(WHOLE[:20], then=Peer.close), id="closed within the head"),
        pytest.param(sends(WHOLE[:-2], then=Peer.close), id="closed within the body"),
        pytest.param(sends(CHUNKED_HEAD, chunk(b"he"), then=Peer.close), id="no last chunk"),
        pytest.param(sends(CHUNKED_HEAD, b"zz\r\n"), id="chunk size is not a number"),
        pytest.param(sends(b"SSH-2.0-OpenSSH\r\n"), id="not HTTP at all"),
        pytest.param(
            sends(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
            id="unrequested upgrade",
        ),
    ],
)
def test_a_broken_answer_to_a_patch_is_an_unknown_outcome(
    server: ScriptedServer, transport: HttpTransport, act: object
) -> None:
    assert callable(act)
    server.plays(act)
    with pytest.raises(ConnectionLost) as caught:
        transport.send(Request("PATCH", "/x", body=b"{}"), PATIENCE_SECONDS)
    assert (caught.value.sent, type(caught.value)) == (True, ConnectionLost)
    assert len(server.seen) == 1


def test_a_timeout_of_a_silent_server_counts_as_sent(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    server.plays(server.hangs)
    with pytest.raises(Timeout) as caught:
        transport.send(GET, SOON)
    assert caught.value.sent


def test_the_whole_answer_has_one_deadline_however_often_bytes_arrive(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    def trickle(peer: Peer) -> None:
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not server.never.wait(SOON / 10):
            peer.send(b"x")

    server.plays(trickle)
    with pytest.raises(Timeout):
        transport.send(GET, SOON)


def test_a_request_that_the_server_does_not_read_counts_as_not_sent(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    server.greeting = server.hangs
    with pytest.raises(Timeout) as caught:
        transport.send(Request("PATCH", "/x", body=b"x" * 30_000_000), SOON)
    assert not caught.value.sent


def test_a_head_above_the_limit_is_refused(
    server: ScriptedServer, transport: HttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "MAX_HEAD_BYTES", 1_000)
    pieces = [b"HTTP/1.1 200 OK\r\n", *[b"X-Filler: " + b"f" * 300 + b"\r\n"] * 9]
    server.plays(sends(*pieces, then=server.hangs))
    with pytest.raises(ConnectionLost, match="more than 1000 bytes"):
        transport.send(GET, PATIENCE_SECONDS)


@pytest.mark.parametrize("body", [b"", chunk(b"{}")])
def test_headers_after_a_body_have_the_limit_of_a_head(
    server: ScriptedServer, transport: HttpTransport, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(http_connection, "MAX_HEAD_BYTES", 1_000)
    # More than one read takes: what comes in the same read as a body does not count.
    pieces = [CHUNKED_HEAD + body + b"0\r\nX-Filler: ", b"f" * 4 * http_connection.RECEIVE_BYTES]
    server.plays(sends(*pieces, then=server.hangs))
    with pytest.raises(ConnectionLost, match="more than 1000 bytes"):
        transport.send(GET, PATIENCE_SECONDS)


def test_a_body_above_the_limit_of_its_transport_is_refused(server: ScriptedServer) -> None:
    settings = connection_settings(server.url, FixedLogin(Login()))
    with closing(HttpTransport(settings, SystemClock(), max_body_bytes=1_000)) as transport:
        server.plays(answers(body=b"x" * 1_000), sends(CHUNKED_HEAD, *[chunk(b"b" * 300)] * 9))
        assert len(transport.send(GET, PATIENCE_SECONDS).body) == 1_000
        with pytest.raises(AnswerTooLarge, match="more than 1000 bytes"):
            transport.send(GET, PATIENCE_SECONDS)


# --------------------------------------------------------------------------------------- streams


def test_a_stream_returns_whole_lines_wherever_the_chunks_end(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    server.plays(
        sends(
            CHUNKED_HEAD + chunk(b"on"),
            chunk(b"e\ntwo\nth"),
            chunk(b"re"),
            chunk(b"e\n"),
            LAST_CHUNK,
        )
    )
    with closing(transport.stream(GET, PATIENCE_SECONDS)) as stream:
        got = [stream.read_line(PATIENCE_SECONDS) for _ in range(4)]
        assert got == [b"one", b"two", b"three", None]


def test_an_error_answer_to_a_stream_is_its_only_line(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    server.plays(answers(410, b'{"reason":"Expired"}'))
    with closing(transport.stream(GET, PATIENCE_SECONDS)) as stream:
        assert stream.status == 410
        assert stream.read_line(PATIENCE_SECONDS) == b'{"reason":"Expired"}'
        assert stream.read_line(PATIENCE_SECONDS) is None


def test_an_idle_stream_reports_it_and_continues(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    go_on = threading.Event()

    def act(peer: Peer) -> None:
        peer.send(CHUNKED_HEAD + chunk(b"half"))
        assert go_on.wait(PATIENCE_SECONDS)
        peer.send(chunk(b" and half\n"))

    server.plays(act)
    with closing(transport.stream(GET, PATIENCE_SECONDS)) as stream:
        with pytest.raises(StreamIdle):
            stream.read_line(SOON)
        go_on.set()
        assert stream.read_line(PATIENCE_SECONDS) == b"half and half"


def test_a_broken_stream_returns_its_lines_first(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    server.plays(sends(CHUNKED_HEAD, chunk(b"one\ntwo\nthr"), then=Peer.close))
    stream = transport.stream(GET, PATIENCE_SECONDS)
    assert [stream.read_line(PATIENCE_SECONDS) for _ in range(2)] == [b"one", b"two"]
    for _ in range(2):  # also at the next call
        with pytest.raises(ConnectionLost) as caught:
            stream.read_line(PATIENCE_SECONDS)
        assert caught.value.sent


@pytest.mark.parametrize("tls", [False, True])
def test_without_waiting_a_stream_returns_what_has_already_arrived(*, tls: bool) -> None:
    long = 40_000 * b"x"  # several TLS records, and less than a socket buffer
    go_on, gone_on = threading.Event(), threading.Event()

    def act(peer: Peer) -> None:
        peer.send(CHUNKED_HEAD + chunk(b"one\n"))
        assert go_on.wait(PATIENCE_SECONDS)
        peer.send(chunk(long + b"\n") + chunk(b"two\n") + LAST_CHUNK)
        gone_on.set()

    with scripted_server(tls=tls) as server:
        server.plays(act)
        with closing(transport_to(server, tls=tls).stream(GET, PATIENCE_SECONDS)) as stream:
            assert stream.read_line(PATIENCE_SECONDS) == b"one"
            with pytest.raises(StreamIdle):
                stream.read_line(0)
            go_on.set()
            assert gone_on.wait(PATIENCE_SECONDS)
            assert [stream.read_line(0) for _ in range(3)] == [long, b"two", None]


@pytest.mark.parametrize("tls", [False, True])
def test_a_read_reserves_no_memory_for_what_might_arrive(*, tls: bool) -> None:
    go_on = threading.Event()

    def act(peer: Peer) -> None:
        peer.send(CHUNKED_HEAD + chunk(b"one\n"))
        assert go_on.wait(PATIENCE_SECONDS)
        peer.send(chunk(b"two\n"))

    with scripted_server(tls=tls) as server:
        server.plays(act)
        with closing(transport_to(server, tls=tls).stream(GET, PATIENCE_SECONDS)) as stream:
            assert stream.read_line(PATIENCE_SECONDS) == b"one"
            tracemalloc.start()
            try:
                go_on.set()
                assert stream.read_line(PATIENCE_SECONDS) == b"two"
                _, most = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert most < http_connection.RECEIVE_BYTES


def test_a_closed_stream_is_not_idle_though_its_descriptor_is_in_use_again(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    server.plays(sends(CHUNKED_HEAD, chunk(b"one\n"), then=server.hangs))
    stream = transport.stream(GET, PATIENCE_SECONDS)
    assert stream.read_line(PATIENCE_SECONDS) == b"one"
    stream.close()
    one, other = socket.socketpair()  # they get the lowest numbers that are free; nothing is sent
    with one, other, pytest.raises(ConnectionLost):
        stream.read_line(0)


@pytest.mark.parametrize("tls", [False, True])
def test_closing_a_stream_wakes_the_thread_that_reads_it(*, tls: bool) -> None:
    with scripted_server(tls=tls) as server, ThreadPoolExecutor(1) as other:
        transport = transport_to(server, tls=tls)
        server.plays(sends(CHUNKED_HEAD, chunk(b"one\n"), then=server.hangs))
        stream = transport.stream(GET, PATIENCE_SECONDS)
        assert stream.read_line(PATIENCE_SECONDS) == b"one"
        reading = other.submit(stream.read_line, 10 * PATIENCE_SECONDS)
        # The thread is most likely in recv() after this; the outcome must be the same if not.
        SystemClock().sleep(SOON)
        stream.close()
        with pytest.raises(ConnectionLost):
            reading.result(PATIENCE_SECONDS)
        stream.close()  # a second close is harmless


def test_a_line_above_the_limit_breaks_the_stream(
    server: ScriptedServer, transport: HttpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "MAX_LINE_BYTES", 1_000)
    server.plays(sends(CHUNKED_HEAD, *[chunk(b"x" * 300)] * 9, then=server.hangs))
    with pytest.raises(ConnectionLost, match="more than 1000 bytes"):
        transport.stream(GET, PATIENCE_SECONDS).read_line(PATIENCE_SECONDS)


class CountingSocket(socket.socket):
    """A socket that records its timeouts."""

    def __init__(self, made: socket.socket) -> None:
        super().__init__(fileno=made.detach())
        self.timeouts: list[float | None] = []

    def settimeout(self, value: float | None, /) -> None:
        self.timeouts.append(value)
        super().settimeout(value)


def test_the_timeout_of_a_socket_is_set_only_when_it_changes() -> None:
    """It never exceeds the deadline."""
    clock = VirtualClock(start=10.0)
    ours, theirs = socket.socketpair()
    with CountingSocket(ours) as sock, theirs:
        connection = HttpConnection(sock, clock)
        for deadline in (14.01, 14.03, 12.01, 10.02):
            theirs.sendall(WHOLE)
            assert connection.exchange(b"GET / HTTP/1.1\r\n\r\n", deadline).body == b"hello"
        assert sock.timeouts == pytest.approx([4.0, 2.0, 0.02])


def test_a_read_without_waiting_does_not_wait_as_long_as_the_opening() -> None:
    """Only TLS makes it wait, for the rest of a record, as long as the timeout of the socket."""
    ours, theirs = socket.socketpair()
    with CountingSocket(ours) as sock, theirs:
        theirs.sendall(CHUNKED_HEAD)
        HttpConnection(sock, VirtualClock(start=10.0)).open_stream(b"GET / HTTP/1.1\r\n\r\n", 40.02)
        assert sock.timeouts == pytest.approx([30.0, http_connection.POLL_SECONDS])
