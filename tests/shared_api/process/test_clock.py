"""Tests of shared_api.process.clock."""

from __future__ import annotations

import threading
from datetime import UTC

from shared_api.process.clock import SystemClock


def test_the_system_clock_waits_no_longer_than_for_the_event() -> None:
    clock, event = SystemClock(), threading.Event()
    event.set()
    assert clock.wait(event, 60)
    assert clock.wait(event, None)
    assert clock.wait(event, 1e12), "longer than the interpreter can wait"


def test_the_system_clock_stops_waiting_at_the_timeout() -> None:
    clock, before = SystemClock(), SystemClock().monotonic()
    assert not clock.wait(threading.Event(), 0.01)
    assert not clock.wait(threading.Event(), -1)
    clock.sleep(0.01)
    clock.sleep(-1)
    assert clock.monotonic() - before >= 0.02
    assert clock.now().tzinfo is UTC
