"""The plan fits the trace, and the cluster fits the plan."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_scheduler.queueing.fair_settings import DEFAULT_FAIR, read_fair_share
from shared_api.objects.queue import FairShare
from shared_api.well_known_labels import USER
from tests.demo.load_plan import (
    ANN,
    BOB,
    DEMO,
    FAIR,
    GPU,
    NO_GPUS,
    PRIORITY,
    REAL_GPUS,
    ROOT,
    RUN_SECONDS,
    SUBMIT_SECONDS,
    URGENT_CLASS,
    LoadPlan,
    build_plan,
    build_policies,
    build_quotas,
    nodes_needed,
    share_out,
    take_jobs,
    user_of,
)
from tests.demo.make_slice import SLICE, TraceRow, read_rows


@pytest.fixture(scope="module")
def plan() -> LoadPlan:
    return build_plan(read_rows(SLICE), shape=REAL_GPUS)


def test_mins_add_up_to_the_root(plan: LoadPlan) -> None:
    assert sum(tenant.min_gpus for tenant in plan.tenants) == plan.total_gpus
    assert all(tenant.min_gpus < tenant.max_gpus <= plan.total_gpus for tenant in plan.tenants)


def test_tenants_can_exceed_their_min_only_by_borrowing(plan: LoadPlan) -> None:
    assert sum(tenant.max_gpus for tenant in plan.tenants) > plan.total_gpus


def test_every_job_fits_its_quota(plan: LoadPlan) -> None:
    most = {tenant.name: tenant.max_gpus for tenant in plan.tenants}
    assert all(job.gpus <= most[job.namespace] for job in plan.jobs)


def test_large_jobs_are_split_into_workers(plan: LoadPlan) -> None:
    large = [job for job in plan.jobs if job.gpus > 8]
    assert large
    for job in large:
        requests = job.body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        assert job.body["spec"]["parallelism"] == job.workers == 2
        assert requests[GPU] == "8"


def test_jobs_are_created_suspended_and_labeled(plan: LoadPlan) -> None:
    names = Counter((job.namespace, job.name) for job in plan.jobs)
    assert set(names.values()) == {1}
    assert all(job.body["spec"]["suspend"] for job in plan.jobs)
    assert all(job.body["metadata"]["labels"][DEMO] for job in plan.jobs)


def test_time_is_scaled(plan: LoadPlan) -> None:
    assert max(job.at_seconds for job in plan.jobs) < SUBMIT_SECONDS
    row, job = read_rows(SLICE)[0], plan.jobs[0]
    ran = float(job.body["spec"]["template"]["metadata"]["annotations"][RUN_SECONDS])
    assert ran == pytest.approx(row.duration_s / plan.pace, abs=0.001)


def test_some_jobs_are_urgent_and_one_queue_blocks(plan: LoadPlan) -> None:
    annotated = [
        job for job in plan.jobs if PRIORITY in job.body["metadata"].get("annotations", {})
    ]
    classed = [
        job
        for job in plan.jobs
        if job.body["spec"]["template"]["spec"].get("priorityClassName") == URGENT_CLASS
    ]
    assert len(annotated) == 25
    assert len(classed) == 10
    assert [tenant.policy for tenant in plan.tenants].count("Block") == 1


def test_two_users_share_one_queue(plan: LoadPlan) -> None:
    (tenant,) = (each for each in plan.tenants if each.policy == FAIR)
    jobs = [job for job in plan.jobs if job.namespace == tenant.name]
    counts = Counter(job.user for job in jobs)
    assert counts[ANN] > counts[BOB] > len(jobs) // 3
    first = next(number for number, job in enumerate(jobs) if job.user == BOB)
    assert first == len(jobs) // 4 + 2
    assert [job.body["metadata"]["labels"][USER] for job in jobs] == [job.user for job in jobs]
    others = [job for job in plan.jobs if job not in jobs]
    assert not any(job.user or USER in job.body["metadata"]["labels"] for job in others)


def test_few_jobs_have_two_users_too() -> None:
    assert [user_of(place, 5) for place in range(5)] == [ANN, ANN, BOB, ANN, BOB]


def test_the_queue_that_users_share_has_fair_shares(plan: LoadPlan) -> None:
    (tenant,) = (each for each in plan.tenants if each.policy == FAIR)
    (policy,) = build_policies(plan, "queues")
    assert policy["spec"]["quotas"] == [tenant.name]
    _, problem = read_fair_share(
        msgspec.convert(policy["spec"]["queue"]["fairShare"], FairShare), DEFAULT_FAIR
    )
    assert problem is None
    labels = next(
        each["metadata"]["labels"]
        for each in build_quotas(plan, "queues")
        if each["metadata"]["name"] == tenant.name
    )
    assert labels["koord-queue/queue-policy"] == FAIR


def test_a_tenant_that_is_alone_has_no_fair_shares() -> None:
    row = TraceRow(submit_time_s=0, duration_s=120, tenant="a", gpu=1)
    assert build_policies(build_plan([row], shape=REAL_GPUS), "queues") == []


def test_quotas_have_one_root(plan: LoadPlan) -> None:
    root, *tenants = build_quotas(plan, "queues")
    assert root["metadata"]["name"] == ROOT
    assert root["spec"]["max"] == {GPU: "32", "cpu": "128", "memory": "512Gi"}
    parents = {t["metadata"]["labels"]["quota.scheduling.koordinator.sh/parent"] for t in tenants}
    assert parents == {ROOT}


def test_a_cluster_without_gpus_uses_fractions_of_cpus() -> None:
    small = build_plan(read_rows(SLICE), shape=NO_GPUS)
    assert build_quotas(small, "queues")[0]["spec"]["max"] == {"cpu": "320m", "memory": "256Mi"}
    assert NO_GPUS.gpus(320) == 32


def test_fewer_jobs_need_a_smaller_cluster(plan: LoadPlan) -> None:
    rows = take_jobs(read_rows(SLICE), 40)
    small = build_plan(rows, shape=REAL_GPUS, submit_seconds=10)
    assert len(small.jobs) == 40
    assert {job.namespace for job in small.jobs} == {job.namespace for job in plan.jobs}
    assert nodes_needed(small) < nodes_needed(plan)


def test_a_job_larger_than_the_mean_still_fits() -> None:
    row = TraceRow(submit_time_s=0, duration_s=120, tenant="a", gpu=12)
    got = build_plan([row], shape=REAL_GPUS)
    assert got.total_gpus == 16
    assert (got.jobs[0].workers, got.jobs[0].gpus) == (2, 12)


@given(
    st.integers(0, 1000),
    st.dictionaries(st.text(max_size=3), st.integers(1, 10**9), min_size=1, max_size=8),
)
def test_shares_are_whole_without_a_rest(total: int, weights: dict[str, int]) -> None:
    shares = share_out(total, weights)
    assert sum(shares.values()) == total
    whole = sum(weights.values())
    for name, weight in weights.items():
        assert abs(shares[name] * whole - total * weight) < whole
