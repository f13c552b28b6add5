"""Tests of shared_api.fake_api_server.open_watches: what a test does to watches."""

from __future__ import annotations

import msgspec
import pytest

from shared_api.client.errors import ConnectionLost, StreamIdle
from shared_api.fake_api_server.faults import Match
from shared_api.testing.virtual_clock import VirtualClock
from tests.shared_api.testing.fake_server_cases import (
    make_server,
    read_all,
    thing,
    watch,
)


def test_dropped_watches_lose_their_unread_lines() -> None:
    server = make_server()
    version = str(server.resource_version)
    mine, other = watch(server, resourceVersion=version), watch(server, "/api/v1/pods")
    server.direct.create(thing("a"))
    assert server.watches.drop(Match(plural="things")) == 1
    with pytest.raises(ConnectionLost):
        mine.read_line(1.0)
    assert mine.take_line() is None
    assert other.is_open


def test_ended_watches_still_return_their_unread_lines() -> None:
    server = make_server()
    stream = watch(server, resourceVersion=str(server.resource_version))
    server.direct.create(thing("a"))
    server.watches.end()
    assert read_all(stream) == [("ADDED", "a")]
    assert stream.read_line(1.0) is None


def test_a_stalled_watch_returns_its_lines_late() -> None:
    clock = VirtualClock()
    server = make_server(clock)
    stream = watch(server, resourceVersion=str(server.resource_version), allowWatchBookmarks="true")
    server.watches.stall()
    server.direct.create(thing("a"))
    clock.advance(600)
    with pytest.raises(StreamIdle):
        stream.read_line(1.0)
    assert server.watches.unread_lines == 0
    server.watches.resume()
    assert read_all(stream) == [("ADDED", "a")]


def test_a_watch_that_ends_while_stalled_ends_late() -> None:
    server = make_server()
    stream = watch(server, resourceVersion=str(server.resource_version))
    server.watches.stall()
    server.direct.create(thing("a"))
    server.watches.end()
    with pytest.raises(StreamIdle):
        stream.read_line(1.0)
    assert server.watches.resume() == 1
    assert read_all(stream) == [("ADDED", "a")]
    assert stream.read_line(1.0) is None
    assert server.watches.resume() == 0


def test_events_can_be_sent_twice() -> None:
    server = make_server()
    stream = watch(server, resourceVersion=str(server.resource_version))
    server.watches.repeat_events(1)
    server.direct.create_all([thing("a"), thing("b")])
    assert read_all(stream) == [("ADDED", "a"), ("ADDED", "a"), ("ADDED", "b")]


def test_an_expired_watch_gets_410_in_an_event() -> None:
    server = make_server()
    stream = watch(server, resourceVersion=str(server.resource_version))
    server.watches.expire()
    line = stream.read_line(1.0)
    assert line is not None
    event = msgspec.json.decode(line)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert stream.read_line(1.0) is None
