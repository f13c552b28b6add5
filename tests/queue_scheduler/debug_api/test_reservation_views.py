"""Reservations: when units must not run, and which units run into that."""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api.app import build_app
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.debug_api.reservation_views import (
    MAX_UNITS,
    MAX_WINDOWS,
    ReservationPage,
    view_reservations,
)
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.access import open_access
from shared_api.objects.meta import Condition
from shared_api.objects.queue_reservation import ReservationScope
from shared_api.testing.virtual_clock import VirtualClock
from tests.reserved_world import ReservedWorld, build_reservation
from tests.served_app import served


def view(world: ReservedWorld, offset: int = 0, limit: int = 9) -> ReservationPage:
    return view_reservations(world.engine, world.second, offset, limit, leader=True)


def test_a_reservation_with_what_runs_into_it() -> None:
    world = ReservedWorld()
    world.ask("long", 1, 9)
    world.ask("open", 1, None, "speech")
    world.reserve(scope=ReservationScope(quotas=("top",)), rrule="FREQ=DAILY", at_start="Evict")
    world.ask("late", 1, 3)
    (item,) = view(world).items
    assert (item.name, item.all, item.quotas, item.at_start) == ("upgrade", False, ["top"], "Evict")
    assert len(item.windows) == MAX_WINDOWS
    assert item.windows[0].start == "2026-12-03T18:00:00Z"
    assert item.windows[0].end == "2026-12-03T20:00:00Z"
    assert (item.runs_into, item.others, item.waiting) == (2, 0, 1)
    assert [(each.name, each.queue, each.quota, each.ends) for each in item.units] == [
        ("open", "q", "speech", ""),
        ("long", "q", "vision", "2026-12-04T01:00:00Z"),
    ]


def test_windows_that_are_over_are_not_shown() -> None:
    world = ReservedWorld()
    world.reserve()
    world.ask("long", 1, 1)
    world.workers.wall = world.second + 5 * 3600  # the engine is told schedules anew, but not yet
    (item,) = view(world).items
    assert (item.windows, item.runs_into, item.units) == ([], 0, [])


def test_units_are_named_up_to_a_number_and_to_their_readers() -> None:
    world = ReservedWorld()
    for number in range(MAX_UNITS + 2):
        world.ask(f"u{number}", 1, 9)
    world.reserve()
    page = view(world)
    (item,) = page.items
    assert (item.runs_into, len(item.units), item.others) == (MAX_UNITS + 2, MAX_UNITS, 2)
    (hidden,) = hide(page, lambda _: False).items
    assert (hidden.runs_into, hidden.units, hidden.others) == (MAX_UNITS + 2, [], MAX_UNITS + 2)


def test_whether_it_counts_is_what_its_status_says() -> None:
    world = ReservedWorld()
    world.reserve()
    assert [(each.ready, each.reason) for each in view(world).items] == [(False, "")]
    reservation = build_reservation()
    for status in ("True", "False"):
        ready = Condition(type="Ready", status=status, reason="Why", message="text")
        told = replace(reservation.status, conditions=(ready,))
        world.tell(replace(reservation, status=told))
        (item,) = view(world).items
        assert (item.ready, item.reason, item.message) == (status == "True", "Why", "text")


def test_what_is_in_force_is_shown_where_the_spec_cannot_be_read() -> None:
    world = ReservedWorld()
    world.reserve(scope=ReservationScope(quotas=("speech",)))
    world.reserve(start="2026-02-30T10:00")
    (item,) = view(world).items
    assert (item.all, item.quotas, len(item.windows)) == (False, ["speech"], 1)


def test_pages() -> None:
    world = ReservedWorld()
    for name in "cab":
        world.reserve(name)
    page = view(world, 1, 1)
    assert ([each.name for each in page.items], page.total) == (["b"], 3)
    assert view(world, 3).items == []


def test_the_route() -> None:
    world = ReservedWorld()
    world.ask("long", 1, 9)
    world.reserve()
    clock = VirtualClock()
    clock.advance(world.second - clock.now().timestamp())
    state = StateAnswers(SharedEngine(world.engine, lambda _: None), lambda: True, clock.now)
    with served(build_app(state, open_access, (), "0.0.0")) as client:
        page = client.get("/debug/reservations").json()
    (item,) = page["items"]
    assert (item["atStart"], item["runsInto"]) == ("Continue", 1)
    assert [each["name"] for each in item["units"]] == ["long"]
