"""Pods, groups and sets on a real cluster, created by real controllers, held by their gates."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.judgement import is_running
from tests.cluster.program_process import CONTROLLERS
from tests.cluster.queue_world import MERGE, PODS, Json, QueueWorld
from tests.cluster.served_kinds import install_crds
from tests.controlplane.api_client import ApiError
from tests.object_states import is_true
from tests.sample_jobs import crd, sample
from tests.waiting import STILL_SECONDS, until

GATE = "koord-queue/admission"
QUEUE = "koord-queue/queue-name"
LABEL = "alibabacloud.com/schedule-admission"
APPS = "/apis/apps/v1/namespaces/default/{}"
SCALED_SECONDS = 30.0
"""Time in which the demand of a scaled set must follow, on a busy machine, too. That three are
enough on an idle one is tested in virtual time (test_job_reader_sizes)."""


@pytest.fixture(scope="module")
def cluster(
    controlplane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[QueueWorld]:
    """Controllers of gated pods, and a quota per test."""
    config = tmp_path_factory.mktemp("controllers") / "config.yaml"
    config.write_text("scheduleAdmissionLabel: true\n")
    with QueueWorld(controlplane_binaries, jobs=True) as world:
        world.start_scheduler("--leader-elect=false")
        install_crds(world.plane, *map(crd, ("podgroups", "leaderworkersets")))
        kinds = "--enabled-extensions=pod,podgroup,statefulset,leaderworkerset"
        world.start(CONTROLLERS, kinds, "--leader-elect=false", f"--config={config}")
        yield world


def template(queue: str, cpu: str = "1", **labels: str) -> Json:
    """Return metadata and spec of a pod that a queue holds, and that is charged to its quota."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    quota = "quota.scheduling.koordinator.sh/name"
    return {
        "metadata": {"labels": {QUEUE: queue, quota: queue, **labels}},
        "spec": {
            "containers": [container],
            "schedulingGates": [{"name": GATE}],
            "terminationGracePeriodSeconds": 0,
        },
    }


def create_pod(world: QueueWorld, name: str, queue: str, **changes: str) -> Json:
    body = template(queue, **changes)
    body["metadata"]["name"] = name
    made: Json = world.api.request("POST", PODS, body)
    return made


def create_set(world: QueueWorld, kind: str, name: str, queue: str, replicas: int) -> None:
    plural = f"{kind.lower()}s"
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": template(queue, app=name),
    }
    if kind == "StatefulSet":
        spec["serviceName"] = name
    world.api.request("POST", APPS.format(plural), {"metadata": {"name": name}, "spec": spec})


def pods(world: QueueWorld, queue: str) -> list[Json]:
    label = f"{QUEUE.replace('/', '%2F')}%3D{queue}"
    found: list[Json] = world.api.request("GET", f"{PODS}?labelSelector={label}")["items"]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def running(world: QueueWorld, queue: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods(world, queue) if is_running(pod)]


def gated(world: QueueWorld, queue: str) -> list[str]:
    return [
        pod["metadata"]["name"] for pod in pods(world, queue) if pod["spec"].get("schedulingGates")
    ]


def said_by_label(world: QueueWorld, queue: str) -> dict[str, str | None]:
    return {
        pod["metadata"]["name"]: pod["metadata"]["labels"].get(LABEL) for pod in pods(world, queue)
    }


def phases(world: QueueWorld, queue: str) -> dict[str, str]:
    return {
        unit["metadata"]["name"]: unit.get("status", {}).get("phase", "")
        for unit in world.units()
        if unit["spec"].get("queue") == queue
    }


