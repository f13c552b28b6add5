"""Jobs of the group kubeflow.org, over the fake API server with their own CRDs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.queue_controllers.extensions.kubeflow_kit import condition
from tests.sample_jobs import crd, sample

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

Json = dict[str, Any]

QUOTA = {"quota.scheduling.koordinator.sh/name": "gold"}

KINDS = [
    pytest.param("tfjob", "tfjobs", "tfReplicaSpecs", "sample-tf-qu", id="TFJob"),
    pytest.param(
        "pytorchjob", "pytorchjobs", "pytorchReplicaSpecs", "sample-py-qu", id="PyTorchJob"
    ),
    pytest.param("xgboostjob", "xgboostjobs", "xgbReplicaSpecs", "sample-xgb-qu", id="XGBoostJob"),
    pytest.param(
        "paddlejob", "paddlejobs", "paddleReplicaSpecs", "sample-paddle-qu", id="PaddleJob"
    ),
    pytest.param("jaxjob", "jaxjobs", "jaxReplicaSpecs", "sample-jax-qu", id="JAXJob"),
    pytest.param("mpijobv1", "mpijobs-v1", "mpiReplicaSpecs", "sample-mpi-qu", id="MPIJob v1"),
    pytest.param(
        "mpijob", "mpijobs-v2beta1", "mpiReplicaSpecs", "sample-mpi-qu", id="MPIJob v2beta1"
    ),
]


def plural_of(crd: str) -> str:
    return crd.partition("-")[0]


def put_in_line(world: World, key: str, file: str, **spec: Any) -> Json:
    """Start the controllers and create the sample of a kind, changed; return its unit."""
    world.direct.create(crd(file))
    world.start(f"--enabled-extensions={key}")
    body = sample(key)
    body["metadata"] |= {"namespace": "team"}
    body["metadata"]["labels"] |= QUOTA
    body["spec"] |= spec
    world.direct.create(body)
    world.settle()
    (name,) = world.units()
    return world.get_unit(name)


def admit(world: World, unit: Json, **fewer: int) -> None:
    world.admit_unit(unit["metadata"]["name"], **fewer)
    world.settle()


@pytest.mark.parametrize(("key", "crd", "field", "unit_name"), KINDS)
def test_samples_are_held_and_released(
    world: World, key: str, crd: str, field: str, unit_name: str
) -> None:
    unit = put_in_line(world, key, crd)
    job = world.direct.get(plural_of(crd), "sample", "team")
    assert job["spec"]["runPolicy"]["suspend"]
    assert unit["metadata"]["name"] == unit_name
    roles = job["spec"][field]
    counts = {each["name"]: each["count"] for each in unit["spec"]["podSet"]}
    assert counts == {name.lower(): each["replicas"] for name, each in roles.items()}
    admit(world, unit)
    job = world.direct.get(plural_of(crd), "sample", "team")
    assert not job["spec"]["runPolicy"]["suspend"]
    for name, each in job["spec"][field].items():
        marks = each["template"]["metadata"]["annotations"]
        assert marks["koord-queue/related-queueunit"] == f"team/{unit_name}"
        # A single set needs no name: all pods belong to it.
        assert marks.get("koord-queue/related-podset-name", name.lower()) == name.lower()
        assert each["template"]["metadata"]["labels"] == QUOTA
        assert each["template"]["spec"]["containers"][0]["image"]


def make_pod(world: World, name: str, owner: Json, labels: dict[str, str]) -> None:
    """Create a running pod without a mark of the queue."""
    full = {f"training.kubeflow.org/{key}": value for key, value in labels.items()}
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": name, "namespace": "team", "labels": full, "ownerReferences": [reference]}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    world.direct.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    world.patch_pod_status(name, phase="Running")


def test_a_launcher_counts_though_a_job_stands_between(world: World) -> None:
    unit = put_in_line(world, "mpijob", "mpijobs-v2beta1")
    admit(world, unit)
    job = world.direct.get("mpijobs", "sample", "team")
    between = world.direct.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "sample-launcher", "namespace": "team"},
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "c", "image": "i"}],
                    }
                }
            },
        }
    )
    named = {"operator-name": "mpi-operator", "job-name": "sample"}
    make_pod(world, "sample-launcher-x", between, {**named, "job-role": "launcher"})
    for number in range(2):
        make_pod(world, f"sample-worker-{number}", job, {**named, "job-role": "worker"})
    status = {"status": {"conditions": [condition("Created"), condition("Running")]}}
    world.direct.patch("mpijobs", "sample", status, namespace="team", subresource="status")
    world.settle(2.0)
    found = world.get_unit("sample-mpi-qu")["status"]
    assert found["phase"] == "Running"
    assert {each["name"]: each["running"] for each in found["admissions"]} == {
        "launcher": 1,
        "worker": 2,
    }


def test_an_elastic_job_starts_with_fewer_workers_and_gets_them_back(world: World) -> None:
    unit = put_in_line(world, "pytorchjob", "pytorchjobs", elasticPolicy={"minReplicas": 2})
    least = {each["name"]: each.get("minCount") for each in unit["spec"]["podSet"]}
    assert least == {"master": None, "worker": 2}
    admit(world, unit, worker=2)
    assert workers_of(world) == (False, 2)
    asked = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "x"}
    evicted = {"conditions": [{**asked, "lastTransitionTime": world.now()}]}
    world.patch_unit_status(evicted, "sample-py-qu")
    world.settle(2.0)
    assert workers_of(world) == (True, 3)


def workers_of(world: World) -> tuple[bool, int]:
    """Return whether the PyTorchJob is suspended, and how many workers it has."""
    spec = world.direct.get("pytorchjobs", "sample", "team")["spec"]
    return spec["runPolicy"]["suspend"], spec["pytorchReplicaSpecs"]["Worker"]["replicas"]
