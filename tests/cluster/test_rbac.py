"""Both programs under exactly the roles of the chart: nothing that they do is forbidden.

Two sources: the programs' own counts of requests, and the API server's counts for all clients.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from shared_api.well_known_labels import GRANTED_COUNT, MARKED_UID, SUSPEND
from tests.charts.render import Program, as_manifest, of_kind, render, rights
from tests.cluster.program_metrics import forbidden_by_the_server, samples, scrape
from tests.cluster.program_process import CONTROLLERS, SCHEDULER, ProgramProcess
from tests.cluster.queue_world import (
    JOBS,
    MERGE,
    PODS,
    QUEUE_NAMESPACE,
    QUEUES,
    QUOTAS,
    UNITS,
    Cluster,
    Json,
    QueueWorld,
    reason_of,
)
from tests.cluster.rbac_objects import binding
from tests.controlplane.api_client import ApiClient, ApiError
from tests.object_states import condition_of, is_true
from tests.waiting import until

ACCOUNTS: Final[dict[str, Program]] = {"queue-account": "scheduler", "jobs-account": "controllers"}
SCRAPER: Final = "scraper"
ED: Final = "ed"
"""A user with `edit` in one namespace."""
MOST_ANNOTATION_BYTES: Final = 256 * 1024
"""The API server's limit for all annotations of an object."""
EDIT: Final = ("system:aggregate-to-edit", "system:aggregate-to-view")
GROWTH: Final = {"admissionPolicy": {"growth": True}}
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Cluster]:
    """Everything as the chart installs it: elections, secure metrics, these roles and no others."""
    users: dict[str, Sequence[str]] = dict.fromkeys((*ACCOUNTS, SCRAPER, ED), ())
    with QueueWorld(controlplane_binaries, jobs=True, users=users) as world:
        for account, program in ACCOUNTS.items():
            give(world, rights(program, user=account))
        reader = of_kind(render(), "ClusterRole")["koord-queue-metrics-reader"]
        give(world, [reader, binding(reader["metadata"]["name"], SCRAPER)])
        common = ("--metrics-secure=true", f"--queue-namespace={QUEUE_NAMESPACE}")
        scheduler = world.start(SCHEDULER, *common, user="queue-account")
        jobs = "--enabled-extensions=job"
        # As the chart starts it with `admissionPolicy.growth`.
        keeps = "--keep-grants=true"
        controllers = world.start(CONTROLLERS, jobs, *common, keeps, user="jobs-account")
        yield Cluster(world, scheduler, controllers)


def give(world: QueueWorld, objects: list[dict[str, object]]) -> None:
    world.plane.kubectl("apply", "--filename", "-", input=as_manifest(objects))


def requests_by_code(world: QueueWorld, process: ProgramProcess) -> dict[str, float]:
    """Return a program's own counts of its requests, by status."""
    answer = scrape(process, world.plane.token_for(SCRAPER))
    assert answer.status_code == 200
    codes: dict[str, float] = {}
    for labels, value in samples(answer.text, "rest_client_requests_total"):
        codes[labels["code"]] = codes.get(labels["code"], 0.0) + value
    return codes


def test_secure_metrics_are_for_users_that_may_get_them(cluster: Cluster) -> None:
    token_for = cluster.world.plane.token_for
    for process in (cluster.scheduler, cluster.controllers):
        assert scrape(process, "").status_code == 401
        assert scrape(process, "nobody").status_code == 401
        assert scrape(process, token_for("queue-account")).status_code == FORBIDDEN
        assert scrape(process, token_for(SCRAPER)).status_code == 200