def test_pods_start_one_after_the_other(cluster: QueueWorld) -> None:
    world = cluster
    world.create_quota("solo", cpu_max=1)
    create_pod(world, "solo-a", "solo")
    until(lambda: running(world, "solo") == ["solo-a"])
    create_pod(world, "solo-b", "solo")
    until(lambda: phases(world, "solo").get("solo-b-pod-qu") == "Enqueued")
    time.sleep(STILL_SECONDS)
    assert gated(world, "solo") == ["solo-b"]
    world.end_pod("solo-a")
    until(lambda: running(world, "solo") == ["solo-b"])
    until(lambda: phases(world, "solo")["solo-a-pod-qu"] == "Succeed")
    world.end_pod("solo-b", "Failed")
    until(lambda: phases(world, "solo")["solo-b-pod-qu"] == "Failed")
    world.api.request("DELETE", f"{PODS}/solo-a")
    until(lambda: "solo-a-pod-qu" not in phases(world, "solo"))


def test_the_label_of_alibabas_scheduler_is_removed_with_the_gate(cluster: QueueWorld) -> None:
    world = cluster
    world.create_quota("ali", cpu_max=1)
    for name in ("ali-a", "ali-b"):
        create_pod(world, name, "ali", **{LABEL: "false"})
    (first,) = until(lambda: running(world, "ali"))
    (second,) = gated(world, "ali")
    assert said_by_label(world, "ali") == {first: "true", second: "false"}
    world.end_pod(first)
    until(lambda: running(world, "ali") == [second])
    assert said_by_label(world, "ali") == {first: "true", second: "true"}
    for name in (first, second):
        assert LABEL not in json.dumps(world.unit(f"{name}-pod-qu")), "it says nothing of a demand"


def test_a_deployment_has_as_many_pods_as_fit_and_an_evicted_one_is_requeued(
    cluster: QueueWorld,
) -> None:
    world = cluster
    world.create_quota("web", cpu_max=2)
    create_set(world, "Deployment", "web", "web", 3)
    until(lambda: len(running(world, "web")) == 2)
    until(lambda: len(gated(world, "web")) == 1)
    first = running(world, "web")[0]
    world.set_active(f"{first}-pod-qu", active=False)
    until(lambda: first not in [pod["metadata"]["name"] for pod in pods(world, "web")])
    until(lambda: len(running(world, "web")) == 2)
    until(lambda: len(gated(world, "web")) == 1)
    until(lambda: len(phases(world, "web")) == 3)


def test_ctl_62_as_many_gates_are_open_as_fit(cluster: QueueWorld) -> None:
    """[ctl-62] There a unit by hand opens some of five pods; here each pod has a unit.

    No gate is set again: a pod that has to stop is deleted, and created again behind its gate.
    """
    world, queue = cluster, "five"
    world.create_quota(queue, cpu_max=2)
    create_set(world, "Deployment", "five", queue, 5)
    until(lambda: (len(running(world, queue)), len(gated(world, queue))) == (2, 3))
    time.sleep(STILL_SECONDS)
    assert len(gated(world, queue)) == 3
    world.resize_quota(queue, 5)
    until(lambda: (len(running(world, queue)), len(gated(world, queue))) == (5, 0))
    world.resize_quota(queue, 0)
    for name in running(world, queue):
        world.set_active(f"{name}-pod-qu", active=False)
    until(lambda: (len(running(world, queue)), len(gated(world, queue))) == (0, 5))
    time.sleep(STILL_SECONDS)
    assert len(gated(world, queue)) == 5


def test_a_stateful_set_starts_whole_grows_and_is_stopped_and_started_again(
    cluster: QueueWorld,
) -> None:
    world = cluster
    world.create_quota("db", cpu_max=3)
    create_pod(world, "db-before", "db", cpu="2")
    until(lambda: running(world, "db") == ["db-before"])
    create_set(world, "StatefulSet", "db", "db", 2)
    until(lambda: phases(world, "db").get("db-sts-qu") == "Enqueued")
    assert world.unit("db-sts-qu")["spec"]["request"] == {"cpu": "2"}
    until(lambda: gated(world, "db") == ["db-0"])
    time.sleep(STILL_SECONDS)
    assert gated(world, "db") == ["db-0"]
    world.end_pod("db-before")
    until(lambda: running(world, "db") == ["db-0", "db-1"])
    world.api.request(
        "PATCH", APPS.format("statefulsets/db"), {"spec": {"replicas": 3}}, content_type=MERGE
    )
    until(lambda: running(world, "db") == ["db-0", "db-1", "db-2"])
    world.set_active("db-sts-qu", active=False)
    until(lambda: not running(world, "db") and gated(world, "db"))
    until(lambda: phases(world, "db")["db-sts-qu"] == "Enqueued")
    world.set_active("db-sts-qu", active=True)
    until(lambda: running(world, "db") == ["db-0", "db-1", "db-2"])
    world.api.request("DELETE", APPS.format("statefulsets/db"))
    until(lambda: "db-sts-qu" not in phases(world, "db"))


