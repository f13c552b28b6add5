"""Tests of shared_api.fake_api_server.http_server: sockets, watches, broken connections."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from shared_api.client.connection_settings import FixedLogin, Login, connection_settings
from shared_api.client.errors import ConnectionLost
from shared_api.client.http_transport import HttpTransport
from shared_api.client.transport import Request, ResponseStream
from shared_api.fake_api_server.faults import Match
from shared_api.fake_api_server.http_server import MAX_BODY_BYTES, HttpFace
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.process.clock import SystemClock
from tests.shared_api.testing.fake_server_cases import THINGS, make_server, thing
from tests.waiting import until

PATIENCE_SECONDS = 60.0
WATCHES = 50


@pytest.fixture
def server() -> FakeApiServer:
    return make_server(SystemClock(), waits=True)


@pytest.fixture
def face(server: FakeApiServer) -> Iterator[HttpFace]:
    with server.serve_http() as face:
        yield face


@pytest.fixture
def client(face: HttpFace) -> Iterator[HttpTransport]:
    transport = client_of(face)
    yield transport
    transport.close()


def client_of(face: HttpFace) -> HttpTransport:
    return HttpTransport(connection_settings(face.url, FixedLogin(Login())), SystemClock())


def ask(client: HttpTransport, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = b"" if body is None else json.dumps(body).encode()
    headers = (("content-type", "application/json"),)
    response = client.send(Request(method, path, headers=headers, body=data), PATIENCE_SECONDS)
    return response.status, json.loads(response.body)


def watch(client: HttpTransport, version: int, **query: str) -> ResponseStream:
    pairs = (("watch", "true"), ("resourceVersion", str(version)), *query.items())
    return client.stream(Request("GET", THINGS, pairs), PATIENCE_SECONDS)


def names(stream: ResponseStream, count: int) -> list[str]:
    lines = [stream.read_line(PATIENCE_SECONDS) or b"{}" for _ in range(count)]
    return [json.loads(line)["object"]["metadata"]["name"] for line in lines]


def test_requests_and_answers(client: HttpTransport) -> None:
    for name in "abc":
        status, made = ask(client, "POST", THINGS, thing(name))
        assert (status, made["metadata"]["name"]) == (201, name)
    query = (("labelSelector", "!none"),)
    response = client.send(Request("GET", THINGS, query), PATIENCE_SECONDS)
    assert len(json.loads(response.body)["items"]) == 3


def test_a_watch_is_read_during_writes(client: HttpTransport, server: FakeApiServer) -> None:
    with closing(watch(client, server.resource_version)) as stream:
        for name in "ab":
            ask(client, "POST", THINGS, thing(name))
            assert names(stream, 1) == [name]
        server.watches.end()
        assert stream.read_line(PATIENCE_SECONDS) is None


def test_fifty_watches_get_every_event(client: HttpTransport, server: FakeApiServer) -> None:
    version = server.resource_version
    with ExitStack() as closed:
        streams = [closed.enter_context(closing(watch(client, version))) for _ in range(WATCHES)]
        wanted = [f"t{i}" for i in range(20)]
        server.direct.create_all(thing(name) for name in wanted)
        for stream in streams:
            assert names(stream, len(wanted)) == wanted
    until(lambda: server.watches.requests == [])


def test_a_lost_answer_is_a_broken_connection(client: HttpTransport, server: FakeApiServer) -> None:
    server.faults.lose_answer(match=Match(verb="create"))
    with pytest.raises(ConnectionLost):
        ask(client, "POST", THINGS, thing("a"))
    assert server.direct.exists("things", "a")


def test_a_dropped_watch_is_a_broken_connection(
    client: HttpTransport, server: FakeApiServer
) -> None:
    with closing(watch(client, server.resource_version)) as stream:
        server.watches.drop()
        with pytest.raises(ConnectionLost):
            stream.read_line(PATIENCE_SECONDS)


def test_errors_of_a_watch_have_their_status(client: HttpTransport, server: FakeApiServer) -> None:
    with closing(watch(client, server.resource_version, labelSelector="a b c")) as stream:
        assert stream.status == 400
        assert b"BadRequest" in (stream.read_line(PATIENCE_SECONDS) or b"")


def test_a_body_that_is_too_large_is_refused(client: HttpTransport) -> None:
    body = thing("a", text="x" * MAX_BODY_BYTES)
    assert ask(client, "POST", THINGS, body)[0] == 413
    assert ask(client, "GET", "/version")[0] == 200


def raw(face: HttpFace, text: str) -> bytes:
    """Return what the server sends before it closes the connection."""
    with socket.create_connection((face.host, face.port), PATIENCE_SECONDS) as client:
        client.sendall(text.encode())
        received = b""
        while data := client.recv(65536):
            received += data
        return received


def test_a_client_may_wait_for_100_continue(face: HttpFace) -> None:
    got = raw(face, "GET /livez HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


def test_head_has_no_body(face: HttpFace) -> None:
    got = raw(face, "HEAD /apis/none HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert got.partition(b"\r\n\r\n")[2] == b""


def test_a_request_that_is_not_http_ends_the_connection(face: HttpFace) -> None:
    assert raw(face, "hello\r\n\r\n") == b""


def test_two_requests_may_arrive_at_once(face: HttpFace) -> None:
    request = "GET /livez HTTP/1.1\r\n{}\r\n"
    got = raw(face, request.format("") + request.format("Connection: close\r\n"))
    assert got.count(b"HTTP/1.1 200 OK") == 2


def test_stopping_ends_every_thread(server: FakeApiServer) -> None:
    before = threading.active_count()
    face = server.serve_http()
    face.start()
    with closing(client_of(face)) as client:
        with closing(watch(client, server.resource_version)) as stream:
            ask(client, "GET", "/version")
            face.stop()
            assert threading.active_count() == before
            with pytest.raises(ConnectionLost):
                stream.read_line(PATIENCE_SECONDS)
        with pytest.raises(ConnectionLost):
            ask(client, "GET", "/version")


def test_a_port_in_use_is_an_error(face: HttpFace, server: FakeApiServer) -> None:
    with pytest.raises(OSError, match="in use"):
        server.serve_http(port=face.port)
