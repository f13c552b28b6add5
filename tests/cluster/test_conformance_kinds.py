"""Upstream's tests of its kinds of jobs, on a real API server with their real CRDs.

Operators and koord-scheduler are played. The controllers run where PAI_ENV is set, and are
configured for a Spark operator that honors the annotation. Ids: upstream/README.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from queue_controllers.job_families.kubeflow_replicas import REPLICA_TYPE_LABEL
from shared_api.well_known_labels import PRIORITY, RELATED_POD_SET, SUSPEND
from tests.cluster.kind_jobs import Kinds, Sets, pod_of, ray, spark, torch, workflow
from tests.cluster.kind_kit import install
from tests.cluster.observer import Observer
from tests.cluster.played_nodes import answer, count_reservations, reservations
from tests.cluster.played_pods import owner_of, pod, template_of
from tests.cluster.played_statuses import conditions_of
from tests.cluster.queue_world import QUOTA_LABEL, UNITS, QueueWorld, pod_sets_of, reason_of
from tests.cluster.served_kinds import install_crds
from tests.object_states import condition_of
from tests.sample_jobs import crd
from tests.waiting import until

KEYS: Final = ("pytorchjob", "rayjob", "raycluster", "sparkapp", "workflow")
HIGH, HIGH_VALUE = "high-priority", 1000
FULL, AMPLE, STRICT = "full", "ample", "strict"
"""Quotas: one that no job fits into, one that all fit into, and one whose jobs reserve nodes."""
TOPOLOGY: Final = "network-topology-job-name"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def kinds(controlplane_binaries: Path) -> Iterator[Kinds]:
    """Both programs with all of these kinds, and nodes that have to be reserved."""
    with (
        pytest.MonkeyPatch.context() as patch,
        QueueWorld(controlplane_binaries, jobs=True) as world,
    ):
        install(world.plane, *KEYS)
        install_crds(world.plane, crd("reservations"))
        for quota, cpu in ((FULL, 1), (AMPLE, 60), (STRICT, 60)):
            world.create_quota(quota, cpu_max=cpu)
        world.create_priority_class(HIGH, HIGH_VALUE)
        world.start_scheduler(
            "--leader-elect=false", "--strictDequeueMode", f"--queue-list={STRICT}"
        )
        patch.setenv("PAI_ENV", "true")
        config = world.folder / "controllers.yaml"
        config.write_text("sparkapp: {annotation: true}\n")
        world.start_controllers(
            "--leader-elect=false",
            "--enable-reservation",
            f"--config={config}",
            f"--enabled-extensions=job,{','.join(KEYS)}",
        )
        units = {"queueunits": UNITS.format("default")}
        with Observer(world.plane.client_for(), units) as observer:
            yield Kinds(world, observer)


# --- PyTorchJob ---------------------------------------------------------------------------------


def test_ctl_47_the_pod_sets_of_a_pytorch_job_and_their_demand(kinds: Kinds) -> None:
    workers = {"replicas": 2, "template": pod_of("1", "2Gi")}
    spec = torch(Worker=workers, Master=pod_of("2", "4Gi"))
    kinds.create("pytorchjob", "torch-sets", spec, FULL)
    unit = kinds.made_unit("torch-sets")
    assert unit["metadata"]["name"] == "torch-sets-py-qu"
    assert pod_sets_of(unit) == [("master", 1), ("worker", 2)]
    assert unit["spec"]["request"] == {"cpu": "4", "memory": "8Gi"}


OLD_WORKER: Final = {"pytorch-replica-type": "worker", "job-role": "master"}


def test_ctl_48_which_pod_set_a_pod_belongs_to(kinds: Kinds) -> None:
    """By the label of the current operator; under upstream's by the annotation of the release."""
    name = "torch-pods"
    workers = {"replicas": 3, "template": pod_of()}
    kinds.create("pytorchjob", name, torch(Master=pod_of(), Worker=workers), AMPLE)
    kinds.await_released("pytorchjob", name)
    body = kinds.body("pytorchjob", name)
    stamped = body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    assert stamped["metadata"]["annotations"][RELATED_POD_SET] == "worker"
    operator = kinds.operator("pytorchjob")

    def run(number: int, template: Json, labels: Json) -> None:
        marked = template_of(body, template, **labels)
        made = pod(f"{name}-{number}", marked, owner_of(body))
        operator.objects.create(made.path, made.body)
        until(lambda: len(operator.objects.running_pods(name)) == number)

    # It has no effect, but is seen before those after it.
    run(1, pod_of(), OLD_WORKER)
    run(2, stamped, OLD_WORKER)
    run(3, pod_of(), {REPLICA_TYPE_LABEL: "worker"})
    run(4, pod_of(), {REPLICA_TYPE_LABEL: "master"})
    operator.say_running(name)
    kinds.await_phase(name, "Running")
    until(lambda: kinds.running(name) == {"master": 1, "worker": 2})
    kinds.delete("pytorchjob", name)


