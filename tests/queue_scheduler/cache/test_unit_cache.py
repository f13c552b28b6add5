"""Unit states: enter and leave undo each other, counts follow, deleted units stay deleted."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.known_units import count_admitted, count_pending
from queue_scheduler.cache.unit_cache import UnitCache, UnitFinder
from queue_scheduler.cache.unit_state import CachedUnit, UnitState, judge
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.queueing.queue_policies import PRIORITY
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from tests.properties.engine_kit import (
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    changed,
)
from tests.properties.naive_quota import NaiveQuota

UNIT = build_unit("u", "a", cpu=2, version=1)


@pytest.fixture
def registry() -> UnitCache:
    plugin = NaiveQuota()
    plugin.on_quota(build_quota("a", cpu=4))
    found = UnitCache(PluginRunner([plugin]))
    found.queues.put(build_queue("a"), PRIORITY, (0,))
    return found


def placed(registry: UnitCache, unit: QueueUnit, version: int = 1) -> CachedUnit:
    registry.usage.pods.on_unit(unit, UnitFinder(registry.records)(unit.metadata.key))
    registry.place(unit, version, judge(unit))
    refresh(registry)
    return registry.records[unit.metadata.key]


def refresh(registry: UnitCache) -> None:
    """Do what the engine does after every fact."""
    registry.charges.charge_changed_pods()
    for queue in registry.queues:
        registry.queues.turns.refresh(queue, lambda quota: frozenset((f"quota/{quota}",)))
    registry.validate()


@pytest.mark.parametrize(
    ("unit", "state", "pending", "admitted_count"),
    [
        pytest.param(UNIT, UnitState.WAITING, 1, 0, id="in the queue"),
        pytest.param(admitted(UNIT, 2), UnitState.ADMITTED, 0, 1, id="booked"),
        pytest.param(changed(UNIT, 2, "Succeed"), UnitState.ENDED, 0, 0, id="ended"),
        pytest.param(changed(UNIT, 2, "TimeoutBackoff"), UnitState.ON_HOLD, 1, 0, id="in backoff"),
        pytest.param(build_unit("u", "none"), UnitState.ON_HOLD, 0, 0, id="without a queue"),
    ],
)
def test_a_unit_is_counted_in_its_state_and_nowhere_after_it_left(
    registry: UnitCache, unit: QueueUnit, state: UnitState, pending: int, admitted_count: int
) -> None:
    record, find = placed(registry, unit), UnitFinder(registry.records)
    assert record.state is state
    assert (count_pending(registry, "a"), count_admitted(registry, "a")) == (
        pending,
        admitted_count,
    )
    assert find(record.key) is record.unit
    registry.forget(record)
    refresh(registry)
    assert (count_pending(registry, "a"), count_admitted(registry, "a")) == (0, 0)
    assert find(record.key) is None
    assert dict(registry.records) == {}
    assert registry.usage.charge_of(record.uid) is None
    assert [registry.fact_waits.keys(name) for name in ("queue/a", "quota/a", "quota/none")] == [
        ()
    ] * 3


def test_a_missing_queue_is_reported_with_the_namespace_of_queues() -> None:
    engine = Engine(PluginRunner([NaiveQuota()]), (), queue_namespace="queues-here")
    engine.on_quota(build_quota("a", cpu=4))
    engine.on_queue_unit(UNIT)
    twin = engine.fork()
    for each in (engine, twin):
        refusal = refusal_of_unit(each, "ns/u")
        assert refusal is not None
        assert (refusal.reason, refusal.other) == (Reason.NO_QUEUE, "a")
        assert refusal.detail == "queues-here"


def test_units_on_hold_are_counted_by_reason(registry: UnitCache) -> None:
    in_backoff = placed(registry, changed(UNIT, 2, "TimeoutBackoff"))
    placed(registry, build_unit("v", "none"))
    assert registry.held.by_reason("a") == {Reason.IN_BACKOFF: 1}
    assert registry.held.by_reason("") == {Reason.NO_QUOTA: 1}
    twin = registry.fork(PluginRunner([NaiveQuota()]))
    registry.forget(in_backoff)
    refresh(registry)
    assert (registry.held.total("a"), twin.held.total("a")) == (0, 1)


def test_a_unit_waits_for_what_it_lacks(registry: UnitCache) -> None:
    placed(registry, build_unit("u", "none", namespace="ns"))
    assert registry.fact_waits.keys("quota/none") == ("ns/u",)
    placed(registry, build_unit("v"))
    assert registry.fact_waits.keys("namespace/ns") == ("ns/v",)
    assert registry.fact_waits.keys("quota/unknown") == ()


def test_a_unit_that_can_stay_is_not_moved(registry: UnitCache) -> None:
    record = placed(registry, UNIT)
    queue = registry.queues.find("a")
    assert queue is not None
    assert record.info is not None
    number = queue.pending.class_of(record.info).number
    renewed = changed(UNIT, 2, message="x")
    assert registry.can_stay(record, renewed, 2, judge(renewed))
    assert queue.pending.class_of(record.info).number == number
    got = registry.records["ns/u"]
    assert (got.unit, got.version, got.state) == (renewed, 2, UnitState.WAITING)
    assert got.info is not None
    assert got.info.unit is renewed


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(UNIT, build_unit("u", "a", cpu=3), False, id="another demand"),
        pytest.param(UNIT, changed(UNIT, 2, "Running"), False, id="it runs"),
        pytest.param(UNIT, build_unit("u", "a", cpu=2, active=False), False, id="inactive"),
        pytest.param(changed(UNIT, 1, "TimeoutBackoff"), UNIT, False, id="backoff is over"),
        pytest.param(
            admitted(UNIT, 1, "Running"), admitted(UNIT, 2, "Running"), True, id="pods were counted"
        ),
        pytest.param(
            admitted(UNIT, 1), admitted(UNIT, 2, "Running"), False, id="no longer in flight"
        ),
        pytest.param(admitted(UNIT, 1), changed(UNIT, 2, "Succeed"), False, id="it ended"),
        pytest.param(build_unit("u", "none"), build_unit("u", "none"), False, id="still nowhere"),
    ],
)
def test_which_units_can_stay(
    registry: UnitCache, before: QueueUnit, after: QueueUnit, *, want: bool
) -> None:
    record = placed(registry, before)
    assert registry.can_stay(record, after, 2, judge(after)) is want
    assert (registry.records["ns/u"] is record) is not want


def test_the_demand_is_read_once(registry: UnitCache) -> None:
    record = placed(registry, UNIT)
    registry.leave(record)
    registry.place(admitted(UNIT, 2), 2, UnitState.ADMITTED, record)
    after = registry.records["ns/u"]
    assert record.info is not None
    assert after.info is not None
    assert after.info.demand is record.info.demand


def test_units_of_one_shape_share_their_demand(registry: UnitCache) -> None:
    first, second = (placed(registry, build_unit(name, "a", cpu=2)) for name in "xy")
    assert first.info is not None
    assert second.info is not None
    assert first.info.demand is second.info.demand
    assert first.info.class_key is second.info.class_key


def test_deleted_units_are_remembered(registry: UnitCache) -> None:
    record = placed(registry, UNIT)
    registry.forget(record)
    assert record.uid in registry.gone
    assert Uid("never") not in registry.gone


def test_a_unit_taken_out_is_placed_again(registry: UnitCache) -> None:
    for n in range(3):
        placed(registry, build_unit(f"u{n}", "a", priority=n))
    queue = registry.queues.find("a")
    assert queue is not None
    keys = registry.pull_out(queue)
    assert keys == ["ns/u2", "ns/u1", "ns/u0"]
    assert queue.pending.length == 0
    registry.place_again(keys)
    refresh(registry)
    assert queue.pending.length == 3


def test_a_write_in_flight_is_not_placed_again(registry: UnitCache) -> None:
    record = placed(registry, UNIT)
    for state in (UnitState.ASSUMED, UnitState.CONFLICT):
        registry.leave(registry.records["ns/u"])
        changed_record = CachedUnit(unit=UNIT, version=1, state=state, info=record.info)
        registry.enter(changed_record)
        registry.place_again(["ns/u"])
        assert registry.records["ns/u"] is changed_record


def test_living_pods_of_a_deleted_unit_stay_charged_to_its_quota(registry: UnitCache) -> None:
    record = placed(registry, UNIT)
    registry.usage.pods.on_pod(build_pod("p", unit="ns/u"))
    refresh(registry)
    registry.forget(registry.records["ns/u"])
    refresh(registry)
    charge = registry.usage.charge_of(record.uid)
    assert charge is not None
    assert (charge.quota, charge.amounts) == ("a", {"cpu": 1000})


def test_a_fork_is_independent(registry: UnitCache) -> None:
    record = placed(registry, UNIT)
    twin = registry.fork(PluginRunner([NaiveQuota()]))
    twin.forget(twin.records["ns/u"])
    assert registry.records["ns/u"] is record
    assert record.uid not in registry.gone
    registry.validate()


def test_the_unit_of_a_place() -> None:
    assert unit_key((-3, "2026-11-01T00:00:00Z", "ns", "u")) == "ns/u"
