"""Tests of shared_api.metrics: every series is driven by the behavior that it counts."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shared_api.client.flow_control import FlowControl, Lane
from shared_api.metrics import REFUSALS, SharedMetrics
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.work_queue import FAILING_RETRIES, WorkQueue


def sample(metrics: SharedMetrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def metrics() -> SharedMetrics:
    return SharedMetrics(component="koord-queue", version="1.2.3", python_version="3.11.7")


def test_a_work_queue_has_metrics(metrics: SharedMetrics) -> None:
    clock = VirtualClock(start=0)
    observer = metrics.work_queues.of_queue("jobs")
    queue = WorkQueue[str](clock, backoff=lambda _: 1.0, observer=observer)
    queue.add("a")
    queue.add("b")
    clock.advance(2)
    queue.try_get()
    clock.advance(3)
    queue.add_rate_limited("a")
    queue.done("a")
    want = {
        "workqueue_depth": 1,
        "workqueue_adds_total": 2,
        "workqueue_retries_total": 1,
        "workqueue_queue_duration_seconds_sum": 2,
        "workqueue_work_duration_seconds_sum": 3,
    }
    assert {name: sample(metrics, name, name="jobs") for name in want} == want


def test_keys_that_fail_again_and_again_are_shown_and_leave_the_program_ready(
    metrics: SharedMetrics,
) -> None:
    clock = VirtualClock(start=0)
    queues = [
        WorkQueue[str](clock, backoff=lambda _: 1.0, observer=metrics.work_queues.of_queue(name))
        for name in ("jobs", "units")
    ]
    assert metrics.work_queues.check_failing() == (True, "none fails")
    for _ in range(FAILING_RETRIES):
        queues[0].add_rate_limited("a", error=ValueError("x"))
    assert sample(metrics, "koord_queue_failing_keys", name="jobs") == 1
    assert sample(metrics, "koord_queue_failing_keys", name="units") == 0
    assert sample(metrics, "koord_queue_key_errors_total", name="jobs") == FAILING_RETRIES
    assert sample(metrics, "koord_queue_key_errors_total", name="units") == 0
    assert metrics.work_queues.check_failing() == (True, "fail again and again: jobs: 1")
    queues[0].forget("a")
    assert metrics.work_queues.check_failing() == (True, "none fails")


def test_requests_are_counted_by_code_and_timed_by_verb(metrics: SharedMetrics) -> None:
    for code in ("200", "200", "409"):
        metrics.rest_client.on_request(
            verb="patch", method="PATCH", host="h:6443", code=code, seconds=0.3
        )
    total, duration = "rest_client_requests_total", "rest_client_request_duration_seconds"
    assert sample(metrics, total, code="200", method="PATCH", host="h:6443") == 2
    assert sample(metrics, total, code="409", method="PATCH", host="h:6443") == 1
    assert sample(metrics, f"{duration}_count", verb="patch", host="h:6443") == 3
    assert sample(metrics, f"{duration}_bucket", verb="patch", host="h:6443", le="0.25") == 0
    assert sample(metrics, f"{duration}_bucket", verb="patch", host="h:6443", le="0.5") == 3


@pytest.mark.parametrize(
    ("verb", "code", "want"),
    [
        pytest.param("patch", "403", "forbidden", id="a right or a webhook"),
        pytest.param("create", "422", "invalid", id="the schema"),
        pytest.param("delete", "500", "failed", id="the server"),
        pytest.param("patch", "<error>", "failed", id="no answer"),
        pytest.param("patch", "200", "", id="it was carried out"),
        pytest.param("patch", "409", "", id="a conflict is news"),
        pytest.param("patch", "404", "", id="what is gone"),
        pytest.param("patch", "429", "", id="patience is asked for"),
        pytest.param("dry-run", "403", "", id="a dry run asks whether it would be refused"),
        pytest.param("get", "403", "", id="a read"),
    ],
)
def test_refused_writes_are_counted_by_reason(
    metrics: SharedMetrics, verb: str, code: str, want: str
) -> None:
    metrics.rest_client.on_request(verb=verb, method="X", host="h", code=code, seconds=0.1)
    got = {
        reason: sample(metrics, "koord_queue_writes_refused_total", reason=reason)
        for reason in REFUSALS
    }
    assert got == {reason: float(reason == want) for reason in REFUSALS}


def test_throttling_is_counted(metrics: SharedMetrics) -> None:
    for code in ("429", "200"):
        metrics.rest_client.on_request(verb="get", method="GET", host="h", code=code, seconds=0.1)
    clock = VirtualClock()
    flow = FlowControl(10, 1, clock, on_wait=metrics.rest_client.on_wait)
    for _ in range(3):
        flow.acquire(Lane.NORMAL, 9.0)
    flow.hold(Lane.NORMAL, 2.0)
    clock.advance(0.5)
    flow.acquire(Lane.NORMAL, 9.0)
    assert sample(metrics, "koord_queue_throttled_requests_total") == 1
    assert sample(metrics, "koord_queue_throttled_seconds_total") == pytest.approx(0.2 + 1.5)


def test_the_process_reports_its_version_and_whether_it_leads(metrics: SharedMetrics) -> None:
    build = {"component": "koord-queue", "version": "1.2.3", "python_version": "3.11.7"}
    assert sample(metrics, "koord_queue_build_info", **build) == 1
    assert sample(metrics, "koord_queue_leader") == 0
    metrics.process.on_leading(leading=True)
    assert sample(metrics, "koord_queue_leader") == 1
    metrics.process.on_leading(leading=False)
    assert sample(metrics, "koord_queue_leader") == 0
    metrics.process.on_takeover(lease=15.1, settle=0.0)
    metrics.process.on_prepared(1.5)
    parts = ("lease", "settle", "preparing")
    got = [sample(metrics, "koord_queue_takeover_seconds", part=part) for part in parts]
    assert got == [15.1, 0.0, 1.5]


def test_failing_steps_are_counted(metrics: SharedMetrics) -> None:
    metrics.process.on_thread("queue/a")
    assert sample(metrics, "koord_queue_loop_errors_total", thread="queue") == 0
    for thread in ("queue-status", "queue/a", "queue/b"):
        metrics.process.on_loop_error(thread, ValueError("no"))
    errors = "koord_queue_loop_errors_total"
    assert sample(metrics, errors, thread="queue-status") == 1
    assert sample(metrics, errors, thread="queue") == 2


def test_two_registries_in_one_process_are_independent(metrics: SharedMetrics) -> None:
    other = SharedMetrics(component="x", version="y", python_version="z")
    metrics.process.on_leading(leading=True)
    assert sample(other, "koord_queue_leader") == 0


def test_the_exposition_parses_and_has_no_created_series(metrics: SharedMetrics) -> None:
    metrics.process.on_loop_error("queue-a", ValueError("no"))
    body, content_type = metrics.exposition()
    assert content_type.startswith("text/plain; version=0.0.4")
    names = {family.name for family in text_string_to_metric_families(body.decode())}
    assert {"koord_queue_loop_errors", "process_resident_memory_bytes"} <= names
    assert b"_created" not in body


def test_a_stopped_informer_has_no_series(metrics: SharedMetrics) -> None:
    def resources() -> set[str]:
        samples = (each for one in metrics.registry.collect() for each in one.samples)
        return {each.labels["resource"] for each in samples if "resource" in each.labels}

    stays, goes = (metrics.informers.of_resource(each) for each in ("pods", "widgets"))
    for each in (stays, goes):
        each.show(
            objects=lambda: 1.0, synced=lambda: 1.0, undecodable=lambda: 0.0, watch_age=lambda: 2.0
        )
        each.on_list()
        each.on_watch_end("gone")
    assert resources() == {"pods", "widgets"}
    goes.on_stop()
    goes.on_stop()
    goes.on_list()
    goes.on_watch_end("late")
    assert resources() == {"pods"}
    metrics.informers.of_resource("widgets").on_list()
    assert resources() == {"pods", "widgets"}