@pytest.mark.parametrize(
    ("name", "pod_spec", "want"),
    [
        pytest.param(
            "class",
            {"priorityClassName": HIGH, "priority": 7},
            (HIGH, HIGH_VALUE),
            id="ctl-49 the value of the class",
        ),
        pytest.param(
            "gone",
            {"priorityClassName": "test-priority-class", "priority": 7},
            ("test-priority-class", 7),
            id="ctl-49 the class does not exist",
        ),
    ],
)
def test_priority_of_a_pytorch_job(
    kinds: Kinds, name: str, pod_spec: Json, want: tuple[str, int]
) -> None:
    job = f"torch-{name}"
    spec = torch(Master=pod_of("2", **pod_spec), Worker=pod_of())
    kinds.create("pytorchjob", job, spec, FULL)
    found = kinds.made_unit(job)["spec"]
    assert (found["priorityClassName"], found["priority"]) == want


def test_ctl_50_which_pytorch_jobs_are_managed(kinds: Kinds) -> None:
    """Upstream marks queued jobs by a condition: here its unit is the mark."""
    spec = torch(Master=pod_of("2"), suspend=False)
    key, left_alone = "pytorchjob", ("torch-not", "torch-said")
    for name in left_alone:
        kinds.create(key, name, spec, suspend="false")
    queuing = conditions_of(kinds.body(key, "torch-said"), {"Queuing": True}, lastUpdateTime="")
    kinds.say(key, "torch-said", {"conditions": queuing})
    kinds.create(key, "torch-asks", torch(Master=pod_of("2")), suspend="true")
    # Earlier objects were seen earlier.
    kinds.made_unit("torch-asks")
    kinds.merge(key, "torch-asks", annotations={SUSPEND: "false", PRIORITY: "5"})
    until(lambda: kinds.unit("torch-asks")["spec"].get("priority") == 5)
    assert [kinds.unit(name) for name in left_alone] == [{}, {}]
    assert [kinds.is_suspended(key, name) for name in left_alone] == [False, False]
    assert kinds.is_suspended(key, "torch-asks")


@pytest.mark.parametrize(
    ("name", "roles", "want"),
    [
        pytest.param(
            "roles",
            {"Worker": {"replicas": 2, "template": pod_of()}, "Master": pod_of()},
            ["master", "worker", "worker"],
            id="ctl-51 one for each pod of all roles",
        ),
        # Upstream reserves none.
        pytest.param(
            "aimaster",
            {"AIMaster": pod_of()},
            ["aimaster"],
            id="ctl-51 an AIMaster needs a node, too",
        ),
    ],
)
def test_nodes_are_reserved(kinds: Kinds, name: str, roles: Json, want: list[str]) -> None:
    job = f"nodes-{name}"
    kinds.create("pytorchjob", job, torch(**roles), STRICT)
    kinds.await_phase(job, "SchedReady")
    until(lambda: count_reservations(kinds.world, job) == len(want))
    labels = [each["metadata"]["labels"] for each in reservations(kinds.world)]
    assert sorted(each[RELATED_POD_SET] for each in labels) == want
    kinds.delete("pytorchjob", job)
    until(lambda: not reservations(kinds.world))


def test_ctl_51_a_placeholder_has_its_own_topology(kinds: Kinds) -> None:
    """Upstream's suffix is the unit's, `-py-qu`; here it is the attempt's."""
    name = "nodes-topology"
    kinds.create("pytorchjob", name, torch(Master=pod_of(labels={TOPOLOGY: "t"})), STRICT)
    (made,) = until(lambda: reservations(kinds.world))
    assert made["spec"]["template"]["metadata"]["labels"][TOPOLOGY] == "t-reserve-1"
    kinds.delete("pytorchjob", name)
    until(lambda: not reservations(kinds.world))


