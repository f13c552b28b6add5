"""A stopped queue starts no unit, is in no other's way, and resumes at once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.known_units import count_admitted
from queue_scheduler.decision import Dequeue, Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue import Queue, QueueStatus
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import MAX_DEPTH, STOP_POLICY
from tests.properties.engine_kit import (
    Workers,
    admitted,
    build_queue,
    build_quota,
    build_unit,
    new_engine,
    started,
)


def stopped(policy: str, name: str = "a", *, reported: str = "") -> Queue:
    queue = build_queue(name, annotations={STOP_POLICY: policy})
    return replace(queue, status=QueueStatus(stop_policy_in_force=reported))


def reason_of(engine: Engine, unit: str) -> Reason | None:
    refusal = refusal_of_unit(engine, f"ns/{unit}")
    return refusal.reason if refusal is not None else None


@pytest.fixture
def workers() -> Workers:
    """Return one queue of one quota of two cores."""
    engine, _ = new_engine()
    engine.on_quota(build_quota("a", cpu=2))
    workers = Workers(engine)
    workers.wake(engine.on_queue(build_queue("a")))
    return workers


def apply(workers: Workers, *things: Queue | QueueUnit) -> list[str]:
    """Deliver queues and units; return the units that start then."""
    for thing in things:
        if isinstance(thing, Queue):
            workers.wake(workers.engine.on_queue(thing))
        else:
            workers.wake(workers.engine.on_queue_unit(thing))
    return started(workers.run())


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_no_unit_starts_until_it_resumes(workers: Workers, policy: str) -> None:
    engine = workers.engine
    assert apply(workers, stopped(policy), build_unit("u", "a")) == []
    assert reason_of(engine, "u") is Reason.STOPPED_QUEUE
    assert not engine.queues.may_start("a")
    assert apply(workers, build_queue("a")) == ["u"]
    assert engine.queues.may_start("a")


def test_started_units_run_on_and_stay_charged(workers: Workers) -> None:
    unit = build_unit("u", "a", cpu=2)
    apply(workers, unit)
    apply(workers, stopped("Hold"), admitted(unit, 2), build_unit("v", "a"))
    assert count_admitted(workers.engine.units, "a") == 1
    assert apply(workers, build_queue("a")) == [], "its quota is full"


@pytest.mark.parametrize(
    ("first", "want"),
    [pytest.param("Hold", False, id="held"), pytest.param("None", True, id="not stopped")],
)
def test_an_unknown_value_changes_nothing_and_is_reported(
    workers: Workers, first: str, *, want: bool
) -> None:
    engine = workers.engine
    apply(workers, stopped(first))
    assert engine.take_notices() == []
    apply(workers, stopped("hodl"))
    assert engine.queues.may_start("a") is want
    (notice,) = engine.take_notices()
    assert (notice.kind, notice.reason) == ("Queue", "UnreadableAnnotation")
    assert f"stays: {first}" in notice.note
    apply(workers, stopped("hodl"))
    assert engine.take_notices() == [], "once"


def test_a_depth_that_is_not_a_number_is_reported(workers: Workers) -> None:
    apply(workers, build_queue("a", annotations={MAX_DEPTH: "some"}))
    assert [notice.reason for notice in workers.engine.take_notices()] == ["UnreadableAnnotation"]


@pytest.mark.parametrize(("reported", "want"), [("Hold", False), ("None", True), ("", True)])
def test_an_unknown_value_changes_nothing_across_a_restart(*, reported: str, want: bool) -> None:
    engine, _ = new_engine()
    engine.on_queue(stopped("hodl", reported=reported))
    assert engine.queues.may_start("a") is want


def test_a_deleted_queue_stops_no_unit(workers: Workers) -> None:
    apply(workers, stopped("Hold"))
    workers.engine.on_queue_gone("a")
    assert workers.engine.queues.may_start("a")


def test_no_room_is_kept_for_a_unit_of_a_stopped_queue() -> None:
    plugin = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX))
    engine = Engine(PluginRunner([plugin, Priority()]), BUILT_IN_POLICIES)
    workers = Workers(engine)
    engine.on_quota(build_quota("top", cpu=4))
    for name in ("owner", "borrower"):
        guaranteed = 2 if name == "owner" else 0
        engine.on_quota(build_quota(name, cpu=4, guaranteed=guaranteed, parent="top"))
        workers.wake(engine.on_queue(build_queue(name)))
    apply(workers, *(build_unit(f"b{n}", "borrower", cpu=1) for n in range(3)))
    apply(workers, build_unit("owned", "owner", cpu=2))
    assert apply(workers, build_unit("more", "borrower")) == [], "the owner needs that room"
    assert reason_of(engine, "more") is Reason.GUARANTEE_OF_OTHERS
    assert apply(workers, stopped("Hold", "owner")) == ["more"]
    assert not any(isinstance(d, Dequeue) and d.queue == "owner" for d in workers.decided)
