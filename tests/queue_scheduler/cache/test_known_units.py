"""What is asked about all units follows the states that they move through."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.known_units import (
    charged_elsewhere,
    count_admitted,
    count_held,
    count_pending,
    every_hold,
    held_for,
    in_key_order,
    last_version,
    occupying_units,
    pending_units,
    place_in,
    quotas_in_use,
    unit_at,
    units_by_key,
)
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue import AdmissionCheckReference
from shared_api.well_known_labels import STOP_POLICY
from tests.properties.engine_kit import (
    admitted,
    build_check,
    build_queue,
    build_quota,
    build_unit,
    new_engine,
)

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
    assert [unit_at(engine.units, place) for place in places] == list(
        pending_units(engine.units, "a")
    )


def test_the_last_version_is_the_highest_and_0_without_units(engine: Engine) -> None:
    assert last_version(engine.units) == 9
    empty, _ = new_engine()
    assert last_version(empty.units) == 0


def test_units_are_counted_by_queue_and_state(engine: Engine) -> None:
    engine.on_queue_unit(admitted(build_unit("b", "a", version=8), 10))
    engine.on_queue_unit(build_unit("lost", "elsewhere", version=11))
    units = engine.units
    assert (count_pending(units, "a"), count_admitted(units, "a")) == (2, 1)
    assert (count_pending(units, "gone"), count_admitted(units, "gone")) == (0, 0)
    held = {reason for reason, count in count_held(units, "").items() if count}
    assert held == {Reason.NO_QUOTA}
    assert count_held(units, "a") == {}


def test_pending_units_come_in_order_and_none_of_an_unknown_queue(engine: Engine) -> None:
    queue = engine.queues.find("a")
    assert queue is not None
    got = [record.unit.metadata.name for record in pending_units(engine.units, "a")]
    assert got == [
        unit_at(engine.units, place).unit.metadata.name for place in queue.pending.in_order()
    ]
    assert len(got) == len(NAMES)
    assert list(pending_units(engine.units, "gone")) == []


def test_units_are_held_for_a_queue_until_it_exists(engine: Engine) -> None:
    engine.on_queue_gone("a")
    assert sorted(held_for(engine.units, "a")) == ["ns/a", "ns/b", "ns/c"]
    engine.on_queue(build_queue("a"))
    assert held_for(engine.units, "a") == ()


def test_every_hold_of_a_unit_is_found_and_its_record_says_the_first(engine: Engine) -> None:
    checks = (AdmissionCheckReference(name="c"),)
    engine.on_admission_check(build_check("c", "False"))
    engine.on_queue(build_queue("a", annotations={STOP_POLICY: "Hold"}, admission_checks=checks))
    record = engine.record("ns/a")
    assert record is not None
    assert record.hold is not None
    want = [Reason.ADMISSION_CHECK_INACTIVE, Reason.STOPPED_QUEUE]
    holds = list(every_hold(engine.units, record))
    assert [each.reason for each in holds] == want
    assert holds[0] == record.hold


def test_quotas_are_in_use_by_pending_and_by_admitted_units(engine: Engine) -> None:
    queue = engine.queues.find("a")
    assert queue is not None
    assert quotas_in_use(engine.units, queue) == ["a"]
    for name in NAMES:
        engine.on_queue_unit_gone(build_unit(name, "a"))
    assert quotas_in_use(engine.units, queue) == []
    engine.on_queue_unit(admitted(build_unit("runs", "a", version=12), 12))
    assert quotas_in_use(engine.units, queue) == ["a"]


def test_a_unit_has_its_place_in_its_queue_and_one_more_urgent_an_earlier(engine: Engine) -> None:
    queue, record = engine.queues.find("a"), engine.record("ns/a")
    assert queue is not None
    assert record is not None
    assert record.info is not None
    assert place_in(engine.units, queue, record.unit) == record.info.order_key
    urgent = replace(record.unit, spec=replace(record.unit.spec, priority=9))
    assert place_in(engine.units, queue, urgent) < record.info.order_key


def test_nothing_is_charged_elsewhere_without_pods_that_name_another_quota(engine: Engine) -> None:
    record = engine.record("ns/a")
    assert record is not None
    assert charged_elsewhere(engine.units, record) == {}