def test_the_whole_path_of_jobs_is_allowed(cluster: Cluster) -> None:
    """Queues created, changed and deleted; jobs held, reported, released, ended; units deleted."""
    world = cluster.world
    world.create_quota("team", cpu_max=2)
    until(lambda: world.api.find(f"{QUEUES}/team"))
    names = [f"job-{number}" for number in range(4)]
    for name in names:
        world.create_job(name, "team", run_seconds=1)
    until(lambda: all(is_true(world.job(name), "Complete") for name in names))
    world.create_job(
        "started", "team", run_seconds=1, owner=world.create_cron_job("nightly"), suspend=False
    )
    until(lambda: is_true(world.job("started"), "Complete"))
    world.create_job("huge", "team", cpu="9", run_seconds=600)
    until(lambda: world.unit_of("huge").get("status", {}).get("conditions"))
    world.create_unit(
        "bad", "team", cpu=1, podSet=[{"template": {"spec": {"overhead": {"a": "b"}}}}]
    )
    until(lambda: "InvalidDemand" in world.event_notes("bad"))
    world.create_unit("worse", "team", cpu=1, podSet=[{"template": {"spec": {"overhead": 3}}}])
    until(lambda: reason_of(world.unit("worse")) == "Unreadable")
    world.patch_job("huge", {"spec": {"suspend": False}})
    until(lambda: world.is_suspended("huge"))
    options = {"propagationPolicy": "Orphan"}
    world.api.request("DELETE", f"{JOBS.format('default')}/huge", options)
    until(lambda: world.api.find(f"{UNITS.format('default')}/huge") is None)
    policy = {"metadata": {"labels": {"koord-queue/queue-policy": "Block"}}}
    path = f"{QUOTAS.format('default')}/team"
    world.api.request("PATCH", path, policy, content_type=MERGE)
    until(lambda: world.queue("team")["spec"]["queuePolicy"] == "Block")
    world.api.request("DELETE", path)
    until(lambda: world.api.find(f"{QUEUES}/team") is None)
    time.sleep(2.0)  # the last events and counts are sent
    for process in (cluster.scheduler, cluster.controllers):
        codes = requests_by_code(world, process)
        assert codes.get("200", 0) > 10
        assert str(FORBIDDEN) not in codes
        assert "401" not in codes
    assert forbidden_by_the_server(world) == 0


# ------------------------------------------------------------------- a user with `edit` somewhere


@pytest.fixture(scope="module")
def ed(cluster: Cluster) -> ApiClient:
    """The user, where the chart's policies are in force."""
    world = cluster.world
    given = [each for each in render(GROWTH) if each["kind"].startswith("ValidatingAdmission")]
    give(world, [*given, *(binding(each, ED, "default") for each in EDIT)])
    return world.plane.client_for(ED)


