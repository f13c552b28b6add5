"""Held pods that name the parking quota: they claim nothing, and no unit is charged there."""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.queue_objects.queue_reconciler import DeleteQueue, decide_queue
from queue_scheduler.refusal_texts import stable_message
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import elastic_quota, queue
from tests.properties.engine_kit import build_quota, started
from tests.queue_scheduler.engine.test_engine_unbound_pods import (
    ask,
    held,
    new_engine,
    run,
    unit_of,
)

MANAGED = {"labels": {"create-by-koordqueue": "true"}, "uid": "q1"}


def parking(name: str = "parked") -> ElasticQuota:
    """Return the quota that the chart makes."""
    labels = {"koord-queue/parking-quota": "true"}
    return elastic_quota(name, namespace="koord-queue", metadata={"labels": labels})


def new_cluster() -> Engine:
    """Return ten cores, quotas a and b of ten without a min, and the parking quota."""
    engine = new_engine("a", "b")
    engine.on_quota(parking())
    return engine


def test_they_press_nobody() -> None:
    engine = new_cluster()
    run(engine, "first", "a", 2)
    engine.on_pod(held("big", "parked", 9))
    engine.on_queue_unit(unit_of("big", "b", 9))
    engine.on_queue_unit(unit_of("second", "a", 6))
    assert started(ask(engine, "a")) == ["second"]
    ask(engine, "b")
    refusal = refusal_of_unit(engine, "ns/big")
    assert refusal is not None, "its own quota is b, where it does not fit"


def test_of_two_that_are_too_large_together_the_first_starts() -> None:
    engine = new_cluster()
    for name, quota, cpu in (("six", "a", 6), ("nine", "b", 9)):
        engine.on_pod(held(name, "parked", cpu))
        engine.on_queue_unit(unit_of(name, quota, cpu))
    assert started(ask(engine, "a", "b")) == ["six"]


def test_under_their_own_labels_both_wait() -> None:
    engine = new_cluster()
    for name, quota, cpu in (("six", "a", 6), ("nine", "b", 9)):
        engine.on_pod(held(name, quota, cpu))
        engine.on_queue_unit(unit_of(name, quota, cpu))
    assert started(ask(engine, "a", "b")) == []


def test_a_unit_that_names_the_parking_quota_waits_with_the_reason() -> None:
    engine = new_cluster()
    engine.on_queue_unit(unit_of("mine", "parked", 1))
    refusal = refusal_of_unit(engine, "ns/mine")
    assert refusal is not None
    assert refusal.reason is Reason.NO_QUOTA
    assert stable_message(refusal) == (
        "no quota: parked only parks pods at the gate, and no unit is charged to it; name another"
    )


def test_it_is_a_quota_of_units_while_it_lacks_the_label() -> None:
    engine = new_cluster()
    engine.on_queue_unit(unit_of("mine", "a", 1))
    own = build_quota("a", cpu=10)
    labels = parking().metadata.labels
    engine.on_quota(replace(own, metadata=replace(own.metadata, labels=labels)))
    assert started(ask(engine, "a")) == []
    engine.on_quota(own)
    assert started(ask(engine, "a")) == ["mine"]


def test_it_gets_no_queue_and_loses_the_one_it_had() -> None:
    assert decide_queue("parked", "koord-queue", parking(), None) is None
    had = queue("parked", metadata=MANAGED)
    assert isinstance(decide_queue("parked", "koord-queue", parking(), had), DeleteQueue)