def test_ctl_63_a_pytorch_job_is_refused_nodes_and_then_granted_them_by_role(kinds: Kinds) -> None:
    """Its reservations' names end in a hash; the scheduler counts attempts."""
    key, name, world = "pytorchjob", "nodes-both", kinds.world
    spec = torch(Master=pod_of(), Worker=pod_of(), suspend=False)
    kinds.create(key, name, spec, STRICT, suspend="true")
    assert kinds.made_unit(name)["metadata"]["name"] == f"{name}-py-qu"
    first = await_reservations(kinds, name, attempt=1)
    assert kinds.is_suspended(key, name)
    answer(world, "False", "Unschedulable/1", "Pending")
    until(lambda: "SchedFailed" in kinds.phases(name))
    evicted = kinds.await_phase(name, "TimeoutBackoff")
    assert condition_of(evicted, "Evicted")["reason"] == "SchedulingFailed"
    assert first.isdisjoint(await_reservations(kinds, name, attempt=2))
    answer(world, "True", "Scheduled/2", "Available")
    until(lambda: "SchedSucceed" in kinds.phases(name))
    until(lambda: not kinds.is_suspended(key, name))
    assert kinds.body(key, name)["metadata"]["annotations"][SUSPEND] == "false"
    kinds.operator(key).start(name, 2)
    kinds.await_phase(name, "Running")
    until(lambda: not reservations(world))
    asked = [each for each in kinds.phases(name) if each.startswith("Sched")]
    assert asked == ["SchedReady", "SchedFailed", "SchedReady", "SchedSucceed"]
    kinds.delete(key, name)


def await_reservations(kinds: Kinds, job: str, *, attempt: int) -> set[str]:
    """Wait until an attempt reserves a node for each role; return the reservations' names."""
    until(lambda: kinds.phase(job) == "SchedReady" and attempt_of(kinds.unit(job)) == attempt)
    until(lambda: count_reservations(kinds.world, job) == 2)
    found = sorted(each["metadata"]["name"] for each in reservations(kinds.world))
    readable = [each.rpartition("-")[0] for each in found]
    assert readable == [f"default-{job}-py-qu-{role}-0" for role in ("master", "worker")]
    return set(found)


def attempt_of(unit: Json) -> int:
    return int(unit["status"].get("attempts", 0))


# --- RayJob -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "group", "want"),
    [
        pytest.param("as-is", "worker-group-1", "worker-group-1", id="ctl-52 a group's name"),
        pytest.param("empty", "", "worker", id="ctl-52 an empty name"),
        pytest.param("case", "WorkerGroup", "workergroup", id="ctl-52 in lower case"),
    ],
)
def test_the_pod_sets_of_a_ray_job(kinds: Kinds, name: str, group: str, want: str) -> None:
    """The submitter pod is another set, which upstream leaves out."""
    kinds.create("rayjob", f"ray-{name}", ray((group, 2)), FULL)
    found = pod_sets_of(kinds.made_unit(f"ray-{name}"))
    assert found == [("head", 1), (want, 2), ("submitter", 1)]


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        pytest.param("HTTPMode", {"cpu": "5", "memory": "10Gi"}, id="ctl-52 as upstream counts"),
        pytest.param(
            "K8sJobMode",
            {"cpu": "5500m", "memory": "10440Mi"},
            id="ctl-52 with the submitter pod",
        ),
    ],
)
def test_the_demand_of_a_ray_job(kinds: Kinds, mode: str, want: Json) -> None:
    name = f"ray-{mode.lower()}"
    kinds.create("rayjob", name, ray(("worker-group-1", 3), submissionMode=mode), FULL)
    assert kinds.made_unit(name)["spec"]["request"] == want


def test_ctl_53_the_unit_of_a_ray_job_has_its_suffix_also_where_pai_env_is_set(
    kinds: Kinds,
) -> None:
    """Upstream leaves the suffix out there; here PAI_ENV, which is set, has no effect."""
    kinds.create("rayjob", "ray-suffix", ray(("worker", 1)), FULL)
    assert kinds.made_unit("ray-suffix")["metadata"]["name"] == "ray-suffix-ray-qu"


