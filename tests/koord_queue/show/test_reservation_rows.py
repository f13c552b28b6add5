"""Reservations as rows."""

from __future__ import annotations

from koord_queue.answers.reservations import Reservation, RunningInto, Window
from koord_queue.show.reservation_rows import row_of, unit_rows

WINDOW = Window(start="2026-12-03T17:00:00Z", end="2026-12-03T19:00:00Z")
NIGHT = Reservation(
    name="night",
    ready=True,
    reason="Ready",
    message="fine",
    all=True,
    windows=(WINDOW,),
    runs_into=12,
    waiting=3,
)


def test_a_reservation_with_its_next_window() -> None:
    times = [WINDOW.start, WINDOW.end]
    assert row_of(NIGHT) == ["night", "all", *times, "12", "3", "Ready", ""]


def test_one_that_does_not_count_says_why() -> None:
    bad = Reservation(name="b", reason="NoWindow", message="over", quotas=("a", "b", "c", "d", "e"))
    assert row_of(bad) == ["b", "a,b,c,+2", "", "", "0", "0", "NoWindow", "over"]
    assert row_of(Reservation(name="new", quotas=("a", "b", "c")))[1::5] == ["a,b,c", "Unknown"]


def test_units_that_run_into_it() -> None:
    unit = RunningInto(namespace="ns", name="long", queue="q", quota="top", ends="")
    busy = Reservation(name="night", windows=(WINDOW,), units=(unit,))
    assert [*unit_rows([NIGHT, busy])] == [["night", WINDOW.start, "ns", "long", "q", "top", ""]]
