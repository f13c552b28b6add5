"""What the engine keeps of the schedules that it is told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.reservations.schedules import Schedule, Schedules, Window, key_of
from shared_api.objects.queue_reservation import QueueReservationSpec

FIRST = Schedule(
    start="a", duration="1h", time_zone="UTC", rrule="", at=100, windows=(Window(200, 300),)
)
SECOND = replace(FIRST, start="b")


def test_the_key_is_what_users_write() -> None:
    spec = QueueReservationSpec(start="a", duration="1h")
    assert key_of(spec) == FIRST.key


def test_only_schedules_that_differ_are_taken() -> None:
    known = Schedules()
    assert known.put([SECOND, FIRST]) == (SECOND.key, FIRST.key)
    assert known.put([replace(FIRST, at=150), SECOND]) == (), "later, the same windows"
    assert known.find(FIRST.key) == FIRST
    moved = replace(FIRST, at=150, windows=())
    assert known.put([moved]) == (FIRST.key,)
    assert known.find(FIRST.key) == moved
    assert known.list_all() == (moved, SECOND)


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_scheduler.reservations.schedules.MAX_SCHEDULES", 1)
    known = Schedules()
    assert known.put([FIRST, SECOND]) == (FIRST.key,)
    assert known.put([replace(FIRST, windows=())]) == (FIRST.key,), "a known one is renewed"


def test_copies_are_independent() -> None:
    known = Schedules()
    known.put([FIRST, SECOND])
    twin = known.copy()
    twin.keep({SECOND.key})
    assert (len(known), twin.list_all()) == (2, (SECOND,))
