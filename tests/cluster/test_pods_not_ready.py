"""Released jobs whose pods are missing or have no node, on a real cluster: reports and evictions.

The roles are the chart's, so that reading events is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.charts.render import as_manifest, rights
from tests.charts.values_table import values_with
from tests.cluster.program_metrics import forbidden_by_the_server
from tests.cluster.program_process import CONTROLLERS
from tests.cluster.queue_world import (
    JOBS,
    MERGE,
    PODS,
    QUOTA_LABEL,
    Cluster,
    Json,
    QueueWorld,
    unit_view,
)
from tests.cluster.served_kinds import install_crds
from tests.controlplane.api_client import ApiError
from tests.object_states import condition_of
from tests.sample_jobs import crd
from tests.waiting import stays, until

CREATION: Final = "koord-queue/pod-creation-timeout"
NOWHERE: Final = {"nodeSelector": {"is": "nowhere"}}
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
JOB_SETS: Final = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
FORBIDDEN: Final = 422
LONG: Final = 600
LONG_AGO: Final = "2026-01-01T00:00:00Z"
STRATEGIC: Final = "application/strategic-merge-patch+json"
REFUSED: Final = (
    "0/4 nodes are available: Insufficient quotas, quotaName: held, runtime: {cpu: 1},"
    " used: {cpu: 1}, pod's request: {cpu: 1}, exceedDimensions: [cpu]."
)


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Cluster]:
    """Both programs; the controllers have exactly the chart's rights."""
    users: dict[str, Sequence[str]] = {"jobs-account": ()}
    with QueueWorld(controlplane_binaries, jobs=True, users=users) as world:
        install_crds(world.plane, crd("jobsets"))
        values = values_with("batchjob", "jobset")
        roles = as_manifest(rights("controllers", user="jobs-account", values=values))
        world.plane.kubectl("apply", "--filename", "-", input=roles)
        scheduler = world.start_scheduler("--leader-elect=false")
        kinds = "--enabled-extensions=job,jobset"
        arguments = (kinds, "--leader-elect=false")
        controllers = world.start(CONTROLLERS, *arguments, user="jobs-account")
        yield Cluster(world, scheduler, controllers)


def pods_ready(world: QueueWorld, job: str) -> Json:
    return condition_of(world.unit_of(job), "PodsReady")


def says(world: QueueWorld, job: str, reason: str) -> Json:
    """Wait for a reason of the condition about a unit's pods, and return the condition."""
    until(lambda: pods_ready(world, job).get("reason") == reason)
    return pods_ready(world, job)


def say_of_pod(world: QueueWorld, pod: str, message: str) -> None:
    """Report that a pod has had no node for long, as its scheduler would."""
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": LONG_AGO,
    }
    body = {"status": {"conditions": [said]}}
    world.api.request("PATCH", f"{PODS}/{pod}/status", body, content_type=STRATEGIC)


def refuse_pods(world: QueueWorld, host: str) -> Json:
    """Have the API server refuse pods with this host name; return the spec of such a pod."""
    match = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    why = {"expression": f"object.spec.?hostname.orValue('') != '{host}'", "message": "not here"}
    spec = {
        "matchConstraints": {"resourceRules": [{**match, "operations": ["CREATE"]}]},
        "validations": [why],
    }
    meta = {"name": f"refuses-{host}"}
    world.api.request("POST", POLICIES, {"metadata": meta, "spec": spec})
    binding = {"policyName": meta["name"], "validationActions": ["Deny"]}
    world.api.request("POST", f"{POLICIES[:-3]}ybindings", {"metadata": meta, "spec": binding})
    until(lambda: not is_taken(world, host))
    return {"hostname": host}


def is_taken(world: QueueWorld, host: str) -> bool:
    """Return whether the API server accepts such a pod."""
    spec = {"hostname": host, "containers": [{"name": "c", "image": "none"}]}
    body = {"metadata": {"name": "asked"}, "spec": spec}
    try:
        world.api.request("POST", f"{PODS}?dryRun=All", body)
    except ApiError as error:
        if error.status != FORBIDDEN:
            raise
        return False
    return True


def test_a_job_set_reports_why_pods_of_its_jobs_are_missing(world: QueueWorld) -> None:
    """Its operator is played: it creates the Job, whose own controller reports the failure."""
    world.create_quota("sets", cpu_max=1)
    refused = refuse_pods(world, "sets")
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pod = {"restartPolicy": "Never", "containers": [container], **refused}
    job = {"spec": {"parallelism": 1, "completions": 1, "template": {"spec": pod}}}
    meta = {"name": "sets", "labels": {"koord-queue/queue-name": "sets", QUOTA_LABEL: "sets"}}
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {"suspend": True, "replicatedJobs": [{"name": "w", "template": job}]},
    }
    made = world.api.request("POST", JOB_SETS, body)
    until(lambda: not world.api.request("GET", f"{JOB_SETS}/sets")["spec"]["suspend"])
    owner = {key: made[key] for key in ("apiVersion", "kind")} | {"name": "sets"}
    owner |= {"uid": made["metadata"]["uid"], "controller": True}
    child = {"metadata": {"name": "sets-w-0", "ownerReferences": [owner]}, **job}
    world.api.request("POST", JOBS.format("default"), child)
    until(lambda: condition_of(world.unit("sets-jobset-qu"), "PodsReady").get("reason") == "NoPods")
    said = condition_of(world.unit("sets-jobset-qu"), "PodsReady")["message"]
    assert "Job sets-w-0: FailedCreate: " in said
    assert "not here" in said