@pytest.mark.parametrize(
    ("succeeded", "want"),
    [
        pytest.param(True, "Succeed", id="ctl-54 Complete"),
        pytest.param(False, "Failed", id="ctl-54 Failed"),
    ],
)
def test_the_life_of_a_ray_job(kinds: Kinds, *, succeeded: bool, want: str) -> None:
    """Upstream's Pending is Dequeued here; the end does not wait for the RayCluster's deletion."""
    name = f"ray-{want.lower()}"
    kinds.create("rayjob", name, ray(("worker", 1)), AMPLE)
    operator = kinds.operator("rayjob")
    operator.hold(name)
    kinds.await_released("rayjob", name)
    operator.start(name, 3)
    kinds.await_phase(name, "Running")
    operator.end(name, succeeded=succeeded)
    kinds.await_phase(name, want)
    assert len(operator.objects.find("rayclusters", name)) == 1
    # The observer sees it a moment later.
    until(lambda: kinds.phases(name)[-3:] == ["Dequeued", "Running", want])


# --- SparkApplication ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "roles", "sets", "want"),
    [
        pytest.param(
            "cluster",
            {
                "driver": {"cores": 2, "memory": "4g"},
                "executor": {"cores": 1, "memory": "2g", "instances": 2},
            },
            [("driver", 1), ("executor", 2)],
            {"cpu": "4", "memory": f"{8 * 1024 + 409 + 2 * 384}Mi"},
            id="ctl-56 cluster mode",
        ),
        pytest.param(
            "client",
            {"driver": {}, "executor": {"cores": 2, "memory": "2g", "instances": 3}},
            [("executor", 3)],
            {"cpu": "6", "memory": f"{6 * 1024 + 3 * 384}Mi"},
            id="ctl-56 client mode",
        ),
    ],
)
def test_the_pod_sets_of_a_spark_application(
    kinds: Kinds, mode: str, roles: Json, sets: Sets, want: Json
) -> None:
    """Upstream's 8Gi and 6Gi are the JVMs' alone; pods request an overhead as well."""
    kinds.create("sparkapp", f"spark-{mode}", spark(mode=mode, **roles), FULL)
    unit = kinds.made_unit(f"spark-{mode}")
    assert (pod_sets_of(unit), unit["spec"]["request"]) == (sets, want)


def test_ctl_57_the_priority_class_of_a_spark_application(kinds: Kinds) -> None:
    spec = spark(batchSchedulerOptions={"priorityClassName": HIGH})
    kinds.create("sparkapp", "spark-class", spec, FULL)
    found = kinds.made_unit("spark-class")["spec"]
    assert (found["priorityClassName"], found["priority"]) == (HIGH, HIGH_VALUE)


@pytest.mark.parametrize(
    ("succeeded", "want"),
    [
        pytest.param(True, "Succeed", id="ctl-58 COMPLETED"),
        pytest.param(False, "Failed", id="ctl-58 FAILED"),
    ],
)
def test_the_life_of_a_spark_application(kinds: Kinds, *, succeeded: bool, want: str) -> None:
    """The annotation alone holds and releases it; the field stays unchanged."""
    key, name = "sparkapp", f"spark-{want.lower()}"
    kinds.create(key, name, spark(suspend=None), FULL, suspend="true")
    until(lambda: reason_of(kinds.unit(name)))
    held = kinds.body(key, name)
    # Upstream's Created and Queuing are one here: its unit is in the queue.
    assert kinds.phase(name) == "Enqueued"
    assert held["metadata"]["annotations"][SUSPEND] == "true"
    assert "suspend" not in held["spec"]
    kinds.merge(key, name, labels={QUOTA_LABEL: AMPLE})
    until(lambda: kinds.body(key, name)["metadata"]["annotations"][SUSPEND] == "false")
    kinds.await_released(key, name)
    operator = kinds.operator(key)
    operator.start(name, 2)
    kinds.await_phase(name, "Running")
    operator.end(name, succeeded=succeeded)
    kinds.await_phase(name, want)


# --- Workflow -----------------------------------------------------------------------------------

NEEDS: Final = "cpu: 4\nmemory: 8Gi"
UPSTREAMS_STEP: Final = {"name": "koord-queue-suspend", "suspend": {}}


