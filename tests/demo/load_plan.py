"""Quotas and jobs from the slice of the trace. Pure.

One quota per tenant under one root, with a min in proportion to the tenant's usage in the slice and
a max of at least twice that, so that tenants borrow from each other and compete at the root. The
size of the root follows from the load: what the slice needs at the chosen pace.

What the trace lacks is added by rule: time runs faster; jobs of more than eight GPUs are split into
workers of eight; each GPU has CPU and memory; every twelfth job has a higher priority by annotation
and every thirtieth by its class; the tenant with the largest jobs has the policy Block. Of the
other tenants, the one with the most jobs has the policy Fair and two users: ann is alone at first,
and bob joins later.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared_api.quantity import format_amount
from shared_api.well_known_labels import USER
from tests.demo.json_api import Json
from tests.demo.make_slice import WINDOW_SECONDS, TraceRow

ROOT: Final = "philly"
GPU: Final = "nvidia.com/gpu"
WORKER_GPUS: Final = 8
NODE_GPUS: Final = 8
SUBMIT_SECONDS: Final = 85.0
"""Duration of the whole window of the trace; the last jobs end about half a minute later."""
SHORTEST_RUN_SECONDS: Final = 0.1

PRIORITY: Final = "scheduling.x-k8s.io/priority"
QUOTA_NAME: Final = "quota.scheduling.koordinator.sh/name"
RUN_SECONDS: Final = "koord-queue.test/run-seconds"
"""Annotation on pods: how long the player of the kubelet runs them."""
DEMO: Final = "koord-queue.test/demo"
"""Label of all objects of the demo, which are removed at the end."""

FAIR: Final = "Fair"
ANN: Final = "ann"
BOB: Final = "bob"
FAIR_SHARE: Final = {"halfLife": "15m", "minimumCharge": "1s"}
"""As the demo's time goes, 15 minutes are a week of the trace, which is the default. The default of
the other, a minute, is longer than the jobs run here."""

URGENT_CLASS: Final = "koord-queue-demo-urgent"
URGENT_CLASS_VALUE: Final = 1000
URGENT_PRIORITY: Final = 100
_EVERY_ANNOTATED: Final = 12
_EVERY_CLASSED: Final = 30


@dataclass(frozen=True, kw_only=True)
class GpuShape:
    """The resources that stand for one GPU of the trace.

    Attributes:
        counted: the resource that tables and summaries count.
        amounts: base units of each resource (CPU in thousandths).
    """

    counted: str
    amounts: Mapping[str, int]

    def quantities(self, gpus: int) -> dict[str, str]:
        """Return the quantities of this many GPUs."""
        return {name: format_amount(name, each * gpus) for name, each in self.amounts.items()}

    def gpus(self, counted_amount: int) -> int:
        """Return the number of GPUs for an amount of the counted resource."""
        return counted_amount // self.amounts[self.counted]


REAL_GPUS: Final = GpuShape(counted=GPU, amounts={GPU: 1, "cpu": 4000, "memory": 16 * 1024**3})
NO_GPUS: Final = GpuShape(counted="cpu", amounts={"cpu": 10, "memory": 8 * 1024**2})
"""For a cluster without GPUs; 32 of them are a third of a core."""


@dataclass(frozen=True, kw_only=True)
class TenantPlan:
    """A tenant: a namespace, a quota, and a queue of the same name."""

    name: str
    min_gpus: int
    max_gpus: int
    policy: str


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """One job and its submission time."""

    at_seconds: float
    namespace: str
    name: str
    gpus: int
    workers: int
    user: str
    """"" where the trace's tenant is all that is known."""
    body: Json


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """All objects for the cluster."""

    shape: GpuShape
    total_gpus: int
    tenants: tuple[TenantPlan, ...]
    jobs: tuple[PlannedJob, ...]
    pace: float
    """Seconds of the trace per second."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces of the jobs."""
        return tuple(tenant.name for tenant in self.tenants)


