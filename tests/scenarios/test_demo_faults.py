"""The demo's observer reports a quota that is exceeded, and a job that runs without admission."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from shared_api.client.errors import NotFound
from shared_api.client.resource_types import JOBS, QUEUE_UNITS
from shared_api.process.clock import SystemClock
from tests.demo.__main__ import make_cluster
from tests.demo.demo_run import DemoRun
from tests.demo.demo_settings import Settings
from tests.demo.json_api import Json, JsonApi
from tests.demo.load_plan import QUOTA_NAME, REAL_GPUS, build_plan
from tests.demo.make_slice import TraceRow
from tests.demo.terminal import Terminal
from tests.waiting import within

# The deadlines of the run itself are earlier than this one.
pytestmark = [pytest.mark.scenario, pytest.mark.timeout(600)]

TENANT = "vc-6214e9"
"""A tenant whose max is 2 GPUs in the short run."""
UNIT_SECONDS = 100.0


def run_with(visitor: Callable[[JsonApi], None]) -> DemoRun:
    """Run the demo in this process, with a client that interferes once it is ready."""
    settings = Settings(once=True, jobs=40, submit_seconds=4.0)
    terminal = Terminal(io.StringIO())
    run = DemoRun(settings, terminal, SystemClock(), make_cluster=make_cluster, visitor=visitor)
    run.run()
    return run


def submit_extra_job(api: JsonApi, gpus: int) -> Json:
    row = TraceRow(submit_time_s=0, duration_s=600, tenant="6214e9", gpu=gpus)
    body = build_plan([row], shape=REAL_GPUS, submit_seconds=96.0).jobs[0].body
    body["metadata"]["name"] = "planted"
    api.create(JOBS, body)

    def has_unit() -> bool:
        try:
            api.get(QUEUE_UNITS, TENANT, "planted")
        except NotFound:
            return False
        return True

    assert within(UNIT_SECONDS, has_unit), "the planted job has no unit"
    return api.get(QUEUE_UNITS, TENANT, "planted")


def admit_above_the_quota(api: JsonApi) -> None:
    """Write an admission that exceeds the quota, as only the scheduler may write one."""
    unit = submit_extra_job(api, gpus=4)
    (pod_set,) = unit["spec"]["podSet"]
    admission = {"name": pod_set["name"], "replicas": pod_set["count"], "running": 0}
    status = {"phase": "Dequeued", "admissions": [admission]}
    api.patch(QUEUE_UNITS, TENANT, "planted", {"status": status}, subresource="status")


def release_past_the_queue(api: JsonApi) -> None:
    """Resume a job that never fits its quota."""
    submit_extra_job(api, gpus=4)
    api.patch(JOBS, TENANT, "planted", {"spec": {"suspend": False}})


@pytest.mark.parametrize(
    ("visitor", "want"),
    [
        pytest.param(
            admit_above_the_quota,
            f"{TENANT}/planted takes quota {TENANT} to 4 nvidia.com/gpu, its max is 2",
            id="a quota is exceeded",
        ),
        pytest.param(
            release_past_the_queue,
            f"{TENANT}/planted was released without being admitted",
            id="a job runs without admission",
        ),
    ],
)
def test_the_observer_sees_a_planted_fault(
    visitor: Callable[[JsonApi], None], want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The run would wait for a job that can never start. Until then the others end, one by one.
    monkeypatch.setattr("tests.demo.demo_run.PATIENCE_SECONDS", 10.0)
    outcome = run_with(visitor).outcome
    assert outcome.exit_status == 1
    assert any(want in complaint for complaint in outcome.complaints), outcome.complaints
    assert "complaints:" in "\n".join(outcome.summary)


def try_a_job_elsewhere(api: JsonApi) -> None:
    """Apply, in addition to the load, a job outside the queues and one that fits no quota."""
    for name, labels in (("mine", {}), ("too-large", {QUOTA_NAME: "philly"})):
        row = TraceRow(submit_time_s=0, duration_s=600, tenant="6214e9", gpu=64)
        body = build_plan([row], shape=REAL_GPUS, submit_seconds=96.0).jobs[0].body
        body["metadata"] |= {"name": name, "namespace": "default", "labels": labels}
        body["spec"]["suspend"] = bool(labels)
        api.create(JOBS, body)


def test_jobs_in_addition_to_the_load_are_not_judged() -> None:
    outcome = run_with(try_a_job_elsewhere).outcome
    assert outcome.complaints == []
    assert outcome.exit_status == 0
    assert any("40 of 40 jobs completed" in line for line in outcome.summary), outcome.summary
