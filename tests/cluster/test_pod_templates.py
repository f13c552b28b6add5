"""Defaults and refusals of pods by the API server, and how the queue predicts them.

Both programs have exactly the chart's rights. Every job's pods are created by the real API server,
so that its own defaults and refusals are tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.render import Program, as_manifest, rights
from tests.cluster.program_process import CONTROLLERS, SCHEDULER
from tests.cluster.queue_world import (
    JOBS,
    QUEUE_NAMESPACE,
    QUOTA_LABEL,
    UNITS,
    Cluster,
    QueueWorld,
    quota_view,
    refusal_of,
)
from tests.controlplane.api_client import ApiError
from tests.object_states import condition_of
from tests.pod_templates import ACCEPTED, REFUSED
from tests.waiting import stays, until

ACCOUNTS: Final[dict[str, Program]] = {"queue-account": "scheduler", "jobs-account": "controllers"}
LONG: Final = "600"
PREEMPTIBLE: Final = "quota.scheduling.koordinator.sh/preemptible"
DIFFERENCES: Final = "koord-queue/template-differences"
TREE: Final = "quota.scheduling.alibabacloud.com/name"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Cluster]:
    users: dict[str, Sequence[str]] = dict.fromkeys(ACCOUNTS, ())
    with QueueWorld(controlplane_binaries, jobs=True, users=users) as world:
        for account, program in ACCOUNTS.items():
            objects = as_manifest(rights(program, user=account))
            world.plane.kubectl("apply", "--filename", "-", input=objects)
        common = (f"--queue-namespace={QUEUE_NAMESPACE}",)
        scheduler = world.start(SCHEDULER, *common, user="queue-account")
        kinds = "--enabled-extensions=job"
        controllers = world.start(CONTROLLERS, kinds, *common, user="jobs-account")
        yield Cluster(world, scheduler, controllers)


@pytest.fixture
def world(cluster: Cluster) -> Iterator[QueueWorld]:
    """The world, without limits and jobs of earlier tests."""
    yield cluster.world
    of_default = "/api/v1/namespaces/default/limitranges"
    for each in cluster.world.api.request("GET", of_default)["items"]:
        delete(cluster.world, f"{of_default}/{each['metadata']['name']}")
    for job in cluster.world.api.request("GET", JOBS.format("default"))["items"]:
        cluster.world.delete_job(job["metadata"]["name"])


def delete(world: QueueWorld, path: str) -> None:
    world.api.request("DELETE", path)


def limit_range(world: QueueWorld, name: str, **item: Json) -> None:
    """Create a LimitRange on containers."""
    body = {"metadata": {"name": name}, "spec": {"limits": [{"type": "Container", **item}]}}
    world.api.request("POST", "/api/v1/namespaces/default/limitranges", body)


def runtime_class(world: QueueWorld, name: str, cpu: str) -> None:
    body = {"metadata": {"name": name}, "handler": "x", "overhead": {"podFixed": {"cpu": cpu}}}
    world.api.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", body)


def without_requests() -> Json:
    return {"containers": [{"name": "main", "image": "none"}]}


def template(labels: dict[str, str]) -> Json:
    """Return a template of a pod of 2 cpu with these labels."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "2"}}}
    annotations = {"koord-queue.test/run-seconds": LONG}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def requested(world: QueueWorld, job: str) -> str:
    return str(until(lambda: world.unit_of(job))["spec"].get("request", {}).get("cpu"))


# --- the demand is that of the pods ---------------------------------------------------------------


def test_a_limit_range_sets_the_demand_of_jobs_without_requests(
    world: QueueWorld, cluster: Cluster
) -> None:
    limit_range(world, "defaults", defaultRequest={"cpu": "1500m"})
    world.create_quota("defaulted", cpu_max=2)
    for number in range(3):
        world.create_job(f"d{number}", "defaulted", run_seconds="1", pod_spec=without_requests())
    assert [requested(world, f"d{number}") for number in range(3)] == ["1500m"] * 3
    got = until(lambda: world.unit_of("d0"))["metadata"]["annotations"][DIFFERENCES]
    assert got == "requests cpu 1500m of container main (LimitRange defaults)"
    most = 0
    while not all(condition_of(world.job(f"d{n}"), "Complete") for n in range(3)):
        most = max(most, sum(len(world.living_pods(f"d{n}")) for n in range(3)))
        assert quota_view(cluster.scheduler, "defaulted")["charged"].get("cpu", "0") in {
            "0",
            "1500m",
        }
    assert most == 1