def take_jobs(rows: Sequence[TraceRow], count: int) -> list[TraceRow]:
    """Return about this many jobs, spread evenly over the slice."""
    wanted = min(count, len(rows))
    return [rows[number * len(rows) // wanted] for number in range(wanted)]


def build_plan(
    rows: Sequence[TraceRow], *, shape: GpuShape, submit_seconds: float = SUBMIT_SECONDS
) -> LoadPlan:
    """Return the plan for these jobs, submitted over this many seconds."""
    pace = WINDOW_SECONDS / submit_seconds
    total = _total_gpus(rows)
    return LoadPlan(
        shape=shape,
        total_gpus=total,
        tenants=tuple(_tenants(rows, total)),
        jobs=tuple(_jobs(rows, pace, shape)),
        pace=pace,
    )


def _total_gpus(rows: Sequence[TraceRow]) -> int:
    """Return the mean usage of the load while it is submitted, in whole nodes."""
    average = sum(row.gpu_seconds for row in rows) / WINDOW_SECONDS
    largest = max(row.gpu for row in rows)
    return max(math.ceil(average / NODE_GPUS), math.ceil(largest / NODE_GPUS)) * NODE_GPUS


def _tenants(rows: Sequence[TraceRow], total: int) -> Iterator[TenantPlan]:
    used: Counter[str] = Counter()
    largest: dict[str, int] = {}
    for row in rows:
        used[row.tenant] += row.gpu_seconds
        largest[row.tenant] = max(row.gpu, largest.get(row.tenant, 0))
    blocking, fair = _blocking_tenant(rows), _fair_tenant(rows)
    mins = share_out(total, used)
    for tenant, _ in used.most_common():
        yield TenantPlan(
            name=namespace_of(tenant),
            min_gpus=mins[tenant],
            max_gpus=min(total, max(2 * mins[tenant], largest[tenant])),
            policy={blocking: "Block", fair: FAIR}.get(tenant, ""),
        )


def _blocking_tenant(rows: Sequence[TraceRow]) -> str:
    tenants = sorted({row.tenant for row in rows})
    return max(tenants, key=lambda tenant: _mean_gpus(rows, tenant))


def _fair_tenant(rows: Sequence[TraceRow]) -> str:
    """Return the tenant that two users share; "" if there is but one tenant."""
    blocking = _blocking_tenant(rows)
    counts = Counter(row.tenant for row in rows if row.tenant != blocking)
    return max(sorted(counts), key=counts.__getitem__, default="")


def user_of(place: int, count: int) -> str:
    """Return who submits one of the jobs of a tenant that two users share.

    Args:
        place: The job's place among them, from 0.
        count: How many there are.
    """
    return ANN if 4 * place < count or place % 3 == 0 else BOB


def _mean_gpus(rows: Sequence[TraceRow], tenant: str) -> float:
    gpus = [row.gpu for row in rows if row.tenant == tenant]
    return sum(gpus) / len(gpus)


def share_out(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Return whole shares of a total in proportion to weights (largest remainders)."""
    whole = sum(weights.values())
    shares = {name: total * weight // whole for name, weight in weights.items()}
    by_rest = sorted(weights, key=lambda name: (-(total * weights[name] % whole), name))
    for name in by_rest[: total - sum(shares.values())]:
        shares[name] += 1
    return shares


def namespace_of(tenant: str) -> str:
    """Return the namespace of a tenant, which is also the name of its quota and queue."""
    return f"vc-{tenant}"


# --- jobs ---------------------------------------------------------------------------------------


def _jobs(rows: Sequence[TraceRow], pace: float, shape: GpuShape) -> Iterator[PlannedJob]:
    fair = _fair_tenant(rows)
    shared = sum(row.tenant == fair for row in rows)
    places = itertools.count()
    for number, row in enumerate(rows, start=1):
        user = user_of(next(places), shared) if row.tenant == fair else ""
        workers = math.ceil(row.gpu / WORKER_GPUS)
        gpus = math.ceil(row.gpu / workers)
        namespace, name = namespace_of(row.tenant), f"train-{number:03}"
        run_seconds = max(row.duration_s / pace, SHORTEST_RUN_SECONDS)
        yield PlannedJob(
            at_seconds=row.submit_time_s / pace,
            namespace=namespace,
            name=name,
            gpus=gpus * workers,
            workers=workers,
            user=user,
            body={
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": _job_metadata(namespace, name, number, user),
                "spec": {
                    "suspend": True,
                    "parallelism": workers,
                    "completions": workers,
                    "backoffLimit": 0,
                    "template": _template(shape.quantities(gpus), run_seconds, number),
                },
            },
        )


def _job_metadata(namespace: str, name: str, number: int, user: str) -> Json:
    metadata: Json = {
        "namespace": namespace,
        "name": name,
        "labels": {DEMO: "true", QUOTA_NAME: namespace, **({USER: user} if user else {})},
    }
    if number % _EVERY_ANNOTATED == 0:
        metadata["annotations"] = {PRIORITY: str(URGENT_PRIORITY)}
    return metadata


def _template(requests: Mapping[str, str], run_seconds: float, number: int) -> Json:
    container: Json = {
        "name": "worker",
        "image": "busybox:1.36",
        "command": ["sleep", f"{run_seconds:.1f}"],
        # Kubernetes requires limits for GPUs, equal to the requests.
        "resources": {"requests": dict(requests), "limits": dict(requests)},
    }
    spec: Json = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    if number % _EVERY_CLASSED == 0:
        spec["priorityClassName"] = URGENT_CLASS
    return {"metadata": {"annotations": {RUN_SECONDS: f"{run_seconds:.3f}"}}, "spec": spec}


# --- quotas, namespaces, nodes -------------------------------------------------------------


def build_quotas(plan: LoadPlan, queue_namespace: str) -> list[Json]:
    """Return the root quota, then one per tenant."""
    shape = plan.shape
    root = _quota(
        ROOT,
        queue_namespace,
        labels={"quota.scheduling.koordinator.sh/is-parent": "true"},
        least=shape.quantities(plan.total_gpus),
        most=shape.quantities(plan.total_gpus),
    )
    quotas = [root]
    for tenant in plan.tenants:
        labels = {
            "quota.scheduling.koordinator.sh/parent": ROOT,
            "quota.scheduling.koordinator.sh/is-parent": "false",
        }
        if tenant.policy:
            labels["koord-queue/queue-policy"] = tenant.policy
        quotas.append(
            _quota(
                tenant.name,
                tenant.name,
                labels=labels,
                least=shape.quantities(tenant.min_gpus),
                most=shape.quantities(tenant.max_gpus),
            )
        )
    return quotas


def _quota(
    name: str,
    namespace: str,
    *,
    labels: Mapping[str, str],
    least: Mapping[str, str],
    most: Mapping[str, str],
) -> Json:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace, "labels": {DEMO: "true", **labels}},
        "spec": {"min": dict(least), "max": dict(most)},
    }


def build_policies(plan: LoadPlan, queue_namespace: str) -> list[Json]:
    """Return the policy of the quota that two users share, if there is one."""
    return [
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "QuotaPolicy",
            "metadata": {
                "name": tenant.name,
                "namespace": queue_namespace,
                "labels": {DEMO: "true"},
            },
            "spec": {"quotas": [tenant.name], "queue": {"fairShare": dict(FAIR_SHARE)}},
        }
        for tenant in plan.tenants
        if tenant.policy == FAIR
    ]


def build_namespace(name: str) -> Json:
    """Return a namespace of the demo."""
    metadata: dict[str, Any] = {"name": name, "labels": {DEMO: "true"}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def build_priority_class() -> Json:
    """Return the class of the urgent jobs. It never preempts pods; that is up to the queue."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": URGENT_CLASS, "labels": {DEMO: "true"}},
        "value": URGENT_CLASS_VALUE,
        "preemptionPolicy": "Never",
    }


def build_node(name: str, shape: GpuShape) -> Json:
    """Return a node with eight GPUs, for a cluster in which nodes are only objects."""
    sizes = {**shape.quantities(NODE_GPUS), "pods": "110"}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": sizes, "allocatable": sizes, "conditions": conditions},
    }


def nodes_needed(plan: LoadPlan) -> int:
    """Return 1.5 times the need of the quotas, since scattered GPUs do not help large jobs."""
    return math.ceil(plan.total_gpus / NODE_GPUS * 3 / 2)