def pending(name: str, **spec: object) -> Json:
    """Return a bare pod of 1000 CPUs without a label."""
    requests = {"requests": {"cpu": "1000"}}
    containers = [{"name": "c", "image": "none", "resources": requests}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def test_pods_that_cannot_be_bound_stop_nobody(cluster: Cluster, ed: ApiClient) -> None:
    world = cluster.world
    world.create_quota("busy", cpu_max=2)
    for body in (
        pending("huge-pod"),
        pending("gated-pod", schedulingGates=[{"name": "example.com/wait"}]),
        pending("lost-pod", nodeSelector={"example.com/no": "node"}),
    ):
        ed.request("POST", PODS, body)
    until(lambda: is_unschedulable(world, "huge-pod") and is_unschedulable(world, "lost-pod"))
    for name in ("first", "second"):
        world.create_job(name, "busy", run_seconds=1)
    until(lambda: all(is_true(world.job(name), "Complete") for name in ("first", "second")))
    for name in ("huge-pod", "gated-pod", "lost-pod"):
        world.api.request("DELETE", f"{PODS}/{name}")


def is_unschedulable(world: QueueWorld, pod: str) -> bool:
    condition = condition_of(world.api.request("GET", f"{PODS}/{pod}"), "PodScheduled")
    return bool(condition and condition["reason"] == "Unschedulable")


def test_a_job_of_its_namespaces_quota_is_resumed_and_grown_by_the_queue_alone(
    cluster: Cluster, ed: ApiClient
) -> None:
    world = cluster.world
    listed = {"quota.scheduling.koordinator.sh/namespaces": json.dumps(["default"])}
    world.create_quota("spaces", cpu_max=1, annotations=listed)
    until(lambda: world.api.find(f"{QUEUES}/spaces"))

    world.create_job("runs", "", run_seconds=600, completions=40)
    until(lambda: world.phase_of_job("runs") == "Running")
    for suspend in (True, False):
        name = f"waits-{suspend}".lower()
        world.create_job(name, "", run_seconds=600, suspend=suspend)
        until(partial(is_marked, world, name))
        assert "when it is its turn" in change(ed, name, {"spec": {"suspend": False}})
        assert change(ed, name, {"metadata": {"annotations": {MARKED_UID: None}}})
        assert world.is_suspended(name)
    assert world.job("runs")["metadata"]["annotations"][GRANTED_COUNT] == "1"
    assert "granted this job 1 pods" in change(ed, "runs", {"spec": {"parallelism": 40}})
    for parallelism in (0, 1):
        assert change(ed, "runs", {"spec": {"parallelism": parallelism}}) == ""


def test_a_job_that_is_shrunk_goes_back_to_what_it_was_granted_within_its_quota(
    cluster: Cluster, ed: ApiClient
) -> None:
    world = cluster.world
    world.create_quota("elastic", cpu_max=4)
    until(lambda: world.api.find(f"{QUEUES}/elastic"))
    world.create_job("elastic", "elastic", run_seconds=600, completions=10, parallelism=4)
    until(lambda: len(running_pods(world, "elastic")) == 4)
    assert change(ed, "elastic", {"spec": {"parallelism": 1}}) == ""
    until(lambda: len(running_pods(world, "elastic")) == 1)
    world.create_job("next", "elastic", run_seconds=600)
    until(lambda: reason_of(world.unit_of("next")) == "OverQuotaMax")
    assert world.is_suspended("next"), "what the first may go back to is taken"
    assert "granted this job 4 pods" in change(ed, "elastic", {"spec": {"parallelism": 5}})
    assert change(ed, "elastic", {"spec": {"parallelism": 4}}) == ""
    until(lambda: len(running_pods(world, "elastic")) == 4)
    assert world.is_suspended("next")
    ed.request("DELETE", f"{JOBS.format('default')}/elastic", {"propagationPolicy": "Background"})
    until(lambda: not world.is_suspended("next"))


def running_pods(world: QueueWorld, job: str) -> list[str]:
    pods = world.api.request("GET", f"{PODS}?labelSelector=job-name%3D{job}")["items"]
    return [
        each["metadata"]["name"]
        for each in pods
        if each.get("status", {}).get("phase") == "Running"
        and "deletionTimestamp" not in each["metadata"]
    ]


def test_annotations_that_leave_no_room_for_the_mark_do_not_let_a_job_run(
    cluster: Cluster, ed: ApiClient
) -> None:
    """The queue of the test before is full."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    filled = {SUSPEND: "x", "a": "x" * (MOST_ANNOTATION_BYTES - len(f"{SUSPEND}xa"))}
    metadata = {"name": "filled", "annotations": filled}
    spec = {"template": {"spec": pod}}
    ed.request("POST", JOBS.format("default"), {"metadata": metadata, "spec": spec})
    for _ in range(2):
        until(lambda: cluster.world.is_suspended("filled"))
        assert change(ed, "filled", {"spec": {"suspend": False}}) == ""
    until(lambda: cluster.world.is_suspended("filled"))


def is_marked(world: QueueWorld, job: str) -> bool:
    return MARKED_UID in world.job(job)["metadata"].get("annotations", {})


def change(user: ApiClient, job: str, patch: Json) -> str:
    """Change a Job as a user; return why that is refused, "" if it is not."""
    try:
        user.request("PATCH", f"{JOBS.format('default')}/{job}", patch, content_type=MERGE)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return str(error)
    return ""


def test_the_end_of_the_programs_is_allowed_too(cluster: Cluster) -> None:
    """The lease is released; and the server's count would include anything forbidden."""
    world = cluster.world
    for process in (cluster.scheduler, cluster.controllers):
        assert process.stop() == 0
    for name in ("koord-queue-scheduler", "koord-queue-controllers"):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{QUEUE_NAMESPACE}/leases/{name}"
        assert not world.api.request("GET", path)["spec"].get("holderIdentity")
    assert forbidden_by_the_server(world) == 0
    with pytest.raises(ApiError, match="403"):
        world.plane.client_for("queue-account").request("GET", "/api/v1/secrets")
    assert forbidden_by_the_server(world) == 1
