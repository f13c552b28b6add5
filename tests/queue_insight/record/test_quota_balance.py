"""What quotas borrow and lend, and who waits."""

from __future__ import annotations

from typing import Any

from queue_insight.record.engine_samples import take_samples
from queue_insight.record.quota_balance import keys_of_waiting, read_balances
from queue_insight.record.use_sums import QuotaUse, UseKey
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import (
    elastic_quota,
    queue,
    queue_unit,
    queue_unit_body,
    to_struct,
    with_status,
)
from tests.queue_insight.insight_kit import new_engine

CORE = 1000


def running(name: str, quota: str, cpu: int, namespace: str = "default") -> QueueUnit:
    meta = {"uid": name, "resourceVersion": "1"}
    body = queue_unit_body(
        name, namespace=namespace, quota=quota, requests={"cpu": cpu}, metadata=meta
    )
    grant = {"name": "main", "replicas": 1, "running": 1, "resources": {"cpu": str(cpu)}}
    return to_struct(QueueUnit, with_status(body, phase="Running", admissions=[grant]))


def engine_with(**used: int) -> Engine:
    """Return an engine with the quotas a, b and c of `min` 8, 2 and 4 cores, and such use."""
    engine = new_engine()
    for name, least in (("a", 8), ("b", 2), ("c", 4)):
        more: dict[str, Any] = {}
        if name == "c":
            more = {
                "metadata": {
                    "labels": {"quota.scheduling.koordinator.sh/allow-lent-resource": "false"}
                }
            }
        engine.on_quota(elastic_quota(name, min={"cpu": least}, max={"cpu": 14}, **more))
        engine.on_queue(queue(name))
    for name, cpu in used.items():
        engine.on_queue_unit(running(f"of-{name}", name, cpu))
    return engine


def balances(engine: Engine) -> dict[str, QuotaUse]:
    return read_balances(engine, take_samples(engine, ()), 60)


def test_what_is_used_above_min_is_borrowed_and_what_is_unused_lent() -> None:
    got = balances(engine_with(a=2, b=6))
    assert {name: (use.borrowed, use.lent) for name, use in got.items()} == {
        "a": ({}, {"cpu": 6 * CORE * 60}),
        "b": ({"cpu": 4 * CORE * 60}, {}),
    }, "c may not lend"
    assert got["b"].namespaces == (("default",),)


def test_nothing_is_lent_while_nobody_borrows() -> None:
    assert balances(engine_with(a=8, b=2)) == {}


def test_who_waits_is_found_once() -> None:
    engine = engine_with(a=8)
    for name in ("x", "y"):
        meta = {"uid": name, "resourceVersion": "1", "labels": {"koord-queue/user": "eve"}}
        engine.on_queue_unit(queue_unit(name, quota="a", requests={"cpu": 99}, metadata=meta))
    got = list(keys_of_waiting(engine))
    assert [key._replace(queue="") for key in got] == [
        UseKey("a", "", "default", "", "eve", got[0].kind)
    ]
