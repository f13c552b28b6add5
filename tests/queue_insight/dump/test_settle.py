"""What is in flight counts as written in a dump; a write that failed is taken back."""

from __future__ import annotations

from queue_insight.dump.settle import settle
from queue_insight.record.digest import digest
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Dequeue, WriteFailure
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue_unit import QueueUnit
from tests.properties.engine_kit import build_queue, build_quota, build_unit
from tests.properties.real_quotas import new_engine
from tests.properties.test_dumps import AT


def decided(unit: QueueUnit, cpu: int = 9) -> tuple[Engine, Dequeue]:
    """Return an engine that has decided a unit."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_quota(build_quota("a", cpu=cpu))
    engine.on_queue(build_queue("a"))
    engine.on_queue_unit(unit)
    decision = engine.decide_next("a", 0.0)
    assert isinstance(decision, Dequeue)
    return engine, decision


def test_an_admission_counts_as_written() -> None:
    engine, _ = decided(build_unit("u", "a", cpu=2))
    before = engine.usage.charge_of(engine.units.records["ns/u"].uid)
    settle(engine, AT)
    record = engine.units.records["ns/u"]
    assert (record.state, engine.usage.charge_of(record.uid)) == (UnitState.ADMITTED, before)


def test_an_admission_with_fewer_pods_counts_with_these() -> None:
    engine, decision = decided(build_unit("u", "a", pods=(("main", 5, 1, 1),)), cpu=3)
    assert sum(grant.replicas for grant in decision.grants) == 3
    settle(engine, AT)
    (admission,) = engine.units.records["ns/u"].unit.status.admissions
    assert admission.replicas == 3


def test_a_unit_whose_write_met_a_conflict_waits_again() -> None:
    engine, decision = decided(build_unit("u", "a"))
    engine.on_write_failed(decision, WriteFailure.CONFLICT)
    settle(engine, AT)
    assert engine.units.records["ns/u"].state is UnitState.WAITING


def test_where_nothing_is_in_flight_nothing_changes() -> None:
    engine, decision = decided(build_unit("u", "a"))
    engine.on_write_failed(decision, WriteFailure.REJECTED)
    before = digest(engine)
    settle(engine, AT)
    assert digest(engine) == before
