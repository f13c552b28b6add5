"""Jobs that name an owner, on a real API server and under exactly the chart's rights.

A user that may create jobs may write any owner. A job that an operator has really created is left
to its owner; everything else waits in the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.render import as_manifest, rights
from tests.charts.values_table import SWITCHES, values_with
from tests.cluster.kind_kit import ADAPTERS, install, path_of
from tests.cluster.program_metrics import forbidden_by_the_server
from tests.cluster.program_process import CONTROLLERS
from tests.cluster.queue_world import JOBS, MERGE, QUEUE_NAMESPACE, QUOTA_LABEL, QueueWorld
from tests.waiting import until

Json = Any

USER: Final = "jobs-account"
QUEUED: Final = ("job", "jobset", "raycluster", "trainjob")
SERVED: Final = (*QUEUED, "mpijob", "rayjob")
"""The kinds of owners are served, and not all of them are queued."""

TEMPLATE: Final = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        ],
    }
}
CLUSTER: Final = {"headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE}}
OF_ONE: Final = {"parallelism": 2, "completions": 2, "template": TEMPLATE}
SPECS: Final[dict[str, Json]] = {
    "job": {"template": TEMPLATE},
    "jobset": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": OF_ONE}}]},
    "mpijob": {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": TEMPLATE}}},
    "rayjob": {"shutdownAfterJobFinishes": True, "rayClusterSpec": CLUSTER},
    "trainjob": {"runtimeRef": {"name": "torch"}},
}


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """Only the controllers run, with the chart's rights."""
    values = values_with(*(name for name, keys in SWITCHES.items() if {*keys} & {*QUEUED}))
    with QueueWorld(controlplane_binaries, users={USER: ()}) as running:
        install(running.plane, *SERVED)
        bound = rights("controllers", user=USER, values=values)
        running.plane.kubectl("apply", "--filename", "-", input=as_manifest(bound))
        running.create_quota("team", cpu_max=10)
        running.start(
            CONTROLLERS,
            f"--enabled-extensions={','.join(QUEUED)}",
            f"--queue-namespace={QUEUE_NAMESPACE}",
            "--leader-elect=false",
            user=USER,
        )
        yield running


def make(world: QueueWorld, key: str, name: str, spec: Json, owner: Json | None = None) -> Json:
    """Create a job of a kind; return the owner reference of its children."""
    kind = ADAPTERS[key].kind
    meta: Json = {"name": name, "labels": {QUOTA_LABEL: "team"} if owner else {}}
    meta["ownerReferences"] = [owner] if owner else []
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    body = {**head, "metadata": meta, "spec": spec}
    made = world.api.request("POST", path_of(kind, "default"), body)
    return {**head, "name": name, "uid": made["metadata"]["uid"], "controller": True}


def say(world: QueueWorld, key: str, name: str, status: Json) -> None:
    path = f"{path_of(ADAPTERS[key].kind, 'default')}/{name}/status"
    world.api.request("PATCH", path, {"status": status}, content_type=MERGE)


def units_of(world: QueueWorld, child: Json) -> list[Json]:
    return [each for each in world.units() if each["spec"]["consumerRef"]["uid"] == child["uid"]]


@pytest.mark.parametrize(
    ("above", "name", "pods", "why"),
    [
        pytest.param(
            "job", "main", 40, "a Job makes only pods, and no Job", id="the user's own Job"
        ),
        pytest.param("jobset", "{}-w-1", 40, "cpu 40 of 2", id="a JobSet, with more pods"),
        pytest.param("jobset", "{}-w-7", 2, "INDEX", id="a JobSet that has no such index"),
        pytest.param(
            "mpijob", "{}-launcher", 40, "cpu 40 of 1", id="an MPIJob, with a large launcher"
        ),
        pytest.param(
            "rayjob",
            "{}",
            40,
            "than its part of it: cpu 40 of 0.5",
            id="a RayJob, with more than the submitter",
        ),
    ],
)
def test_a_job_with_an_owner_that_has_not_created_it_waits(
    world: QueueWorld, above: str, name: str, pods: int, why: str
) -> None:
    owner = make(world, above, f"small-{above}-{pods}", SPECS[above])
    spec = {"parallelism": pods, "completions": pods, "template": TEMPLATE}
    child = make(world, "job", name.format(owner["name"]), spec, owner)
    until(lambda: units_of(world, child))
    until(lambda: world.is_suspended(child["name"]))
    note = until(lambda: world.event_notes(child["name"]).get("OwnerIgnored"))
    assert why in str(note)


def test_jobs_that_operators_have_created_are_left_to_their_owners(world: QueueWorld) -> None:
    refused = forbidden_by_the_server(world)
    jobs = make(world, "jobset", "set", SPECS["jobset"])
    mpi = make(world, "mpijob", "mpi", SPECS["mpijob"])
    ray = make(world, "rayjob", "ray", SPECS["rayjob"])
    say(world, "rayjob", "ray", {"rayClusterName": "ray-abcde"})
    train = make(world, "trainjob", "train", SPECS["trainjob"])
    made = [
        make(world, "job", "set-w-1", OF_ONE, jobs),
        make(world, "job", "mpi-launcher", {"template": TEMPLATE}, mpi),
        make(world, "raycluster", "ray-abcde", CLUSTER, ray),
        make(world, "jobset", "train", SPECS["jobset"], train),
    ]
    last = make(world, "job", "last", {"template": TEMPLATE}, None)
    world.patch_job("last", {"metadata": {"labels": {QUOTA_LABEL: "team"}}})
    until(lambda: units_of(world, last))
    assert not any(units_of(world, each) for each in made)
    for name in ("set-w-1", "mpi-launcher"):
        assert not world.is_suspended(name)
        assert "OwnerIgnored" not in world.event_notes(name)
    assert forbidden_by_the_server(world) == refused


def test_a_child_that_exceeds_its_owner_is_held(world: QueueWorld) -> None:
    owner = make(world, "jobset", "grows", SPECS["jobset"])
    spec = {"parallelism": 2, "template": TEMPLATE}
    child = make(world, "job", "grows-w-0", spec, owner)
    path = f"{JOBS.format('default')}/grows-w-0"
    world.api.request("PATCH", path, {"spec": {"parallelism": 40}}, content_type=MERGE)
    until(lambda: units_of(world, child))
    until(lambda: world.is_suspended("grows-w-0"))


def test_a_namespace_bounds_the_priorities_of_its_jobs(world: QueueWorld) -> None:
    path = "/api/v1/namespaces/default"
    bounded = {"metadata": {"annotations": {"koord-queue/max-priority": "10"}}}
    world.api.request("PATCH", path, bounded, content_type=MERGE)
    first = {"scheduling.x-k8s.io/priority": "2147483647"}
    world.create_job("urgent", "team", annotations=first)
    until(lambda: world.unit_of("urgent"))
    until(lambda: world.unit_of("urgent")["spec"]["priority"] == 10)
    note = until(lambda: world.event_notes("urgent").get("IgnoredAnnotation"))
    assert "priority 2147483647 is above 10" in str(note)
    lifted = {"metadata": {"annotations": {"koord-queue/max-priority": None}}}
    world.api.request("PATCH", path, lifted, content_type=MERGE)
    until(lambda: world.unit_of("urgent")["spec"]["priority"] == 2**31 - 1)
