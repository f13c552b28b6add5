"""What still runs when a window begins: it runs on, or is evicted in time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from queue_scheduler.engine.evicting_windows import find_units
from queue_scheduler.unit_writes.eviction_patches import with_eviction
from shared_api.objects.queue_reservation import ReservationScope
from tests.budget_world import HOUR, at
from tests.properties.engine_kit import build_pod, changed
from tests.reserved_world import ReservedWorld

T1 = at("2026-12-03T18:00")


def evicted(world: ReservedWorld, second: int) -> list[str]:
    """Return the names of the units that are to be evicted at a second."""
    return [record.key.partition("/")[2] for record, _ in find_units(world.engine, second)]


def test_what_runs_goes_on_unless_that_is_asked_for() -> None:
    world = ReservedWorld()
    world.ask("long", 1, 9)
    world.reserve()
    assert evicted(world, T1) == []


def test_what_still_runs_is_evicted_its_grace_before() -> None:
    world = ReservedWorld()
    world.ask("long", 1, 9)
    world.ask("short", 1, 1)
    world.reserve(at_start="Evict")
    assert evicted(world, T1 - 301) == []
    both = ["long", "short"]
    assert evicted(world, T1 - 300) == both, "by what runs, and not by what it declares"
    assert evicted(world, T1 + 2 * HOUR - 1) == both
    assert evicted(world, T1 + 2 * HOUR) == []


def test_the_text_has_the_window() -> None:
    world = ReservedWorld()
    world.ask("long", 1, 9)
    world.reserve(at_start="Evict", grace="0")
    assert evicted(world, T1 - 1) == []
    ((_, why),) = find_units(world.engine, T1)
    assert why == (
        "makes way for the window of QueueReservation upgrade (2026-12-03T18:00:00Z to"
        " 2026-12-03T20:00:00Z), in which no unit must run"
    )


def test_only_units_of_the_scope_are_evicted_and_no_pods_of_others() -> None:
    world = ReservedWorld()
    world.ask("long", 1, 9)
    world.ask("other", 1, 9, "speech")
    world.engine.on_pod(build_pod("stray", quota="vision", cpu=1))
    world.reserve(at_start="Evict", scope=ReservationScope(quotas=("vision",)))
    assert evicted(world, T1) == ["long"]


@pytest.mark.parametrize(
    ("fields", "declares"),
    [
        pytest.param({"margin": "10m"}, 110 * 60, id="the margin is longer"),
        pytest.param({"margin": "1m"}, 100 * 60, id="the grace is longer"),
    ],
)
def test_what_starts_is_not_evicted_if_it_ends_as_it_declares(
    fields: dict[str, Any], declares: int
) -> None:
    world = ReservedWorld()
    world.reserve(at_start="Evict", grace="20m" if "1m" in fields.values() else "5m", **fields)
    assert world.ask("late", 1, (declares + 1) / HOUR) == []
    assert world.ask("fits", 1, declares / HOUR) == ["fits"]


def test_nothing_starts_that_would_be_evicted_at_once() -> None:
    world = ReservedWorld("2026-12-03T17:54:59")
    world.reserve(at_start="Evict", undeclared="Start")
    assert world.ask("just", 1, None) == ["just"]
    world.wait("2026-12-03T17:55")
    assert world.ask("late", 1, None) == []
    assert evicted(world, world.second) == ["just"]


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"at_start": "Continue"}, id="it no longer evicts"),
        pytest.param({"at_start": "Evict", "start": "2026-12-04T18:00"}, id="it is moved"),
        pytest.param({"at_start": "Evict", "grace": "1m"}, id="its grace is shorter"),
    ],
)
def test_an_edit_counts_at_once(edit: dict[str, Any]) -> None:
    world = ReservedWorld()
    world.ask("long", 1, 9)
    world.reserve(at_start="Evict")
    world.reserve(**edit)
    assert evicted(world, T1 - 300) == []


def test_an_edit_that_cannot_be_read_changes_nothing() -> None:
    world = ReservedWorld()
    world.ask("long", 1, 9)
    world.reserve(at_start="Evict")
    world.reserve(at_start="Continue", grace="soon")
    assert evicted(world, T1) == ["long"]
    world.reserve(at_start="Never")
    assert evicted(world, T1) == ["long"]


def test_a_shorter_grace_wakes_what_may_start_now() -> None:
    world = ReservedWorld()
    world.reserve(at_start="Evict", grace="30m")
    assert world.ask("waits", 1, 100 * 60 / HOUR) == []
    assert world.reserve(at_start="Evict", grace="20m") == ["waits"]


def test_a_grace_within_the_margin_wakes_when_it_is_shorter() -> None:
    world = ReservedWorld("2026-12-03T17:57")
    world.reserve(at_start="Evict", undeclared="Start")
    assert world.ask("waits", 1, None) == []
    assert world.reserve(at_start="Evict", undeclared="Start", grace="1m") == ["waits"]


def test_what_is_being_evicted_is_not_evicted_again() -> None:
    world = ReservedWorld()
    world.ask("long", 1, 9)
    world.reserve(at_start="Evict")
    record = world.engine.record("ns/long")
    assert record is not None
    asked = with_eviction(record.unit, "ReservedFor", "", datetime.fromtimestamp(world.second, UTC))
    world.engine.on_queue_unit(changed(record.unit, world.version(), conditions=asked))
    assert evicted(world, T1) == []
