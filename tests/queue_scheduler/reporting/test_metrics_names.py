"""Every name that others rely on is in a scrape of the running scheduler, with its labels.

The names: upstream's, which its dashboard reads, and those that users of such programs expect.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from queue_scheduler.configuration import KoordQueueConfiguration
from shared_api.testing.object_builders import queue_body
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE

UPSTREAM = {
    "queueunits_in_active_queue": "queue",
    "queueunits_in_backoff_queue": "queue",
    "dequeued_quota_usage_by_quota": "quota resource",
    "dequeued_quota_usage_by_namespace": "namespace resource",
    "job_scheduling_algorithm_latency_bucket": "le",
    "job_scheduling_algorithm_latency_sum": "",
    "job_scheduling_algorithm_latency_count": "",
    "job_schedule_attempts": "queue result",
    "queueunits_by_job_type": "namespace type",
    "queueunits_coming_rate_by_job_type": "namespace type status",
    "rest_client_request_duration_seconds_bucket": "verb host le",
    "rest_client_requests_total": "code method host",
}

EXPECTED = {
    # attempts, latency (above), pending by queue and reason, wait time
    "job_schedule_attempts_total": "queue result",
    "koord_queue_refusals_total": "queue reason",
    "koord_queue_pending_units": "queue reason",
    "koord_queue_admitted_units_total": "queue",
    "koord_queue_admitted_units_current": "queue",
    "koord_queue_admission_wait_time_seconds_bucket": "queue le",
    "koord_queue_admission_wait_time_seconds_sum": "queue",
    "koord_queue_admission_wait_time_seconds_count": "queue",
    "koord_queue_run_time_seconds_bucket": "queue le",
    "koord_queue_head_age_seconds": "queue",
    "koord_queue_units_without_pods": "",
    "koord_queue_units_without_pods_seconds": "",
    "koord_queue_writes_refused_total": "reason",
    "koord_queue_throttled_requests_total": "",
    "koord_queue_throttled_seconds_total": "",
    # refusals by admission checks
    "koord_queue_admission_check_failures_total": "check result",
    # strict mode
    "koord_queue_units_without_nodes_total": "verdict",
    # self-audit
    "koord_queue_audit_differences_total": "kind",
    "koord_queue_audit_age_seconds": "",
    # usage (above), min and max per quota and resource
    "koord_queue_quota_min": "quota resource",
    "koord_queue_quota_max": "quota resource",
    "koord_queue_quota_runtime": "quota resource",
    # build and leadership
    "koord_queue_build_info": "component version python_version",
    "koord_queue_leader": "",
    "koord_queue_takeover_seconds": "part",
    # health, as controller-runtime has it
    "workqueue_depth": "name",
    "workqueue_adds_total": "name",
    "workqueue_retries_total": "name",
    "workqueue_queue_duration_seconds_bucket": "name le",
    "workqueue_work_duration_seconds_bucket": "name le",
    # caches
    "koord_queue_informer_objects": "resource",
    "koord_queue_informer_synced": "resource",
    "koord_queue_informer_undecodable_objects": "resource",
    "koord_queue_informer_watch_age_seconds": "resource",
    "koord_queue_informer_lists_total": "resource",
    "koord_queue_informer_decode_failures_total": "resource",
    "koord_queue_informer_handler_errors_total": "resource",
}

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "namespace": "default"}
EARLIER = "2026-11-01T09:00:00Z"
TAKES_ALL = {"annotations": {"koord-queue/available-quota-in-queue": "*"}}


@pytest.fixture(scope="module")
def text() -> Iterator[str]:
    """Return a scrape of a scheduler that has admitted, refused and evicted units."""
    with running_world() as world:
        world.start(configuration=KoordQueueConfiguration())
        populate(world)
        yield world.metrics.exposition()[0].decode()


def populate(world: SchedulerWorld) -> None:
    world.add_quota()
    world.settle()
    refused = {"name": "nodes", "state": "Rejected", "message": "", "lastTransitionTime": EARLIER}
    world.direct.create(
        queue_body("checked", admissionChecks=[{"name": "nodes"}], metadata=TAKES_ALL)
    )
    world.add_unit("refused", queue="checked")
    world.settle()
    answer = {"status": {"admissionChecks": [refused]}}
    world.direct.patch("queueunits", "refused", answer, namespace="default", subresource="status")
    world.settle()
    world.add_unit("a", cpu=3, consumerRef={**JOB, "uid": "1"})
    world.settle()
    world.add_unit("b", cpu=3, consumerRef={**JOB, "uid": "2"})
    world.add_unit("lost", quota="nobody")
    world.add_unit("evicted")
    until = {"requeueAt": "2100-01-01T00:00:00Z", "count": 1}
    away = {"status": {"phase": "TimeoutBackoff", "requeueState": until}}
    world.direct.patch("queueunits", "evicted", away, namespace="default", subresource="status")
    world.settle()


def labels_by_name(text: str) -> dict[str, set[str]]:
    """Return the label names of every sample, by its name."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set(sample.labels))
            assert found[sample.name] == set(sample.labels), sample.name
    return found


