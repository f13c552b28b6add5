"""Tests of shared_api.testing.virtual_clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from shared_api.testing.virtual_clock import VirtualClock


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def test_on_one_thread_sleep_advances_the_time() -> None:
    clock = VirtualClock(start=10)
    clock.sleep(2.5)
    clock.sleep(-1)
    assert not clock.wait(threading.Event(), 1.5)
    assert clock.monotonic() == 14


def test_on_one_thread_an_unlimited_wait_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="without a limit"):
        VirtualClock().wait(threading.Event(), None)


def test_a_set_event_costs_no_time() -> None:
    clock, event = VirtualClock(start=10), threading.Event()
    event.set()
    assert clock.wait(event, 5)
    assert clock.wait(event, None)
    assert clock.monotonic() == 10


def test_a_blocked_thread_sleeps_until_its_deadline(
    pool: ThreadPoolExecutor,
) -> None:
    clock = VirtualClock(start=0, blocking=True)
    waiting = pool.submit(clock.wait, threading.Event(), 10)
    clock.wait_for_sleepers(1)
    assert clock.next_deadline() == 10
    clock.advance(9.9)
    with pytest.raises(TimeoutError):
        waiting.result(timeout=0.05)
    clock.advance(0.1)
    assert waiting.result(timeout=60) is False
    assert clock.next_deadline() is None


def test_an_event_ends_a_blocked_wait(pool: ThreadPoolExecutor) -> None:
    clock, event = VirtualClock(blocking=True), threading.Event()
    waiting = pool.submit(clock.wait, event, None)
    clock.wait_for_sleepers(1)
    assert clock.next_deadline() is None, "an unlimited wait has no deadline"
    event.set()
    assert waiting.result(timeout=60) is True


def test_the_wall_clock_can_jump_alone() -> None:
    clock = VirtualClock(start=50)
    before = clock.now()
    clock.jump_wall_clock(-3600)
    clock.advance(1)
    assert clock.now() - before == timedelta(seconds=-3599)
    assert clock.monotonic() == 51