def test_a_set_that_is_rolled_to_larger_pods_keeps_their_gates_until_it_is_requeued(
    cluster: QueueWorld,
) -> None:
    world = cluster
    world.create_quota("rolled", cpu_max=4)
    create_set(world, "StatefulSet", "rolled", "rolled", 2)
    until(lambda: running(world, "rolled") == ["rolled-0", "rolled-1"])
    until(lambda: phases(world, "rolled")["rolled-sts-qu"] == "Running")
    cpu = "/spec/template/spec/containers/0/resources/requests/cpu"
    larger = [{"op": "replace", "path": cpu, "value": "3"}]
    path = APPS.format("statefulsets/rolled")
    world.api.request("PATCH", path, larger, content_type="application/json-patch+json")
    until(lambda: gated(world, "rolled") == ["rolled-1"])
    until(lambda: world.unit("rolled-sts-qu")["spec"]["request"] == {"cpu": "6"})
    said = until(lambda: world.event_notes("rolled").get("BeyondGrant", ""))
    assert "cpu 3 instead of 1 (2 more)" in said
    time.sleep(STILL_SECONDS)
    assert running(world, "rolled") == ["rolled-0"]
    assert is_true(world.unit("rolled-sts-qu"), "PodsBeyondGrant")
    world.resize_quota("rolled", 6)
    evict(world, "rolled-sts-qu")
    until(lambda: running(world, "rolled") == ["rolled-0", "rolled-1"])
    assert {each["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            for each in pods(world, "rolled")} == {"3"}  # fmt: skip
    assert not is_true(world.unit("rolled-sts-qu"), "PodsBeyondGrant")


def evict(world: QueueWorld, name: str) -> None:
    """Requeue a unit, as `koord-queue requeue` does."""

    def asked() -> bool:
        unit = world.unit(name)
        condition = {
            "type": "Evicted",
            "status": "True",
            "reason": "RequeueRequested",
            "message": "Evicted because a user has requeued it",
            "lastTransitionTime": unit["metadata"]["creationTimestamp"],
        }
        meta = {"resourceVersion": unit["metadata"]["resourceVersion"]}
        body = {"metadata": meta, "status": {"conditions": [condition]}}
        body["status"]["conditions"] += unit["status"]["conditions"]
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits/{name}/status"
        try:
            world.api.request("PATCH", path, body, content_type=MERGE)
        except ApiError:  # a newer version: try again
            return False
        return True

    until(asked)


def test_a_larger_replacement_in_a_group_waits_at_its_gate(cluster: QueueWorld) -> None:
    world, queue = cluster, "swap"
    world.create_quota(queue, cpu_max=4)
    of_group_of_two = {
        "labels": {"kueue.x-k8s.io/pod-group-name": queue},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    for name, cpu in (("swap-0", "1"), ("swap-1", "1"), ("swap-1-again", "9")):
        body = template(queue, cpu=cpu)
        body["metadata"]["name"] = name
        body["metadata"]["labels"] |= of_group_of_two["labels"]
        body["metadata"]["annotations"] = of_group_of_two["annotations"]
        world.api.request("POST", PODS, body)
        if name == "swap-1":
            until(lambda: running(world, queue) == ["swap-0", "swap-1"])
            world.end_pod("swap-1", "Failed")
    said = until(lambda: world.event_notes("swap-1-again").get("BeyondGrant", ""))
    assert "cpu 9 instead of 0 (9 more)" in said
    assert gated(world, queue) == ["swap-1-again"]
    world.api.request("DELETE", f"{PODS}/swap-1-again")
    until(lambda: not is_true(world.unit("swap-pg-qu"), "PodsBeyondGrant"))


def test_a_waiting_set_that_is_scaled_asks_for_its_new_number(cluster: QueueWorld) -> None:
    world = cluster
    world.create_quota("scaled", cpu_max=4)
    create_set(world, "StatefulSet", "scaled", "scaled", 5)
    until(lambda: reason_of(world, "scaled-sts-qu") == "ExceedsQuota")
    scale = {"spec": {"replicas": 3}}
    scaled_at = time.monotonic()
    world.api.request("PATCH", APPS.format("statefulsets/scaled"), scale, content_type=MERGE)
    until(lambda: world.unit("scaled-sts-qu")["spec"]["request"] == {"cpu": "3"})
    assert time.monotonic() - scaled_at < SCALED_SECONDS
    until(lambda: running(world, "scaled") == ["scaled-0", "scaled-1", "scaled-2"])


def reason_of(world: QueueWorld, unit: str) -> str:
    """Return why a unit waits, "" while that is not written."""
    units = [each for each in world.units() if each["metadata"]["name"] == unit]
    conditions = units[0].get("status", {}).get("conditions", []) if units else []
    return next((each["reason"] for each in conditions if each["type"] == "QuotaReserved"), "")


def test_a_group_starts_and_ends_together(cluster: QueueWorld) -> None:
    world = cluster
    world.create_quota("ring", cpu_max=3)
    create_pod(world, "ring-before", "ring", cpu="1")
    until(lambda: running(world, "ring") == ["ring-before"])
    members = [f"ring-{number}" for number in range(3)]
    for name in members:
        body = template("ring")
        body["metadata"]["name"] = name
        body["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "ring"
        body["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "3"}
        world.api.request("POST", PODS, body)
    until(lambda: phases(world, "ring").get("ring-pg-qu") == "Enqueued")
    time.sleep(STILL_SECONDS)
    assert gated(world, "ring") == members
    world.end_pod("ring-before")
    until(lambda: running(world, "ring") == members)
    for name in members:
        world.end_pod(name)
    until(lambda: phases(world, "ring")["ring-pg-qu"] == "Succeed")
    for name in members:
        world.api.request("DELETE", f"{PODS}/{name}")
    until(lambda: "ring-pg-qu" not in phases(world, "ring"))


def test_a_user_that_opens_one_pod_of_a_group_gets_that_one_alone(cluster: QueueWorld) -> None:
    """It is charged, and its group waits in the queue as before."""
    world = cluster
    world.create_quota("torn", cpu_max=4)
    create_pod(world, "torn-before", "torn", cpu="3")
    until(lambda: running(world, "torn") == ["torn-before"])
    members = [f"torn-{number}" for number in range(3)]
    for name in members:
        body = template("torn")
        body["metadata"]["name"] = name
        body["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "torn"
        body["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "3"}
        world.api.request("POST", PODS, body)
    until(lambda: phases(world, "torn").get("torn-pg-qu") == "Enqueued")
    opened = {"spec": {"schedulingGates": None}}
    world.api.request("PATCH", f"{PODS}/torn-0", opened, content_type=MERGE)
    until(lambda: running(world, "torn") == ["torn-0", "torn-before"])
    until(lambda: "GateOpened" in world.event_notes("torn-0"))
    time.sleep(STILL_SECONDS)
    assert gated(world, "torn") == members[1:]
    assert phases(world, "torn")["torn-pg-qu"] == "Enqueued"
    create_pod(world, "torn-other", "torn")
    time.sleep(STILL_SECONDS)
    assert "torn-other" in gated(world, "torn"), "the opened pod has taken the last core"
    world.api.request("DELETE", f"{PODS}/torn-other")
    world.end_pod("torn-before")
    until(lambda: running(world, "torn") == members)


def test_a_pod_group_starts_when_it_has_its_minimum_of_pods(
    cluster: QueueWorld,
) -> None:
    world = cluster
    world.create_quota("pair", cpu_max=4)
    group, first, second = in_queue(sample("podgroup")["items"], "pair")
    world.api.request("POST", PODS, first)
    until(lambda: "DemandUnknown" in world.event_notes("pair-0"))
    assert world.event_notes("pair-0")["DemandUnknown"].endswith(
        "there is no PodGroup pair (scheduling.sigs.k8s.io)"
    )
    world.api.request(
        "POST", "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/podgroups", group
    )
    world.api.request("POST", PODS, second)
    until(lambda: running(world, "pair") == ["pair-0", "pair-1"])
    (unit,) = phases(world, "pair")
    assert unit == "pair-pg-qu"
    assert world.unit(unit)["spec"]["request"] == {"cpu": "4", "memory": "8Gi"}


def test_groups_of_a_leader_worker_set_start_one_by_one_their_workers_later(
    cluster: QueueWorld,
) -> None:
    """Its controller is played: leaders first, workers when their leader runs."""
    world = cluster
    world.create_quota("llm", cpu_max=10)
    (body,) = in_queue([sample("leaderworkerset")], "llm")
    path = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
    world.api.request("POST", path, body)
    templates = body["spec"]["leaderWorkerTemplate"]
    for group in range(2):
        world.api.request("POST", PODS, of_group(templates["leaderTemplate"], group, 0))
    until(lambda: len(phases(world, "llm")) == 2)
    (leader,) = until(lambda: running(world, "llm"))
    first = leader.partition("-")[2]
    for worker in (1, 2):
        made = of_group(templates["workerTemplate"], int(first), worker)
        world.api.request("POST", PODS, made)
    until(lambda: len(running(world, "llm")) == 3)
    assert phases(world, "llm")[f"llm-{1 - int(first)}-lws-qu"] == "Enqueued"
    assert world.unit(f"{leader}-lws-qu")["spec"]["request"] == {"cpu": "9", "memory": "18Gi"}


@pytest.mark.parametrize("name", ["pod", "statefulset", "deployment"])
def test_the_samples_are_accepted_unchanged(cluster: QueueWorld, name: str) -> None:
    (body,) = in_queue([sample(name)], "samples")
    path = PODS if name == "pod" else APPS.format(f"{name}s")
    made = cluster.api.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", body)
    spec = made["spec"] if name == "pod" else made["spec"]["template"]["spec"]
    assert spec["schedulingGates"] == [{"name": GATE}]


def in_queue(bodies: list[Json], queue: str) -> list[Json]:
    """Return objects in the namespace of the tests, in this queue and its quota, without GPUs."""
    text = json.dumps(bodies).replace('"namespace": "team"', '"namespace": "default"')
    text = text.replace(', "limits": {"nvidia.com/gpu": 1}', "")
    labels = f'"{QUEUE}": "{queue}", "quota.scheduling.koordinator.sh/name": "{queue}"'
    moved: list[Json] = json.loads(text.replace(f'"{QUEUE}": "gold"', labels))
    return moved


def of_group(template: Json, group: int, worker: int) -> Json:
    """Return a pod as the controller of LeaderWorkerSets creates it."""
    prefix = "leaderworkerset.sigs.k8s.io"
    labels = {
        **template["metadata"]["labels"],
        f"{prefix}/name": "llm",
        f"{prefix}/group-index": str(group),
        f"{prefix}/worker-index": str(worker),
    }
    name = f"llm-{group}" if worker == 0 else f"llm-{group}-{worker}"
    meta = {"name": name, "labels": labels, "annotations": {f"{prefix}/size": "3"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
