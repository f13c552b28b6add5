"""The content of a scrape: counts of decisions, and states read from the engine at the scrape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from queue_scheduler.cache.admission_check_rules import Shortfall
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Refused
from queue_scheduler.engine.engine import Engine
from queue_scheduler.reporting.metrics import (
    MAX_CHECK_NAMES,
    MAX_OTHER_KINDS,
    OTHER_KIND,
    QUIET_SECONDS,
    SchedulerMetrics,
    StateCollector,
    UnitMetrics,
)
from shared_api.client.resource_types import ELASTIC_QUOTAS
from shared_api.metrics import OTHER
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import ConsumerReference, QueueUnit
from shared_api.testing.virtual_clock import VirtualClock
from tests.properties.engine_kit import admitted, build_unit, changed
from tests.queue_scheduler.scrape_kit import count_everything, dequeue_of, refused_in
from tests.queue_scheduler.shell_kit import ShellKit

QUEUE = {"queue": "team"}


class Scrape:
    """A registry for the kit's engine."""

    def __init__(self, kit: ShellKit) -> None:
        self.registry = CollectorRegistry()
        self.metrics = SchedulerMetrics(self.registry)
        self.registry.register(StateCollector(kit.shared, self.metrics))
        self.clock = VirtualClock()
        self.is_synced = True
        self.gone: set[str] = set()
        self.units = UnitMetrics(
            kit.shared, lambda: self.is_synced, self.clock, lambda name: name not in self.gone
        )
        self.registry.register(self.units)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def lines_of(self, queue: str) -> list[str]:
        text = generate_latest(self.registry).decode()
        return [line for line in text.splitlines() if f'queue="{queue}"' in line]


@pytest.fixture
def scrape(kit: ShellKit) -> Scrape:
    return Scrape(kit)


def test_decisions_are_counted_by_result_and_reason(scrape: Scrape) -> None:
    scrape.metrics.on_decision("team", dequeue_of("team"), 0.0001)
    for _ in range(2):
        scrape.metrics.on_decision("team", refused_in("team"), 0.0005)
    for name in ("job_schedule_attempts", "job_schedule_attempts_total"):
        assert scrape.value(name, queue="team", result="scheduled") == 1
        assert scrape.value(name, queue="team", result="unschedulable") == 2
    assert scrape.value("koord_queue_refusals_total", queue="team", reason="OverQuotaMax") == 2
    assert scrape.value("job_scheduling_algorithm_latency_count") == 3
    assert scrape.value("job_scheduling_algorithm_latency_sum") == pytest.approx(1.1)


def test_admissions_are_counted_with_their_wait(scrape: Scrape) -> None:
    for waited in (1.0, 3.0, 100_000.0):
        scrape.metrics.on_admitted("team", waited)
    wait = "koord_queue_admission_wait_time_seconds"
    assert scrape.value("koord_queue_admitted_units_total", **QUEUE) == 3
    assert scrape.value(f"{wait}_sum", **QUEUE) == 100_004.0
    assert scrape.value(f"{wait}_count", **QUEUE) == 3
    buckets = [
        scrape.value(f"{wait}_bucket", le=le, **QUEUE) for le in ("1.0", "10.0", "3600.0", "+Inf")
    ]
    assert buckets == [1, 2, 2, 3]


def test_runs_are_counted_with_their_time(scrape: Scrape) -> None:
    for ran in (10.0, 30.0, 1_000_000.0):
        scrape.metrics.on_run_ended("team", ran)
    run = "koord_queue_run_time_seconds"
    assert scrape.value(f"{run}_sum", **QUEUE) == 1_000_040.0
    buckets = [
        scrape.value(f"{run}_bucket", le=le, **QUEUE) for le in ("10.0", "60.0", "604800.0", "+Inf")
    ]
    assert buckets == [1, 2, 2, 3]


