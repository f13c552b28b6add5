"""The world of a scored replay: made from the trace, a load and a seed alone.

One quota per tenant below one root. The root's max is the work that the trace offers, divided by
the load and by the time in which it is offered; a tenant's min is its share of that, and its max is
the root's. What counts is GPUs, or CPU in a trace without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_insight.forecast.draws import uniform
from queue_insight.replay.jobs import GPU_CORE, Job, Trace, TraceError
from queue_insight.replay.quota_files import Objects
from queue_insight.replay.replayed_world import World
from shared_api.objects.elastic_quota import ElasticQuota, ElasticQuotaSpec
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.queue import Queue, QueueSpec
from shared_api.quantity import amount
from shared_api.resource_list import format_amounts
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    DEFAULT_QUEUE_NAMESPACE,
    QUOTA_IS_PARENT,
    QUOTA_PARENT,
    ROOT_QUOTA,
)
from shared_api.well_known_labels import BACKFILL as BACKFILL_KEY

ROOT: Final = "all-tenants"
NO_TENANT: Final = "no-tenant"
PRIORITIES: Final = 3
BACKFILL: Final = "backfill"
"""FIFO in queues that backfill."""

NONE, NEAR, FAR = "none", "near", "far"
DECLARED: Final[dict[str, tuple[float, float] | None]] = {
    NONE: None,
    NEAR: (0.8, 1.2),
    FAR: (1.0, 10.0),
}
"""The factors from the true run time to the declared one, drawn evenly."""


class ScoredWorld(msgspec.Struct, frozen=True, kw_only=True):
    """What is replayed.

    Attributes:
        world: Quotas and queues.
        trace: The jobs, with their priorities and declared times; a run that declares less than it
            takes is cut there, as its unit is in a cluster.
        skipped: How many jobs are left out, by the reason.
        capacity: What the root has of the resource that counts, in base units.
    """

    world: World
    trace: Trace
    skipped: dict[str, int]
    capacity: int


def build_scored_world(
    trace: Trace, *, load: float, policy: str, declared: str, seed: int
) -> ScoredWorld:
    """Return the world of a trace.

    Args:
        trace: The trace.
        load: The work that is offered, as a share of what there is.
        policy: A queue policy, or `backfill`.
        declared: A key of `DECLARED`.
        seed: The seed of priorities and declared times.

    Raises:
        TraceError: No job requests GPUs or CPU, or all are submitted at once.
    """
    resource = GPU_CORE if any(GPU_CORE in job.requests for job in trace.jobs) else "cpu"
    span = trace.jobs[-1].submit - trace.jobs[0].submit
    work = _work_of(trace.jobs, resource)
    if span <= 0 or not work:
        raise TraceError(f"no job requests {resource}, or all are submitted at once")
    room = load * span
    capacity = max(1, round(sum(work.values()) / room))
    skipped: Counter[str] = Counter()
    jobs = tuple(_drawn(trace.jobs, resource, capacity, declared, seed, skipped))
    if not jobs:
        raise TraceError("no job is left that fits")
    quotas = _quotas(work, resource, capacity, room)
    world = World(
        objects=Objects(quotas=quotas, queues=tuple(_queues(work, policy))),
    )
    return ScoredWorld(
        world=world,
        trace=replace(trace, jobs=jobs),
        skipped=dict(skipped),
        capacity=capacity,
    )


def _request(job: Job, resource: str) -> int:
    text = job.requests.get(resource)
    return 0 if text is None else amount(resource, text) * job.pods


def _tenant(job: Job) -> str:
    return job.tenant or NO_TENANT


def _work_of(jobs: Sequence[Job], resource: str) -> dict[str, float]:
    work: dict[str, float] = {}
    for job in jobs:
        if done := job.run * _request(job, resource):
            work[_tenant(job)] = work.get(_tenant(job), 0.0) + done
    return work


def _drawn(
    jobs: Sequence[Job],
    resource: str,
    capacity: int,
    declared: str,
    seed: int,
    skipped: Counter[str],
) -> Iterator[Job]:
    for job in jobs:
        request = _request(job, resource)
        if request <= 0:
            skipped["it requests nothing that is counted"] += 1
        elif request > capacity:
            skipped["it requests more than there is"] += 1
        else:
            limit = _declared(job, declared, seed)
            yield replace(
                job,
                tenant=_tenant(job),
                queue="",
                namespace="",
                priority=int(uniform(seed, job.line, "priority") * PRIORITIES),
                limit=limit,
                run=max(1.0, job.run if limit is None else min(job.run, limit)),
                requests={resource: job.requests[resource]},
            )


def _declared(job: Job, declared: str, seed: int) -> int | None:
    bounds = DECLARED[declared]
    if bounds is None:
        return None
    low, high = bounds
    times = low + (high - low) * uniform(seed, job.line, "declared")
    return max(1, round(job.run * times))


def _quotas(
    work: dict[str, float], resource: str, capacity: int, room: float
) -> tuple[ElasticQuota, ...]:
    whole = {resource: capacity}
    found = [_quota(ROOT, whole, whole, ROOT_QUOTA)]
    found[0].metadata.labels[QUOTA_IS_PARENT] = "true"
    for tenant, done in sorted(work.items()):
        share = {resource: int(done / room)}
        found.append(_quota(tenant, share, whole, ROOT))
    return tuple(found)


def _quota(name: str, least: dict[str, int], most: dict[str, int], parent: str) -> ElasticQuota:
    return ElasticQuota(
        metadata=ObjectMeta(
            name=name,
            namespace=DEFAULT_QUEUE_NAMESPACE,
            uid=Uid(f"quota/{name}"),
            labels={QUOTA_PARENT: parent},
        ),
        spec=ElasticQuotaSpec(min=format_amounts(least), max=format_amounts(most)),
    )


def _queues(work: dict[str, float], policy: str) -> Iterator[Queue]:
    backfills = policy == BACKFILL
    for tenant in sorted(work):
        yield Queue(
            metadata=ObjectMeta(
                name=tenant,
                namespace=DEFAULT_QUEUE_NAMESPACE,
                uid=Uid(f"queue/{tenant}"),
                annotations={AVAILABLE_QUOTA[0]: tenant, BACKFILL_KEY: str(backfills).lower()},
            ),
            spec=QueueSpec(queue_policy="FIFO" if backfills else policy, priority=1000),
        )