def value(text: str, series: str) -> float:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{series} ")]
    return float(line.removeprefix(series))


@pytest.mark.parametrize(("name", "labels"), [*UPSTREAM.items(), *EXPECTED.items()])
def test_a_metric_exists_with_its_labels(text: str, name: str, labels: str) -> None:
    assert labels_by_name(text).get(name) == set(labels.split())


@pytest.mark.parametrize(
    ("series", "want"),
    [
        ('queueunits_in_active_queue{queue="team"}', 1),
        ('queueunits_in_backoff_queue{queue="team"}', 1),
        ('dequeued_quota_usage_by_quota{quota="team",resource="cpu"}', 3000),
        ('dequeued_quota_usage_by_namespace{namespace="default",resource="cpu"}', 3000),
        ('job_schedule_attempts{queue="team",result="scheduled"}', 1),
        ('job_schedule_attempts{queue="team",result="unschedulable"}', 1),
        ('queueunits_by_job_type{namespace="default",type="Job"}', 2),
        (
            'queueunits_coming_rate_by_job_type{namespace="default",status="Enqueued",type="Job"}',
            2,
        ),
        ('koord_queue_pending_units{queue="",reason="NoQuota"}', 1),
        ('koord_queue_pending_units{queue="team",reason="InBackoff"}', 1),
        ('koord_queue_admission_wait_time_seconds_count{queue="team"}', 1),
    ],
)
def test_a_metric_has_the_number_of_what_happened(text: str, series: str, want: float) -> None:
    assert value(text, series) == want


def test_every_help_occurs_once_and_our_own_counters_end_in_total(text: str) -> None:
    kinds = dict(line.split(" ")[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
    helps = [line.split(" ")[2] for line in text.splitlines() if line.startswith("# HELP")]
    assert sorted(helps) == sorted(set(helps)) == sorted(kinds)
    assert {name for name, kind in kinds.items() if kind == "untyped"} == {
        "job_schedule_attempts",
        "queueunits_coming_rate_by_job_type",
    }
    counters = [name for name, kind in kinds.items() if kind == "counter"]
    assert [name for name in counters if not name.endswith("_total")] == []


@pytest.mark.parametrize("unit", ["seconds", "milli"])
def test_the_help_of_a_metric_with_a_unit_names_it(text: str, unit: str) -> None:
    helps = dict(line[7:].split(" ", 1) for line in text.splitlines() if line.startswith("# HELP"))
    ours = {name: said for name, said in helps.items() if not name.startswith("process_")}
    if unit == "seconds":
        named = {name for name in ours if name.endswith("_seconds")}
    else:
        named = {name for name in ours if "quota_" in name} | {"job_scheduling_algorithm_latency"}
    assert {name for name in named if unit not in ours[name].lower()} == set()


def test_a_deleted_queue_leaves_no_series() -> None:
    with running_world() as world:
        world.start(configuration=KoordQueueConfiguration())
        world.direct.create(queue_body("other"))
        populate(world)
        world.direct.delete("queues", "other", QUEUE_NAMESPACE)
        world.settle()
        scrape = world.metrics.exposition()[0].decode()
    assert 'queue="other"' not in scrape
    assert 'queue="team"' in scrape
