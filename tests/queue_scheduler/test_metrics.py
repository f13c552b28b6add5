"""What a scrape shows: counters of decisions, and states read from the engine at the scrape."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from queue_scheduler.decision import Dequeue, Reason, Refusal, Refused
from queue_scheduler.engine import Engine
from queue_scheduler.metrics import SchedulerMetrics, StateCollector
from queue_scheduler.wiring import read_quota_views
from shared_api.objects.meta import Uid
from tests.queue_scheduler.shell_kit import ShellKit

DEQUEUE = Dequeue(
    unit="default/a", uid=Uid("1"), resource_version="5", queue="team", quota="team", grants=()
)
REFUSED = Refused(
    unit="default/a", queue="team", refusal=Refusal(reason=Reason.OVER_QUOTA_MAX, quota="team")
)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_decisions_are_counted_by_result_and_reason(registry: CollectorRegistry) -> None:
    metrics = SchedulerMetrics(registry)
    metrics.on_decision("team", DEQUEUE, 0.0001)
    for _ in range(2):
        metrics.on_decision("team", REFUSED, 0.0005)
    value = registry.get_sample_value
    scheduled = {"queue": "team", "result": "scheduled"}
    unschedulable = {"queue": "team", "result": "unschedulable"}
    assert value("job_schedule_attempts_total", scheduled) == 1
    assert value("job_schedule_attempts_total", unschedulable) == 2
    refusals = {"queue": "team", "reason": "OverQuotaMax"}
    assert value("koord_queue_refusals_total", refusals) == 2
    assert value("job_scheduling_algorithm_latency_count") == 3
    assert value("job_scheduling_algorithm_latency_sum") == pytest.approx(1.1)


def test_admissions_are_counted_with_their_wait(registry: CollectorRegistry) -> None:
    metrics = SchedulerMetrics(registry)
    metrics.on_admitted("team", 3.0)
    value, queue = registry.get_sample_value, {"queue": "team"}
    assert value("koord_queue_admitted_units_total", queue) == 1
    assert value("koord_queue_admission_wait_time_seconds_sum", queue) == 3.0


def test_states_are_read_when_a_scrape_asks(kit: ShellKit, registry: CollectorRegistry) -> None:
    registry.register(StateCollector(kit.shared, lambda: kit.shared.ask(read_quota_views)))
    value, queue = registry.get_sample_value, {"queue": "team"}
    assert value("queueunits_in_active_queue", queue) == 0
    kit.add_unit("a", cpu=3)
    kit.add_unit("b", cpu=3)
    kit.add_unit("c", cpu=3)
    kit.dequeue()
    assert value("queueunits_in_active_queue", queue) == 2
    assert value("koord_queue_admitted_units_current", queue) == 1
    cpu = {"quota": "team", "resource": "cpu"}
    assert value("dequeued_quota_usage_by_quota", cpu) == 3000
    assert value("koord_queue_quota_max", cpu) == 4000
    assert value("koord_queue_quota_min", cpu) == 4000


def test_series_of_gone_queues_vanish(kit: ShellKit, registry: CollectorRegistry) -> None:
    registry.register(StateCollector(kit.shared, list))
    kit.shared.tell(Engine.on_queue_gone, "team")
    assert registry.get_sample_value("queueunits_in_active_queue", {"queue": "team"}) is None


def test_two_collectors_of_state_can_not_clash_at_registration(kit: ShellKit) -> None:
    assert StateCollector(kit.shared, list).describe() == []
