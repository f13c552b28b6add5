"""What the real transport sends, its pool, and connecting, with a misbehaving server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from shared_api.client import http_transport
from shared_api.client.connection_settings import (
    ConnectionSettings,
    FixedLogin,
    Login,
    connection_settings,
)
from shared_api.client.errors import ConnectionLost, Timeout
from shared_api.client.http_transport import HttpTransport
from shared_api.client.transport import Request
from shared_api.process.clock import SystemClock
from tests.shared_api.client.scripted_server import (
    CHUNKED_HEAD,
    PATIENCE_SECONDS,
    Peer,
    ScriptedServer,
    answers,
    chunk,
    scripted_server,
    sends,
)

GET = Request("GET", "/api/v1/pods")
PATCH = Request("PATCH", "/api/v1/pods/p", body=b'{"a":1}')
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
SOON = 0.5
"""Seconds, for calls that must time out."""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


def transport_to(settings: ConnectionSettings | ScriptedServer) -> HttpTransport:
    if isinstance(settings, ScriptedServer):
        settings = connection_settings(settings.url, FixedLogin(Login()))
    return HttpTransport(settings, SystemClock())


@pytest.fixture
def transport(server: ScriptedServer) -> Iterator[HttpTransport]:
    made = transport_to(server)
    yield made
    made.close()


# ---------------------------------------------------------------------------------- what is sent


def test_a_request_arrives_unchanged(server: ScriptedServer) -> None:
    login = FixedLogin(Login(authorization="Bearer abc"))
    with closing(transport_to(connection_settings(f"{server.url}/gateway/", login))) as transport:
        query = (("labelSelector", "a=b,c in (d)"), ("limit", "500"))
        headers = (("Content-Type", "application/json"),)
        transport.send(Request("PATCH", "/api/x", query, headers, b"{}"), PATIENCE_SECONDS)
        (seen,) = server.seen
        assert seen.method == "PATCH"
        assert seen.target == "/gateway/api/x?labelSelector=a%3Db%2Cc%20in%20%28d%29&limit=500"
        assert seen.body == b"{}"
        assert seen.headers == {
            "host": f"127.0.0.1:{server.port}",
            "authorization": "Bearer abc",
            "content-type": "application/json",
            "content-length": "2",
        }


def test_a_get_has_no_length_and_a_delete_without_body_has_length_zero(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    transport.send(GET, PATIENCE_SECONDS)
    transport.send(Request("DELETE", "/x"), PATIENCE_SECONDS)
    assert [seen.headers.get("content-length") for seen in server.seen] == [None, "0"]


@pytest.mark.parametrize(
    "request_with_break",
    [
        Request("GET", "/x HTTP/1.1\r\nX-Evil: 1\r\n"),
        Request("GET", "/x", headers=(("Accept", "a\nX-Evil: 1"),)),
    ],
)
def test_a_line_break_cannot_inject_a_header(
    server: ScriptedServer, transport: HttpTransport, request_with_break: Request
) -> None:
    with pytest.raises(ValueError, match="line break"):
        transport.send(request_with_break, PATIENCE_SECONDS)
    assert server.seen == []


# -------------------------------------------------------------------------------------- the pool


@pytest.mark.parametrize(
    ("first_answer", "want_connections"),
    [
        pytest.param(answers(200), [1, 1], id="kept alive"),
        pytest.param(answers(404), [1, 1], id="kept alive after an error status"),
        pytest.param(answers(200, connection="close"), [1, 2], id="server says close"),
        pytest.param(sends(EMPTY + b"surplus"), [1, 2], id="surplus bytes"),
        pytest.param(sends(EMPTY + EMPTY), [1, 2], id="an unrequested answer"),
    ],
)
def test_a_connection_is_reused_if_allowed(
    server: ScriptedServer,
    transport: HttpTransport,
    first_answer: object,
    want_connections: list[int],
) -> None:
    assert callable(first_answer)
    server.plays(first_answer, answers(200))
    for _ in range(2):
        transport.send(PATCH, PATIENCE_SECONDS)
    assert [seen.connection for seen in server.seen] == want_connections


def test_an_idle_connection_that_the_server_closed_is_detected_before_use(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    server.plays(sends(EMPTY, then=Peer.close))
    transport.send(PATCH, PATIENCE_SECONDS)
    server.wait_until_closed()
    assert transport.send(PATCH, PATIENCE_SECONDS).status == 200  # without a second request
    assert [seen.connection for seen in server.seen] == [1, 2]


def test_a_get_without_an_answer_on_an_idle_connection_is_repeated_once(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    server.plays(answers(200), sends(then=Peer.reset), answers(200, b"second"))
    transport.send(GET, PATIENCE_SECONDS)
    assert transport.send(GET, PATIENCE_SECONDS).body == b"second"
    assert [seen.connection for seen in server.seen] == [1, 1, 2]


@pytest.mark.parametrize(
    ("request_", "acts"),
    [
        pytest.param(
            PATCH, [answers(200), sends(then=Peer.reset)], id="a PATCH on an idle connection"
        ),
        pytest.param(
            GET,
            [answers(200), sends(b"HTTP/1.1 2", then=Peer.close)],
            id="a GET whose answer had begun",
        ),
        pytest.param(
            GET,
            [answers(200, connection="close"), sends(then=Peer.reset)],
            id="a GET on a fresh connection",
        ),
    ],
)
def test_a_request_that_may_have_been_done_is_not_repeated_here(
    server: ScriptedServer, transport: HttpTransport, request_: Request, acts: list[object]
) -> None:
    for act in acts:
        assert callable(act)
        server.plays(act)
    transport.send(request_, PATIENCE_SECONDS)
    with pytest.raises(ConnectionLost) as caught:
        transport.send(request_, PATIENCE_SECONDS)
    assert caught.value.sent
    assert len(server.seen) == 2


def test_a_get_that_timed_out_is_not_repeated(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    server.plays(answers(200), server.hangs)
    transport.send(GET, PATIENCE_SECONDS)
    with pytest.raises(Timeout) as caught:
        transport.send(GET, SOON)
    assert caught.value.sent
    assert (len(server.seen), server.connections) == (2, 1)


@pytest.mark.parametrize(("limit", "value"), [("IDLE_SECONDS", -1.0), ("MAX_IDLE_CONNECTIONS", 0)])
def test_connections_that_are_idle_too_long_or_too_many_are_closed(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, limit: str, value: float
) -> None:
    monkeypatch.setattr(http_transport, limit, value)
    transport = transport_to(server)
    for _ in range(3):
        transport.send(PATCH, PATIENCE_SECONDS)
    assert [seen.connection for seen in server.seen] == [1, 2, 3]
    transport.close()
    for _ in range(3):
        server.wait_until_closed()


def test_each_of_many_threads_gets_its_own_answer(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    def ask(thread: int) -> bool:
        paths = [f"/{thread}/{turn}" for turn in range(40)]
        got = [transport.send(Request("GET", path), PATIENCE_SECONDS).body for path in paths]
        return got == [path.encode() for path in paths]

    with ThreadPoolExecutor(12) as threads:
        assert all(threads.map(ask, range(12)))
    assert server.connections <= 12


def test_a_closed_transport_sends_nothing_and_keeps_nothing(server: ScriptedServer) -> None:
    transport = transport_to(server)
    transport.send(GET, PATIENCE_SECONDS)
    transport.close()
    server.wait_until_closed()
    with pytest.raises(ConnectionLost) as caught:
        transport.send(GET, PATIENCE_SECONDS)
    assert not caught.value.sent
    with pytest.raises(ConnectionLost):
        transport.stream(GET, PATIENCE_SECONDS)


def test_a_connection_in_use_when_the_transport_closes_is_closed_after_use(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    def act(peer: Peer) -> None:
        transport.close()
        answers(200)(peer)

    server.plays(act)
    assert transport.send(GET, PATIENCE_SECONDS).status == 200
    server.wait_until_closed()


def test_a_stream_repeats_its_request_when_the_idle_connection_was_closed(
    server: ScriptedServer, transport: HttpTransport
) -> None:
    server.plays(answers(200), sends(then=Peer.reset), sends(CHUNKED_HEAD, chunk(b"line\n")))
    transport.send(GET, PATIENCE_SECONDS)
    with closing(transport.stream(GET, PATIENCE_SECONDS)) as stream:
        assert stream.read_line(PATIENCE_SECONDS) == b"line"


# ------------------------------------------------------------------------------------ connecting


def test_a_refused_connection_counts_as_not_sent() -> None:
    with scripted_server() as server:
        port = server.port
    transport = transport_to(connection_settings(f"http://127.0.0.1:{port}", FixedLogin(Login())))
    with pytest.raises(ConnectionLost, match=f"127.0.0.1:{port}.*refused") as caught:
        transport.send(PATCH, PATIENCE_SECONDS)
    assert (caught.value.sent, type(caught.value)) == (False, ConnectionLost)


def test_an_unknown_host_name_counts_as_not_sent() -> None:
    settings = connection_settings("http://no-such-host.invalid:1", FixedLogin(Login()))
    with pytest.raises(ConnectionLost, match="no-such-host") as caught:
        transport_to(settings).send(PATCH, PATIENCE_SECONDS)
    assert not caught.value.sent
