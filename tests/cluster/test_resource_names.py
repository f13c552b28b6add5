"""Deprecated resource names, and keys of a max that limit nothing, with both programs running.

The nodes have the deprecated names as well: without the new ones no quota would have capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.queue_world import (
    JOBS,
    QUOTA_LABEL,
    QUOTAS,
    Cluster,
    QueueWorld,
    quota_view,
    refusal_of,
)
from tests.waiting import stays, until

NODE_HAS: Final = {"koordinator.sh/batch-cpu": "64000", "kubernetes.io/gpu-core": "800"}
JOBS_OF_EACH: Final = 3


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Cluster]:
    """Jobs are held and released. No pod is bound: none ends and makes room for the next."""
    with QueueWorld(controlplane_binaries, jobs=True, kube_scheduler=False) as world:
        world.plane.create_nodes(1, extra_resources=NODE_HAS, name_prefix="device")
        scheduler = world.start_scheduler("--leader-elect=false")
        yield Cluster(world, scheduler, world.start_controllers("--leader-elect=false"))


def create_quota(world: QueueWorld, name: str, **maximum: Any) -> None:
    """Create a quota without a min."""
    body = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name},
        "spec": {"max": maximum},
    }
    world.api.request("POST", QUOTAS.format("default"), body)


def create_jobs(world: QueueWorld, quota: str, **amounts: str) -> list[str]:
    """Create three jobs of one pod that requests this in addition to a tenth of a cpu."""
    names = [f"{quota}-{number}" for number in range(JOBS_OF_EACH)]
    resources = {"requests": {"cpu": "100m", **amounts}, "limits": amounts}
    container = {"name": "main", "image": "none", "resources": resources}
    for name in names:
        world.create_job(name, quota, pod_spec={"containers": [container]})
    return names


def count_released(world: QueueWorld, quota: str) -> int:
    """Return how many Jobs of a quota are released."""
    path = f"{JOBS.format('default')}?labelSelector={QUOTA_LABEL}%3D{quota}"
    jobs = world.api.request("GET", path)["items"]
    return sum(not job["spec"].get("suspend", False) for job in jobs)


@pytest.mark.parametrize(
    ("name", "maximum", "asked", "runs"),
    [
        pytest.param(
            "device",
            {"koordinator.sh/gpu-core": 100},
            {"kubernetes.io/gpu-core": "60"},
            1,
            id="a deprecated name of a device in pods",
        ),
        pytest.param(
            "old-batch",
            {"koordinator.sh/batch-cpu": 10000},
            {"kubernetes.io/batch-cpu": "6000"},
            1,
            id="a deprecated batch name in the quota",
        ),
        pytest.param(
            "batch",
            {"kubernetes.io/batch-cpu": 10000},
            {"koordinator.sh/batch-cpu": "6000"},
            1,
            id="a deprecated batch name in pods",
        ),
        pytest.param(
            "old-device",
            {"cpu": 10, "kubernetes.io/gpu-core": 100},
            {"kubernetes.io/gpu-core": "60"},
            3,
            id="a deprecated name of a device in the quota governs nothing",
        ),
        pytest.param(
            "both-names",
            {"koordinator.sh/gpu-core": 100},
            {"kubernetes.io/gpu-core": "60", "koordinator.sh/gpu-core": "40"},
            2,
            id="a name is kept where the new one is present too",
        ),
        pytest.param(
            "pods", {"cpu": 10, "pods": 2}, {}, 3, id="pods are not limited, as in koord-scheduler"
        ),
    ],
)
def test_as_many_jobs_run_as_koord_scheduler_would_admit(
    cluster: Cluster, name: str, maximum: dict[str, Any], asked: dict[str, str], runs: int
) -> None:
    world = cluster.world
    create_quota(world, name, **maximum)
    until(partial(quota_view, cluster.scheduler, name))
    jobs = create_jobs(world, name, **asked)
    until(lambda: all(world.unit_of(job) for job in jobs))
    until(lambda: count_released(world, name) == runs)
    units = [world.unit_of(job)["metadata"]["name"] for job in jobs]
    waiting = JOBS_OF_EACH - runs
    until(lambda: sum(bool(_refusal(cluster, unit)) for unit in units) == waiting)
    stays(lambda: count_released(world, name) == runs, seconds=0.5)
    assert {_refusal(cluster, unit) for unit in units} - {""} <= {"OverQuotaMax"}


def _refusal(cluster: Cluster, unit: str) -> str:
    return str(refusal_of(cluster.scheduler, unit).get("reason", ""))


@pytest.mark.parametrize(
    ("resource", "want"),
    [
        (
            "kubernetes.io/fpga",
            "koord-scheduler reads it in pods as koordinator.sh/fpga; name that",
        ),
        ("pods", "no container requests it"),
        ("requests.cpu", "no container requests it; name cpu"),
        ("koord-queue/max-jobs", "only an ElasticQuotaTree counts jobs"),
    ],
)
def test_a_quota_reports_which_keys_of_its_max_limit_nothing(
    cluster: Cluster, resource: str, want: str
) -> None:
    name = f"idle-{resource.replace('/', '-').replace('.', '-')}"
    create_quota(cluster.world, name, **{"cpu": 1, resource: 2})
    view = until(partial(quota_view, cluster.scheduler, name))
    text = f"spec.max: {resource} limits nothing: {want}"
    assert view["problems"] == [f"ResourceWithoutEffect: {text}"]
    until(lambda: cluster.world.event_notes(name).get("ResourceWithoutEffect") == text)
