"""Tests of shared_api.fake_api_server.watch_stream: readers that wait, on their own threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared_api.client.errors import ConnectionLost, StreamIdle
from shared_api.fake_api_server.faults import RequestInfo
from shared_api.fake_api_server.watch_stream import MAX_UNREAD_LINES, FakeStream, StreamPlan
from shared_api.process.clock import SystemClock
from shared_api.testing.virtual_clock import VirtualClock

INFO = RequestInfo("watch", "/things", plural="things")
PATIENCE_SECONDS = 60.0


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.mark.parametrize(
    ("act", "want"),
    [
        pytest.param(lambda stream: stream.push(b"x"), b"x", id="a line"),
        pytest.param(lambda stream: stream.end(), None, id="the end"),
    ],
)
def test_a_waiting_reader_wakes(
    threads: ThreadPoolExecutor, act: Callable[[FakeStream], None], want: bytes | None
) -> None:
    clock = VirtualClock(blocking=True)
    stream = FakeStream(INFO, clock, StreamPlan(waits=True))
    reader = threads.submit(stream.read_line, 60.0)
    clock.wait_for_sleepers(1)
    act(stream)
    assert reader.result(PATIENCE_SECONDS) == want


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda stream: stream.close(), id="closed by the reader's side"),
        pytest.param(lambda stream: stream.break_off(), id="broken by the server"),
    ],
)
def test_a_waiting_reader_gets_an_error_when_the_stream_breaks(
    threads: ThreadPoolExecutor, act: Callable[[FakeStream], None]
) -> None:
    clock = VirtualClock(blocking=True)
    stream = FakeStream(INFO, clock, StreamPlan(waits=True))
    reader = threads.submit(stream.read_line, 60.0)
    clock.wait_for_sleepers(1)
    act(stream)
    with pytest.raises(ConnectionLost):
        reader.result(PATIENCE_SECONDS)


def test_a_waiting_reader_gives_up_at_its_timeout(threads: ThreadPoolExecutor) -> None:
    clock = VirtualClock(blocking=True)
    stream = FakeStream(INFO, clock, StreamPlan(waits=True))
    reader = threads.submit(stream.read_line, 60.0)
    clock.wait_for_sleepers(1)
    clock.advance(61.0)
    with pytest.raises(StreamIdle):
        reader.result(PATIENCE_SECONDS)


def test_a_waiting_reader_sees_the_end_by_the_clock(threads: ThreadPoolExecutor) -> None:
    clock = VirtualClock(blocking=True)
    plan = StreamPlan(waits=True, ends_at=clock.monotonic() + 30.0)
    reader = threads.submit(FakeStream(INFO, clock, plan).read_line, 60.0)
    clock.wait_for_sleepers(1)
    clock.advance(31.0)
    assert reader.result(PATIENCE_SECONDS) is None


def test_a_waiting_reader_of_a_stalled_stream_gets_lines_late(threads: ThreadPoolExecutor) -> None:
    clock = VirtualClock(blocking=True)
    stream = FakeStream(INFO, clock, StreamPlan(waits=True))
    stream.stall()
    reader = threads.submit(stream.read_line, 60.0)
    clock.wait_for_sleepers(1)
    stream.push(b"x")
    stream.resume()
    assert reader.result(PATIENCE_SECONDS) == b"x"


def test_a_stream_that_is_never_read_breaks() -> None:
    stream = FakeStream(INFO, VirtualClock(), StreamPlan())
    for _ in range(MAX_UNREAD_LINES + 1):
        stream.push(b"x")
    with pytest.raises(ConnectionLost):
        stream.read_line(0.0)
    assert not stream.is_open


def test_close_notifies_the_server_once() -> None:
    closed: list[FakeStream] = []
    stream = FakeStream(INFO, SystemClock(), StreamPlan(), on_close=closed.append)
    stream.close()
    stream.close()
    stream.end()
    assert closed == [stream]