def test_a_runtime_class_adds_its_overhead(world: QueueWorld, cluster: Cluster) -> None:
    runtime_class(world, "heavy", "500m")
    world.create_quota("overhead", cpu_max=2)
    spec = {"runtimeClassName": "heavy"}
    for name in ("o1", "o2"):
        world.create_job(name, "overhead", cpu="900m", run_seconds=LONG, pod_spec=spec)
    assert [requested(world, name) for name in ("o1", "o2")] == ["1400m", "1400m"]
    until(lambda: world.running_pods("o1") or world.running_pods("o2"))
    until(lambda: quota_view(cluster.scheduler, "overhead")["charged"] == {"cpu": "1400m"})
    stays(lambda: sum(len(world.living_pods(name)) for name in ("o1", "o2")) == 1)


@pytest.mark.parametrize("where", ["template", "job"])
def test_non_preemptible_jobs_fit_the_min(world: QueueWorld, cluster: Cluster, where: str) -> None:
    """Min 3, max 8: koord-scheduler admits one job of 2 cpu whose pods are not preemptible."""
    quota = f"guaranteed-{where}"
    world.create_quota(quota, cpu_max=8, cpu_min=3)
    label = {PREEMPTIBLE: "false"}
    more = {"template": template(label)} if where == "template" else {"labels": label}
    first, second = (f"np-{where}-{number}" for number in range(2))
    world.create_job(first, quota, cpu="2", run_seconds=LONG, **more)
    # Before the other is created: the units of two jobs may come in either order.
    pod = until(lambda: world.running_pods(first))[0]
    world.create_job(second, quota, cpu="2", run_seconds=LONG, **more)
    assert pod["metadata"]["labels"][PREEMPTIBLE] == "false"
    until(lambda: refusal_of(cluster.scheduler, second).get("reason") == "NonPreemptibleOverMin")
    stays(lambda: not world.pods(second))


def test_a_changed_limit_range_changes_the_demand_of_pending_units(
    world: QueueWorld,
) -> None:
    world.create_quota("changing", cpu_max=1)
    world.create_job("filler", "changing", run_seconds=LONG)
    until(lambda: world.running_pods("filler"))
    world.create_job("follows", "changing", pod_spec=without_requests())
    assert requested(world, "follows") == "None"
    # It requests nothing, and has been admitted.
    until(lambda: not world.is_suspended("follows"))
    limit_range(world, "later", defaultRequest={"cpu": "700m"})
    world.create_job("asks", "changing", pod_spec=without_requests())
    assert requested(world, "asks") == "700m"
    delete(world, "/api/v1/namespaces/default/limitranges/later")
    limit_range(world, "latest", defaultRequest={"cpu": "900m"})
    until(lambda: requested(world, "asks") == "900m")
    version = world.unit_of("asks")["metadata"]["generation"]
    stays(lambda: world.unit_of("asks")["metadata"]["generation"] == version)


# --- what would be refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "spec", "make"),
    [
        (
            "PriorityClass",
            {"priorityClassName": "late"},
            lambda w, n: w.create_priority_class(n, 5),
        ),
        ("RuntimeClass", {"runtimeClassName": "late"}, lambda w, n: runtime_class(w, n, "100m")),
        ("ServiceAccount", {"serviceAccountName": "late"}, QueueWorld.create_service_account),
    ],
)
def test_a_job_waits_for_the_objects_that_its_template_names(
    world: QueueWorld, cluster: Cluster, kind: str, spec: Json, make: Any
) -> None:
    name, quota = kind.lower(), f"names-{kind.lower()}"
    world.create_quota(quota, cpu_max=2)
    world.create_queue(f"{name}-line", "Block", {"koord-queue/available-quota": quota})
    labels = {"koord-queue/queue-name": f"{name}-line"}
    world.create_job(f"{name}-job", quota, labels=labels, run_seconds=LONG, pod_spec=spec)
    world.create_job(f"{name}-next", quota, labels=labels, cpu="2")
    until(lambda: world.quota_reserved(f"{name}-job").get("reason") == "PodsRefused")
    assert f"{kind} late does not exist" in world.quota_reserved(f"{name}-job")["message"]
    until(lambda: condition_of(world.job(f"{name}-next"), "Complete"))
    got = until(lambda: world.event_notes(f"{name}-job").get("PodsRefused", ""))
    assert f"{kind} late does not exist" in got
    assert world.pods(f"{name}-job") == []
    assert quota_view(cluster.scheduler, quota)["charged"].get("cpu", "0") == "0"
    make(world, "late")
    until(lambda: world.running_pods(f"{name}-job"))


