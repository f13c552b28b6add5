"""Requests as they are sent, and answers in each form that a server may choose."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tests.flood.http_connection import (
    NEW_TOKEN,
    NO_ANSWER,
    PAST_MOMENT,
    Asker,
    Connection,
    Endpoint,
    Question,
)

SINCE = datetime.now(UTC) - timedelta(minutes=1)
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 429 Busy\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
CLOSED = b"HTTP/1.1 503 Gone\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
UNSIZED = b"HTTP/1.0 200 OK\r\n\r\nuntil the end"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"


@contextmanager
def serving(*answers: bytes) -> Iterator[Endpoint]:
    """Answer with these in turn, and then close; each connection has as many as one lets."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            left = list(answers)
            while left:
                client, _ = listener.accept()
                with client:
                    while left and client.recv(65_536):
                        answer = left.pop(0)
                        client.sendall(answer)
                        if answer in {CLOSED, UNSIZED, HALF}:
                            break

        thread = threading.Thread(target=serve)
        thread.start()
        yield Endpoint(listener.getsockname()[1])
        thread.join()


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param([SIZED, SIZED], [200, 200], id="on one connection"),
        pytest.param([CHUNKED, SIZED], [429, 200], id="in chunks"),
        pytest.param([CLOSED, SIZED], [503, 200], id="a server that closes"),
        pytest.param([UNSIZED, SIZED], [200, 200], id="until the end of the connection"),
        pytest.param([HALF, SIZED], [NO_ANSWER, 200], id="half an answer"),
    ],
)
def test_answers_are_read_whole(answers: list[bytes], want: list[int]) -> None:
    asker, question = Asker(random.Random(0), SINCE), Question("/", "/", {})
    with serving(*answers) as endpoint, Connection(endpoint, 10.0) as connection:
        assert [connection.ask(asker.encode(question, "host")) for _ in want] == want


def test_without_a_server_there_is_no_answer() -> None:
    with Connection(Endpoint(1), 1.0) as connection:
        assert connection.ask(b"GET / HTTP/1.1\r\n\r\n") == NO_ANSWER


def test_each_request_has_a_token_and_a_moment_of_its_own() -> None:
    asker = Asker(random.Random(0), SINCE)
    question = Question("x", f"/?at={PAST_MOMENT}", {}, "POST", f"token {NEW_TOKEN}")
    first, second = (asker.encode(question, "host").decode() for _ in range(2))
    assert first != second
    head, _, body = first.partition("\r\n\r\n")
    assert f"Content-Length: {len(body)}" in head
    assert not body.endswith(NEW_TOKEN)
    moment = datetime.fromisoformat(head.split()[1].partition("=")[2])
    assert SINCE <= moment <= datetime.now(UTC)
