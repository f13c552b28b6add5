"""What is asked about all units follows the states that they move through."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.known_units import (
    in_key_order,
    last_version,
    occupying_units,
    unit_at,
    units_by_key,
)
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.engine.engine import Engine
from tests.properties.engine_kit import admitted, build_queue, build_quota, build_unit, new_engine

NAMES = ("c", "a", "b")


@pytest.fixture
def engine() -> Engine:
    """Return an engine with pending units: neither their names nor their versions are in order."""
    found, _ = new_engine()
    found.on_quota(build_quota("a", cpu=4))
    found.on_queue(build_queue("a"))
    for name, version in zip(NAMES, (7, 9, 8), strict=True):
        found.on_queue_unit(build_unit(name, "a", version=version))
    return found


def names_of(units: UnitCache) -> set[str]:
    return {record.unit.metadata.name for record in units}


def test_all_units_are_read_in_key_order_or_in_none(engine: Engine) -> None:
    assert names_of(engine.units) == set(NAMES)
    assert [record.key for record in in_key_order(engine.units)] == ["ns/a", "ns/b", "ns/c"]


def test_units_by_key_follow_changes_and_those_of_a_fork_do_not(engine: Engine) -> None:
    known, copied = units_by_key(engine.units), units_by_key(engine.fork().units)
    engine.on_queue_unit_gone(build_unit("b", "a", version=8))
    assert known.keys() == {"ns/a", "ns/c"}
    assert copied.keys() == {"ns/a", "ns/b", "ns/c"}
    assert known["ns/a"] is engine.record("ns/a")


def test_the_occupying_units_are_the_admitted_and_the_assumed_ones(engine: Engine) -> None:
    assert list(occupying_units(engine.units)) == []
    engine.on_queue_unit(admitted(build_unit("b", "a", version=8), 10))
    engine.decide_next("a", now=0.0)
    states = sorted(record.state.value for record in occupying_units(engine.units))
    assert states == [UnitState.ADMITTED.value, UnitState.ASSUMED.value]


def test_a_place_in_a_queue_leads_to_its_unit(engine: Engine) -> None:
    queue = engine.queues.find("a")
    assert queue is not None
    places = queue.pending.in_order()
    assert [unit_at(engine.units, place) for place in places] == list(engine.waiting("a"))


def test_the_last_version_is_the_highest_and_0_without_units(engine: Engine) -> None:
    assert last_version(engine.units) == 9
    empty, _ = new_engine()
    assert last_version(empty.units) == 0