def test_a_job_waits_for_a_limit_range_that_refuses_its_pods(
    world: QueueWorld, cluster: Cluster
) -> None:
    world.create_quota("limited", cpu_max=8)
    limit_range(world, "small", max={"cpu": "2"})
    world.create_job("large", "limited", cpu="4", run_seconds=LONG)
    until(lambda: world.quota_reserved("large").get("reason") == "PodsRefused")
    words = "LimitRange small allows at most cpu 2 per container, the job asks 4 (container main)"
    assert words in world.quota_reserved("large")["message"]
    assert words in until(lambda: world.event_notes("large").get("PodsRefused", ""))
    assert quota_view(cluster.scheduler, "limited")["charged"].get("cpu", "0") == "0"
    delete(world, "/api/v1/namespaces/default/limitranges/small")
    until(lambda: world.running_pods("large"))


def test_an_admitted_job_whose_pods_would_be_refused_releases_its_quota(
    world: QueueWorld, cluster: Cluster
) -> None:
    """It was admitted before the limit was seen: a check of its unit holds the job."""
    world.create_quota("too-late", cpu_max=8)
    cluster.controllers.stop()
    world.create_job("caught", "too-late", cpu="4")
    limit_range(world, "strict", max={"cpu": "1"})
    uid = world.job("caught")["metadata"]["uid"]
    world.create_unit("caught", "too-late", cpu=4, **consumer("caught", uid))
    mark = {"metadata": {"annotations": {"koord-queue/managed-by": "koord-queue-controllers"}}}
    world.patch_unit("caught", mark)
    until(lambda: world.phase("caught") == "Dequeued")
    cluster.controllers.start()
    cluster.controllers.wait_until_ready()
    until(lambda: world.quota_reserved("caught").get("reason") == "PodsRefused")
    assert world.pods("caught") == []
    until(lambda: quota_view(cluster.scheduler, "too-late")["charged"].get("cpu", "0") == "0")
    delete(world, f"{UNITS.format('default')}/caught")


def consumer(job: str, uid: str) -> Json:
    reference = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "default"}
    return {"consumerRef": {**reference, "name": job, "uid": uid}}


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", [QUOTA_LABEL, TREE])
def test_a_job_is_charged_to_the_quota_of_its_pods(
    world: QueueWorld, cluster: Cluster, spelling: str
) -> None:
    mine, theirs = (f"{each}-{len(spelling)}" for each in ("job", "pods"))
    world.create_quota(mine, cpu_max=4)
    world.create_quota(theirs, cpu_max=2)
    labeled = template({spelling: theirs})
    world.create_job(f"{theirs}-0", mine, template=labeled)
    # Before the other is created: the units of two jobs may come in either order.
    pod = until(lambda: world.running_pods(f"{theirs}-0"))[0]
    world.create_job(f"{theirs}-1", mine, template=labeled)
    until(lambda: world.unit_of(f"{theirs}-1"))
    assert pod["metadata"]["labels"][QUOTA_LABEL] == theirs
    until(lambda: quota_view(cluster.scheduler, theirs)["charged"] == {"cpu": "2"})
    assert quota_view(cluster.scheduler, mine)["charged"].get("cpu", "0") == "0"
    stays(lambda: not world.pods(f"{theirs}-1"))
    got = until(lambda: world.event_notes(f"{theirs}-0").get("QuotaDiffers", ""))
    assert got.startswith(f"Its label names quota {mine}, and its pod template")


# --- what no API server accepts -------------------------------------------------------------------


def test_the_api_server_refuses_exactly_the_templates_that_are_held(world: QueueWorld) -> None:
    """Kinds whose CRD does not look pass them on: what is held here would hold quota there."""
    bodies = {**ACCEPTED, **{name: body for name, (body, _) in REFUSED.items()}}
    answers = {name: status_of_pod(world, body) for name, body in bodies.items()}
    assert answers == {**dict.fromkeys(ACCEPTED, 201), **dict.fromkeys(REFUSED, 422)}


def status_of_pod(world: QueueWorld, body: Json) -> int:
    """Return with which status the API server answers to a pod of a template."""
    pod = {**body, "metadata": {**body["metadata"], "generateName": "tried-"}}
    try:
        world.api.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
    except ApiError as error:
        return error.status
    return 201
