"""Tests of shared_api.process.clock."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from shared_api.process.clock import SystemClock, parse_time, rfc3339, rfc3339_micro

NOON = datetime(2026, 11, 1, 12, 0, 0, 123456, tzinfo=UTC)


def test_times_are_written_in_utc_with_fixed_width() -> None:
    in_china = NOON.astimezone(timezone(timedelta(hours=8)))
    assert rfc3339(in_china) == "2026-11-01T12:00:00Z"
    assert rfc3339_micro(in_china) == "2026-11-01T12:00:00.123456Z"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2026-11-01T12:00:00Z", NOON.replace(microsecond=0), id="metav1.Time"),
        pytest.param("2026-11-01T12:00:00.123456Z", NOON, id="metav1.MicroTime"),
        pytest.param("2026-11-01T20:00:00.123456+08:00", NOON, id="an offset"),
        pytest.param("2026-11-01T12:00:00.123456789Z", NOON, id="nanoseconds are cut"),
    ],
)
def test_what_the_server_writes_is_read(text: str, want: datetime) -> None:
    got = parse_time(text)
    assert (got, got.tzinfo) == (want, UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-01", "2026-11-01T12:00:00"])
def test_a_text_that_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"zone|isoformat"):
        parse_time(text)


def test_the_system_clock_waits_no_longer_than_for_the_event() -> None:
    clock, event = SystemClock(), threading.Event()
    event.set()
    assert clock.wait(event, 60)
    assert clock.wait(event, None)
    assert clock.wait(event, 1e12), "longer than the interpreter can wait"


def test_the_system_clock_stops_waiting_when_the_time_is_up() -> None:
    clock, before = SystemClock(), SystemClock().monotonic()
    assert not clock.wait(threading.Event(), 0.01)
    assert not clock.wait(threading.Event(), -1)
    clock.sleep(0.01)
    clock.sleep(-1)
    assert clock.monotonic() - before >= 0.02
    assert clock.now().tzinfo is UTC