def test_states_are_read_at_a_scrape(kit: ShellKit, scrape: Scrape) -> None:
    assert scrape.value("queueunits_in_active_queue", **QUEUE) == 0
    for name in ("a", "b", "c"):
        kit.add_unit(name, cpu=3)
    kit.dequeue()
    assert scrape.value("queueunits_in_active_queue", **QUEUE) == 2
    assert scrape.value("koord_queue_admitted_units_current", **QUEUE) == 1
    cpu = {"quota": "team", "resource": "cpu"}
    assert scrape.value("dequeued_quota_usage_by_quota", **cpu) == 3000
    assert scrape.value("koord_queue_quota_max", **cpu) == 4000
    assert scrape.value("koord_queue_quota_min", **cpu) == 4000


def test_waiting_units_are_counted_by_reason(kit: ShellKit, scrape: Scrape) -> None:
    pending = "koord_queue_pending_units"
    for name in ("a", "b", "c"):
        kit.add_unit(name, cpu=3)
    assert scrape.value(pending, queue="team", reason="Pending") == 3
    kit.dequeue()
    assert isinstance(kit.decide(), Refused)
    kit.add_unit("stopped", active=False)
    kit.add_unit("lost", quota="nobody")
    in_backoff = kit.add_unit("evicted")
    kit.shared.apply(Engine.on_queue_unit, changed(in_backoff, 10_000, "TimeoutBackoff"))
    assert scrape.value(pending, queue="team", reason="Pending") is None
    assert scrape.value(pending, queue="team", reason="OverQuotaMax") == 2
    assert scrape.value(pending, queue="team", reason="Inactive") == 1
    assert scrape.value(pending, queue="team", reason="InBackoff") == 1
    assert scrape.value(pending, queue="", reason="NoQuota") == 1
    assert scrape.value("queueunits_in_active_queue", **QUEUE) == 3
    assert scrape.value("queueunits_in_backoff_queue", **QUEUE) == 1


# --- removed series -----------------------------------------------------------------------------


def test_series_of_deleted_queues_vanish(kit: ShellKit, scrape: Scrape) -> None:
    kit.add_queue("other")
    count_everything(scrape.metrics, ["team", "other"])
    assert scrape.lines_of("team")
    kit.shared.apply(Engine.on_queue_gone, "team")
    assert scrape.lines_of("team") == []
    assert scrape.lines_of("other")


def test_a_late_count_does_not_restore_a_deleted_queue(kit: ShellKit, scrape: Scrape) -> None:
    count_everything(scrape.metrics, ["team"])
    kit.shared.apply(Engine.on_queue_gone, "team")
    assert scrape.lines_of("team") == []
    count_everything(scrape.metrics, ["team"])
    assert scrape.lines_of("team") == []
    assert scrape.metrics.counted() == {}
    kit.learn_queue("team")
    assert scrape.value("koord_queue_admitted_units_total", **QUEUE) is None
    scrape.metrics.on_admitted("team", 1.0)
    assert scrape.value("koord_queue_admitted_units_total", **QUEUE) == 1


class Interrupted(SharedEngine):
    """An engine at which something happens right after the first answer."""

    happens: Callable[[], None] | None = None

    def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().ask(question, *args, **kwargs)
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return answer


def test_a_queue_created_during_a_scrape_keeps_its_counts(kit: ShellKit) -> None:
    shared, registry = Interrupted(kit.engine, lambda _: None), CollectorRegistry()
    metrics = SchedulerMetrics(registry)
    registry.register(StateCollector(shared, metrics))

    def comes() -> None:
        kit.add_queue("fresh")
        metrics.on_admitted("fresh", 1.0)

    shared.happens = comes
    generate_latest(registry)
    got = registry.get_sample_value("koord_queue_admitted_units_total", {"queue": "fresh"})
    assert got == 1


def test_series_of_deleted_quotas_vanish(kit: ShellKit, scrape: Scrape) -> None:
    kit.add_quota("gone", 4)
    cpu = {"quota": "gone", "resource": "cpu"}
    assert scrape.value("koord_queue_quota_max", **cpu) == 4000
    kit.shared.apply(Engine.on_quota_gone, kit.client.get(ELASTIC_QUOTAS, "default", "gone"))
    assert scrape.value("koord_queue_quota_max", **cpu) is None


