"""The index of units that hold quota, by the cost of their eviction."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.admitted_units import AdmittedUnits, in_buckets, runs_whole
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.framework.queue_unit_info import NO_DEMAND
from shared_api.objects.meta import Condition
from shared_api.objects.queue_unit import Admission, QueueUnit
from tests.properties.engine_kit import build_info, build_unit, changed


def record(unit: QueueUnit, queue: str = "q", quota: str = "a") -> CachedUnit:
    info = build_info(unit, quota, queue=queue, demand=NO_DEMAND)
    return CachedUnit(unit=unit, version=1, state=UnitState.ADMITTED, info=info)


def named(name: str, priority: int, phase: str = "Dequeued") -> CachedUnit:
    return record(changed(build_unit(name, "a", priority=priority), 1, phase))


def test_the_cheapest_come_first() -> None:
    units = AdmittedUnits()
    for each in (named("high", 5), named("runs", 1, "Running"), named("starts", 1)):
        units.add(each)
    got = [list(keys) for _, keys in in_buckets(units.of_queue("q"), below=None)]
    assert got == [["ns/starts"], ["ns/runs"], ["ns/high"]]
    assert [bucket for bucket, _ in in_buckets(units.of_quota("a"), below=5)] == [
        (1, False),
        (1, True),
    ]
    assert units.count("q") == 3


def test_a_queue_has_units_of_several_quotas_and_a_quota_of_several_queues() -> None:
    units = AdmittedUnits()
    all_of_them = [
        record(build_unit(f"{queue}-{quota}", quota, priority=1), queue, quota)
        for queue, quota in (("q", "a"), ("q", "b"), ("r", "a"))
    ]
    for each in all_of_them:
        units.add(each)
    twin = units.fork()
    units.remove(all_of_them[0])
    units.validate(all_of_them[1:])
    assert [list(keys) for _, keys in in_buckets(units.of_queue("q"), below=None)] == [["ns/q-b"]]
    assert [list(keys) for _, keys in in_buckets(units.of_quota("a"), below=None)] == [["ns/r-a"]]
    assert (units.count("q"), twin.count("q")) == (1, 2)
    twin.validate(all_of_them)
    assert [list(keys) for _, keys in in_buckets(twin.of_quota("a"), below=None)] == [
        ["ns/q-a", "ns/r-a"]
    ]


def test_running_units_can_be_left_out() -> None:
    units = AdmittedUnits()
    for each in (named("runs", 1, "Running"), named("starts", 2)):
        units.add(each)
    got = in_buckets(units.of_queue("q"), below=None, running=False)
    assert [(bucket, list(keys)) for bucket, keys in got] == [((2, False), ["ns/starts"])]


def test_a_unit_that_stays_changes_its_bucket() -> None:
    units, before, after = AdmittedUnits(), named("u", 1), named("u", 1, "Running")
    units.add(before)
    units.replace(before, after)
    units.validate([after])
    twin = units.fork()
    units.remove(after)
    units.validate([])
    twin.validate([after])


def test_departures_are_counted() -> None:
    units, stays = AdmittedUnits(), named("u", 1)
    evicted = (Condition(type="Evicted", status="True", reason="Preempted"),)
    leaves = record(changed(stays.unit, 2, conditions=evicted))
    units.add(stays)
    units.replace(stays, leaves)
    assert (list(units.leaving), units.left) == (["ns/u"], 0)
    units.remove(leaves)
    assert (list(units.leaving), units.left) == ([], 1)


def test_which_units_run_whole() -> None:
    unit = build_unit("u", "a")
    half = (Admission(name="m", replicas=2, running=1), Admission(name="w", replicas=0))
    assert not runs_whole(unit)
    assert not runs_whole(changed(unit, 2, "Dequeued", admissions=half))
    assert runs_whole(changed(unit, 2, "Running", admissions=half))
    whole = (Admission(name="m", replicas=2, running=2),)
    assert runs_whole(changed(unit, 2, "Dequeued", admissions=whole))


@pytest.mark.parametrize(
    ("to", "want"),
    [pytest.param(1, 0, id="it stays"), pytest.param(2, 1, id="its priority changes")],
)
def test_a_question_makes_no_difference_to_what_is_counted(to: int, want: int) -> None:
    before, after = named("u", 1), named("u", to)
    for asks in (False, True):
        units = AdmittedUnits()
        units.add(before)
        if asks:
            units.count("q")
        units.replace(before, after)
        assert units.changes == want
        units.validate([after])