@pytest.mark.parametrize(
    ("name", "text", "step"),
    [
        pytest.param("yaml", NEEDS, UPSTREAMS_STEP, id="ctl-59 resources in YAML"),
        pytest.param(
            "json",
            '{"cpu": "4", "memory": "8Gi"}',
            UPSTREAMS_STEP,
            id="ctl-59 resources in JSON",
        ),
        # Upstream leaves it alone.
        pytest.param("bare", NEEDS, None, id="ctl-59 no template of upstream's name is needed"),
    ],
)
def test_the_pod_set_of_a_workflow(kinds: Kinds, name: str, text: str, step: Json | None) -> None:
    job = f"flow-{name}"
    kinds.create("workflow", job, workflow(step=step), FULL, needs=text)
    unit = kinds.await_phase(job, "Enqueued")
    assert pod_sets_of(unit) == [("default", 1)]
    assert unit["spec"]["request"] == {"cpu": "4", "memory": "8Gi"}
    # Upstream marks queued Workflows by a condition `Enqueued`; here its unit is the mark.
    assert "conditions" not in kinds.body("workflow", job).get("status", {})


def test_ctl_59_a_workflow_without_resources_is_left_alone(kinds: Kinds) -> None:
    kinds.create("workflow", "flow-mute", workflow(step=UPSTREAMS_STEP), FULL)
    until(lambda: "min-resources" in " ".join(kinds.world.event_notes("flow-mute").values()))
    kinds.create("workflow", "flow-after", workflow(), FULL, needs=NEEDS)
    kinds.made_unit("flow-after")
    assert kinds.unit("flow-mute") == {}


def test_ctl_59_a_workflow_is_suspended_by_its_spec_alone(kinds: Kinds) -> None:
    """A suspend step holds it upstream; here such a step is the user's, and no release ends it."""
    key, name, spec = "workflow", "flow-waits", workflow(step=UPSTREAMS_STEP, suspend=False)
    waits = {"id": "w", "name": "w", "type": "Suspend", "phase": "Running"}
    status = {"phase": "Running", "nodes": {"w": waits}}
    kinds.create(key, "flow-began", spec, FULL, needs=NEEDS, status=status)
    until(lambda: kinds.is_suspended(key, "flow-began"))
    kinds.create(key, name, spec, FULL, needs=NEEDS)
    until(lambda: kinds.is_suspended(key, name))
    kinds.await_phase(name, "Enqueued")
    kinds.merge(key, name, labels={QUOTA_LABEL: AMPLE})
    kinds.await_released(key, name)
    kinds.say(key, name, status)
    kinds.create(key, "flow-later", workflow(), AMPLE, needs=NEEDS)
    kinds.await_released(key, "flow-later")
    assert kinds.phase(name) == "Dequeued"
    assert not kinds.is_suspended(key, name)
    assert kinds.body(key, name)["status"]["nodes"]["w"] == waits
    for each in (name, "flow-later", "flow-began"):
        kinds.delete(key, each)


@pytest.mark.parametrize(
    ("word", "want"),
    [
        pytest.param("Succeeded", "Succeed", id="ctl-59 Succeeded"),
        pytest.param("Failed", "Failed", id="ctl-59 Failed"),
        pytest.param("Error", "Failed", id="ctl-59 Error"),
    ],
)
def test_the_life_of_a_workflow(kinds: Kinds, word: str, want: str) -> None:
    key, name = "workflow", f"flow-{word.lower()}"
    kinds.create(key, name, workflow(), AMPLE, needs=NEEDS)
    kinds.await_released(key, name)
    operator = kinds.operator(key)
    operator.start(name, 2)
    kinds.await_phase(name, "Running")
    operator.end_pods(name)
    kinds.say(key, name, {**kinds.body(key, name)["status"], "phase": word})
    kinds.await_phase(name, want)


@pytest.mark.parametrize(
    ("name", "spec", "want"),
    [
        pytest.param("number", {"priority": 5}, ("", 5), id="ctl-59 spec.priority wins"),
        pytest.param("class", {}, (HIGH, HIGH_VALUE), id="ctl-59 else the entry template's class"),
    ],
)
def test_the_priority_of_a_workflow(
    kinds: Kinds, name: str, spec: Json, want: tuple[str, int]
) -> None:
    job = f"flow-{name}"
    entry = {"name": "entry", "priorityClassName": HIGH, "container": {"image": "none"}}
    body = workflow(step=entry, entrypoint="entry", **spec)
    kinds.create("workflow", job, body, FULL, needs=NEEDS)
    found = kinds.made_unit(job)["spec"]
    assert (found.get("priorityClassName", ""), found["priority"]) == want