# --- units by namespace and kind of job -----------------------------------------------------------

UNIT = build_unit("u", "team", job="job-uid", namespace="ns")
BY_TYPE, COMING = "queueunits_by_job_type", "queueunits_coming_rate_by_job_type"
NS_JOB = {"namespace": "ns", "type": "Job"}


def of_kind(kind: str) -> QueueUnit:
    consumer = ConsumerReference(kind=kind, uid=Uid(kind))
    return replace(UNIT, spec=replace(UNIT.spec, consumer_ref=consumer))


def test_units_are_counted_by_namespace_and_kind(scrape: Scrape) -> None:
    other = build_unit("v", "team", namespace="ns")
    for unit in (UNIT, other):
        scrape.units.on_queue_unit(None, unit)
    later = changed(UNIT, 2, "Running")
    scrape.units.on_queue_unit(UNIT, later)
    assert scrape.value(BY_TYPE, **NS_JOB) == 1
    assert scrape.value(BY_TYPE, namespace="ns", type="") == 1
    scrape.units.on_queue_unit(later, None)
    assert scrape.value(BY_TYPE, **NS_JOB) is None
    scrape.units.on_queue_unit(other, build_unit("v", "team", job="late", namespace="ns"))
    assert scrape.value(BY_TYPE, **NS_JOB) == 1
    assert scrape.value(BY_TYPE, namespace="ns", type="") is None


def test_unknown_kinds_are_shown_together_above_a_number(scrape: Scrape) -> None:
    made_up = [of_kind(f"Kind{number}") for number in range(MAX_OTHER_KINDS + 2)]
    for unit in [*made_up, of_kind("RayJob")]:
        scrape.units.on_queue_unit(None, unit)
    assert scrape.value(BY_TYPE, namespace="ns", type="Kind0") == 1
    assert scrape.value(BY_TYPE, namespace="ns", type=OTHER_KIND) == 2
    assert scrape.value(COMING, namespace="ns", type=OTHER_KIND, status="Enqueued") == 2
    assert scrape.value(BY_TYPE, namespace="ns", type="RayJob") == 1
    for unit in made_up:
        scrape.units.on_queue_unit(unit, None)
    assert scrape.value(BY_TYPE, namespace="ns", type="Kind0") is None
    assert scrape.value(BY_TYPE, namespace="ns", type=OTHER_KIND) is None


def test_arrivals_are_counted_and_existing_units_are_none(scrape: Scrape) -> None:
    scrape.is_synced = False
    scrape.units.on_queue_unit(None, UNIT)
    scrape.is_synced = True
    assert scrape.value(COMING, status="Enqueued", **NS_JOB) is None
    scrape.units.on_queue_unit(UNIT, UNIT)
    scrape.units.on_queue_unit(None, build_unit("v", job="2"))
    scrape.units.on_queue_unit(None, changed(build_unit("w", job="3"), 2, "Running"))
    assert scrape.value(COMING, status="Enqueued", **NS_JOB) == 1
    assert scrape.value(COMING, status="Running", **NS_JOB) == 1


def test_arrivals_are_forgotten_when_their_namespace_is_quiet(scrape: Scrape) -> None:
    for unit in (UNIT, build_unit("v", job="2", namespace="busy")):
        scrape.units.on_queue_unit(None, unit)
    scrape.units.on_queue_unit(UNIT, None)
    scrape.clock.advance(QUIET_SECONDS - 1)
    assert scrape.value(COMING, status="Enqueued", **NS_JOB) == 1
    scrape.clock.advance(2)
    assert scrape.value(COMING, status="Enqueued", **NS_JOB) is None
    assert scrape.value(COMING, status="Enqueued", namespace="busy", type="Job") == 1


