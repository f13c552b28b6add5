"""The numbers of a replay."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from queue_insight.replay.jobs import Job
from queue_insight.replay.report import (
    compare_runs,
    describe_fairness,
    most_starved,
    percentile,
    waits_of,
)
from queue_insight.replay.tally import HOUR, Life, step_of
from shared_api.testing.object_builders import queue_body
from shared_api.well_known_labels import ENABLE_PREEMPTION, PREEMPT_RUNNING
from tests.queue_insight.replay.replay_kit import HEAD, Desk, quota


def life(line: int, wait: float | None, *, tenant: str = "red", run: float = 100.0) -> Life:
    """Return the life of a job that was submitted at 0."""
    job = Job(line=line, submit=0.0, run=run, tenant=tenant, requests={})
    if wait is None:
        return Life(job=job, tenant=tenant, submit=0.0)
    return Life(job=job, tenant=tenant, submit=0.0, admitted=wait, began=wait, finished=wait + run)


@pytest.fixture
def fifo(desk: Desk) -> dict[str, Any]:
    """The run of the kit's jobs, first come, first served, with limits alone."""
    config = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "KoordQueueConfiguration",
        "plugins": [{"name": "Priority"}, {"name": "ElasticQuotaV2"}],
        "pluginConfigs": {"ElasticQuotaV2": {"mode": "max"}},
    }
    path = desk.write("config.yaml", yaml.safe_dump(config))
    found: dict[str, Any] = desk.report("--policy=FIFO", f"--config={path}")["runs"][0]
    return found


def test_waits_by_tenant(fifo: dict[str, Any]) -> None:
    # At 100 red ends, and the queues take turns: red's second and blue's first start, then org is
    # full. Red's third follows its second at 150, and blue's second that one at 180.
    waits = fifo["waits"]
    shown = ("jobs", "p50", "max", "total")
    got = {name: [own[key] for key in shown] for name, own in waits["byTenant"].items()}
    assert got == {"red": [3, 90.0, 130.0, 220.0], "blue": [2, 70.0, 140.0, 210.0]}
    assert (waits["all"]["total"], waits["all"]["waited"]) == (430.0, 4)
    assert (fifo["finished"], fifo["seconds"]) == (5, 500.0)


def test_use_and_queue_length_over_time(fifo: dict[str, Any]) -> None:
    used = fifo["use"]["red"]["cpu"]
    assert used["limit"] == 2000
    # 2 cores for 100 s, then 1 for 50 s and 1 for 30 s, of 500 s.
    assert used["used"] == [1000 * (200 + 50 + 30) // 500]
    assert fifo["use"]["org"]["cpu"]["used"] == [1000 * (280 + 1210) // 500]
    assert fifo["queueLength"]["total"] == [430 / 500]


def test_bottlenecks(fifo: dict[str, Any]) -> None:
    got = {(each["quota"], each["reason"]) for each in fifo["bottlenecks"]}
    assert got == {("red", "OverQuotaMax"), ("org", "OverParentMax")}
    assert sum(each["jobHours"] for each in fifo["bottlenecks"]) == pytest.approx(0.1, abs=0.02)
    assert [hour["at"] for hour in fifo["bottleneckHours"]] == [0]


def test_an_eviction_is_lost_time(desk: Desk) -> None:
    marks = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
    queue = queue_body("red", policy="Priority", metadata={"annotations": marks})
    queues = desk.write("queues.yaml", yaml.safe_dump(queue))
    desk.write("quotas.yaml", yaml.safe_dump(quota("red", 1, "")))
    desk.write("trace.csv", f"{HEAD}\n0,100,red,1,0\n10,50,red,1,5\n")
    run = desk.report(f"--queues={queues}", "--stop-seconds=20", "--start-seconds=5")["runs"][0]
    # The first runs from 5 until it is asked at 10 and gone at 30, and again from 90.
    assert (run["evictions"], run["lostSeconds"], run["seconds"]) == (1, 25.0, 190.0)
    assert run["waits"]["all"]["max"] == 20.0


def test_percentiles_are_values_that_occur() -> None:
    values = [float(number) for number in range(1, 11)]
    got = [percentile(values, percent) for percent in (0, 1, 50, 51, 90, 91, 100)]
    assert got == [1.0, 1.0, 5.0, 6.0, 9.0, 10.0, 10.0]
    assert percentile([], 50) == 0.0


def test_tenants_that_are_treated_alike_are_treated_fairly() -> None:
    alike = describe_fairness([life(2, 100.0), life(3, 100.0, tenant="blue")])
    assert alike == {"jain": 1.0, "stretch": {"blue": 2.0, "red": 2.0}}
    one = describe_fairness([life(2, 0.0), life(3, 900.0, tenant="blue")])
    assert one == {"jain": round(121 / 202, 3), "stretch": {"blue": 10.0, "red": 1.0}}
    assert describe_fairness([]) == {"jain": 1.0, "stretch": {}}


def test_jobs_that_never_started_are_starved_most() -> None:
    lives = [life(2, 59.0), life(3, 61.0), life(4, 500.0), life(5, None)]
    assert [each.job.line for each in most_starved(lives)] == [5, 4, 3]


def test_differences_are_the_other_less_the_first() -> None:
    runs = [
        {
            "name": name,
            "waits": waits_of([life(2, wait)]),
            "seconds": wait,
            "evictions": evictions,
            "lostSeconds": 0.0,
            "fairness": {"jain": 1.0},
            "users": None,
        }
        for name, wait, evictions in (("one", 100.0, 3), ("two", 40.0, 5))
    ]
    got = compare_runs(*runs)
    assert (got["with"], got["name"], got["seconds"], got["evictions"]) == ("one", "two", -60.0, 2)
    assert got["waits"]["p90"] == got["byTenant"]["red"]["total"] == -60.0


def test_a_step_is_an_hour_or_several() -> None:
    assert step_of(0.0) == HOUR
    assert step_of(2000 * HOUR) == HOUR
    assert step_of(2001 * HOUR) == 2 * HOUR