def test_a_job_reports_that_its_pods_are_refused_and_starts_when_they_are_not(
    cluster: Cluster, world: QueueWorld
) -> None:
    forbidden = forbidden_by_the_server(world)
    world.create_quota("refused", cpu_max=1)
    refused = refuse_pods(world, "refused")
    world.create_job("refused", "refused", pod_spec=refused, run_seconds=LONG)
    said = says(world, "refused", "NoPods")
    assert said["status"] == "False"
    assert said["message"].startswith("No pod of it exists: FailedCreate: ")
    assert "denied request: not here" in said["message"]
    assert said["message"].endswith("If none comes within 300 s, it gives its quota back")
    wanted = f"NoPods: {said['message']}"
    until(lambda: unit_view(cluster.scheduler, "refused").get("podsNotReady") == wanted)
    world.api.request("DELETE", f"{POLICIES}/refuses-refused")
    until(lambda: world.phase_of_job("refused") == "Running")
    ready = pods_ready(world, "refused")
    assert (ready["status"], ready["reason"]) == ("True", "PodsRunning")
    assert forbidden_by_the_server(world) == forbidden


def test_a_job_that_gets_no_pods_releases_its_quota_to_the_next(world: QueueWorld) -> None:
    world.create_quota("given-back", cpu_max=1)
    lost = refuse_pods(world, "lost")
    world.create_job("first", "given-back", pod_spec=lost, annotations={CREATION: "3s"})
    until(lambda: world.phase_of_job("first") == "Dequeued")
    world.create_job("second", "given-back", run_seconds=LONG)
    stays(lambda: world.phase_of_job("second") in {"", "Enqueued"}, seconds=1.0)
    until(lambda: world.phase_of_job("first") == "TimeoutBackoff")
    until(lambda: world.phase_of_job("second") == "Running")
    assert world.is_suspended("first")
    unit = world.unit_of("first")
    assert unit["status"]["requeueState"]["count"] == 1
    until(lambda: "BackoffTimeout" in world.event_notes("first"))
    note = world.event_notes("first")["BackoffTimeout"]
    assert "no pod of it exists 3 s after its release: FailedCreate: " in note
    assert "denied request: not here" in note
    assert "waits in the queue again" in note


def test_a_job_without_pods_and_one_that_disables_it_keep_their_quota(world: QueueWorld) -> None:
    world.create_quota("kept", cpu_max=4)
    none, off = {CREATION: "1s"}, {CREATION: "0"}
    world.create_job("none", "kept", annotations=none, parallelism=0, completions=1)
    world.create_job("off", "kept", annotations=off, pod_spec=refuse_pods(world, "off"))
    assert says(world, "off", "NoPods")["message"].count("gives its quota back") == 0
    until(lambda: world.phase_of_job("none") == "Running")
    stays(lambda: world.phase_of_job("none") == "Running" and not world.is_suspended("off"))


def test_pods_that_fit_no_node_are_reported_and_their_job_is_evicted(
    cluster: Cluster, world: QueueWorld
) -> None:
    world.create_quota("placed", cpu_max=4)
    world.create_job("placed", "placed", pod_spec=NOWHERE, run_seconds=LONG)
    until(lambda: world.pods("placed"))
    (pod,) = world.pods("placed")
    name = pod["metadata"]["name"]
    found = until(partial(refusal_of_pod, world, "placed"))
    assert "nodes are available" in found
    stays(lambda: pods_ready(world, "placed").get("reason") != "PodsUnschedulable", seconds=1.0)
    say_of_pod(world, name, found)
    said = says(world, "placed", "PodsUnschedulable")
    assert said["status"] == "False"
    assert said["message"].startswith("For more than a minute pods of it fit no node: 0/4 nodes")
    wanted = f"PodsUnschedulable: {said['message']}"
    until(lambda: unit_view(cluster.scheduler, "placed").get("podsNotReady") == wanted)
    label = {"metadata": {"labels": {"is": "nowhere"}}}
    world.api.request("PATCH", "/api/v1/nodes/node-0", label, content_type=MERGE)
    until(lambda: world.phase_of_job("placed") == "Running")
    assert pods_ready(world, "placed")["reason"] == "PodsRunning"


def test_pods_that_their_quota_refuses_are_reported_on_a_running_job(
    world: QueueWorld,
) -> None:
    world.create_quota("held", cpu_max=2)
    place = {"schedulerName": "played"}
    world.create_job("held", "held", pod_spec=place, parallelism=2, completions=2)
    until(lambda: len(world.pods("held")) == 2)
    first, second = (pod["metadata"]["name"] for pod in world.pods("held"))
    run = {"metadata": {"annotations": {"koord-queue.test/run-seconds": str(LONG)}}}
    world.patch_pod(first, run)
    binding = {"metadata": {"name": first}, "target": {"kind": "Node", "name": "node-1"}}
    world.api.request("POST", f"{PODS}/{first}/binding", binding)
    ready = says(world, "held", "PodsRunning")
    say_of_pod(world, second, REFUSED)
    said = says(world, "held", "PodsUnschedulable")
    # Its execution time is still counted.
    assert (said["status"], said["lastTransitionTime"]) == ("True", ready["lastTransitionTime"])
    assert said["message"].startswith(
        "For more than a minute pods of it are refused by their quota: Insufficient quotas,"
        " quotaName: held, "
    )


def refusal_of_pod(world: QueueWorld, job: str) -> str:
    (pod,) = world.pods(job)
    said = condition_of(pod, "PodScheduled")
    return str(said.get("message", "")) if said.get("status") == "False" else ""
