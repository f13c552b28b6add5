"""The receiving end: one connection at a time, and broken ones end."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from queue_insight.insight_feed.frames import Kind, encode_frame
from queue_insight.insight_feed.messages import FEED_SOCKET, PROTOCOL, encode_message
from shared_api.process.local_socket import connect_to
from tests.queue_insight.insight_kit import HELLO, Pair, sending
from tests.queue_scheduler.fault_kit import raise_once


def connect(folder: Path) -> socket.socket:
    return connect_to(folder / FEED_SOCKET, 5.0)


def send(pair: Pair, data: bytes) -> bytes:
    """Send bytes over a connection of its own; return what is sent back before it ends."""
    with connect(pair.folder) as connection:
        connection.sendall(data)
        for _ in range(3):
            pair.receiver.server.step()
        return connection.recv(1000)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", b"unknown kind", id="another protocol"),
        pytest.param(encode_frame(Kind.CALL, b"[]"), b"a CALL came first", id="no hello"),
        pytest.param(
            encode_message(replace(HELLO, version="9.9.9")), b"'9.9.9'", id="another version"
        ),
        pytest.param(
            encode_message(replace(HELLO, protocol=PROTOCOL + 1)), b"this program", id="protocol"
        ),
        pytest.param(
            encode_message(replace(HELLO, interpreter="cpython 2.7")), b"2.7", id="interpreter"
        ),
        pytest.param(
            encode_message(HELLO) + encode_frame(Kind.CALL, b"{"), b"Expected", id="no call"
        ),
        pytest.param(
            encode_message(HELLO) + encode_frame(Kind.CALL, b'[5,0,"grow","",["a/b"],{}]'),
            b"call 5 came after 0",
            id="a call without a copy",
        ),
    ],
)
def test_what_is_wrong_ends_the_connection_with_a_reason(
    pair: Pair, data: bytes, reason: bytes
) -> None:
    assert reason in send(pair, data)
    assert not pair.receiver.server.is_connected
    pair.run()
    assert pair.is_same(), "the next connection is taken"


def test_a_newer_connection_replaces_an_older_one(pair: Pair) -> None:
    pair.run()
    with sending(pair.folder) as other:
        other.add_unit("only-here")
        for _ in range(5):
            other.feed.step()
            pair.receiver.server.step()
        pair.sender.feed.step()
        assert pair.receiver.engine.ask(lambda engine: engine.record("default/only-here"))
        assert not pair.sender.feed.is_connected
        assert other.feed.is_connected


def test_the_end_of_a_connection_is_noticed_and_the_state_stays(pair: Pair) -> None:
    pair.sender.add_unit("a")
    pair.run()
    assert pair.receiver.metric("connected") == 1
    pair.sender.feed.close()
    pair.receiver.server.step()
    assert pair.receiver.metric("connected") == 0
    assert pair.receiver.engine.ask(lambda engine: engine.record("default/a"))


def test_recorders_get_all_that_came(pair: Pair) -> None:
    pair.run()
    pair.sender.add_unit("a")
    pair.sender.start_next()
    pair.run()
    received = pair.receiver.received
    assert received.hellos == [HELLO]
    assert [each.number for each in received.checkpoints] == [2]
    assert [call.number for call in received.calls] == [3, 4]
    assert type(received.answers[1]).__name__ == "Dequeue"
    assert pair.receiver.metric("calls_total") == 2


def test_a_process_of_another_user_is_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(pair.folder) as connection, capture_logs() as logs:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        pair.receiver.server.step()
        assert connection.recv(10) == b""
    assert "another user" in logs[0]["event"]


def test_a_recorder_that_raises_misses_a_call_and_the_feed_goes_on(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.run()
    received = pair.receiver.received
    raise_once(monkeypatch, type(received), "on_call")
    pair.sender.add_unit("a")
    pair.sender.start_next()
    pair.run()
    assert [call.number for call in received.calls] == [4]
    assert pair.receiver.server.is_connected
    assert pair.receiver.engine.ask(lambda engine: engine.record("default/a"))