def test_arrivals_are_removed_with_their_namespace(scrape: Scrape) -> None:
    scrape.units.on_queue_unit(None, UNIT)
    scrape.gone.add("ns")
    assert scrape.value(COMING, status="Enqueued", **NS_JOB) == 1, "its unit still exists"
    scrape.units.on_queue_unit(UNIT, None)
    assert scrape.value(COMING, status="Enqueued", **NS_JOB) is None


def test_charged_usage_is_summed_by_namespace(kit: ShellKit, scrape: Scrape) -> None:
    def book(number: int, namespace: str) -> QueueUnit:
        waiting = build_unit(f"u{number}", "team", cpu=2, namespace=namespace)
        booked = admitted(waiting, 10 + number)
        kit.shared.apply(Engine.on_queue_unit, booked)
        scrape.units.on_queue_unit(None, waiting)
        scrape.units.on_queue_unit(waiting, booked)
        return booked

    book(0, "ns0")
    book(1, "ns0")
    booked = book(2, "ns1")
    name = "dequeued_quota_usage_by_namespace"
    assert scrape.value(name, namespace="ns0", resource="cpu") == 4000
    assert scrape.value(name, namespace="ns1", resource="cpu") == 2000
    ended = changed(booked, 20, "Succeed", admissions=())
    kit.shared.apply(Engine.on_queue_unit, ended)
    scrape.units.on_queue_unit(booked, ended)
    assert scrape.value(name, namespace="ns1", resource="cpu") is None
    scrape.units.on_queue_unit(ended, None)


# --- what it costs --------------------------------------------------------------------------------

MOST_LINES_PER_QUEUE = 35
"""With its own quota, of one resource, and units that wait for two reasons. Another resource of the
quota is three more, or four with runtimes; another reason is one or two."""


def test_a_queue_costs_few_lines(kit: ShellKit, scrape: Scrape) -> None:
    def lines() -> int:
        return len(generate_latest(scrape.registry).splitlines())

    count_everything(scrape.metrics, ["team"])
    before = lines()
    for number in range(10):
        name = f"team{number}"
        kit.add_quota(name, 4)
        for letter in ("a", "b"):
            kit.add_unit(f"{letter}{number}", quota=name, cpu=3)
        kit.add_unit(f"c{number}", quota=name, active=False)
        kit.dequeue(name)
        assert isinstance(kit.decide(name), Refused)
        count_everything(scrape.metrics, [name])
    assert lines() - before <= 10 * MOST_LINES_PER_QUEUE


def test_checks_are_counted_by_name_up_to_a_limit() -> None:
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry)
    for number in range(MAX_CHECK_NAMES + 2):
        metrics.on_check_failed(f"check-{number}", Shortfall.TIMEOUT)
    metrics.on_check_failed("check-0", Shortfall.RETRY)
    name = "koord_queue_admission_check_failures_total"

    def value(check: str, result: str) -> float | None:
        return registry.get_sample_value(name, {"check": check, "result": result})

    assert (value("check-0", "timeout"), value("check-0", "retry")) == (1.0, 1.0)
    assert value(OTHER, "timeout") == 2.0
    assert value(f"check-{MAX_CHECK_NAMES}", "timeout") is None


def test_counts_of_a_deleted_check_are_removed_and_make_room() -> None:
    registry, gone = CollectorRegistry(), {"never-there"}
    metrics = SchedulerMetrics(registry, has_check=lambda name: name not in gone)
    name = "koord_queue_admission_check_failures_total"

    def checks() -> set[str]:
        families = (each for each in registry.collect())
        return {
            each.labels["check"] for one in families for each in one.samples if each.name == name
        }

    for check in ("never-there", "gone", "stays"):
        metrics.on_check_failed(check, Shortfall.TIMEOUT)
    assert checks() == {"gone", "stays"}
    gone.add("gone")
    assert checks() == {"stays"}
    metrics.on_check_failed("gone", Shortfall.TIMEOUT)  # late
    assert checks() == {"stays"}
