"""Samples, random specs and recorded lives of the training-operator's kinds."""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec
import pytest

from queue_controllers.extensions.training_job import TRAINING_JOBS, TrainingJobAdapter
from tests.queue_controllers.extensions.kubeflow_kit import asked_by_job, demand_found, random_roles
from tests.recorded_lives import demands_of, told_states
from tests.sample_jobs import sample, troubles_of

Json = dict[str, Any]

BY_KEY: Final = {each.kind.key: each for each in TRAINING_JOBS}
SEEDS: Final = range(100)

CRDS: Final = {"mpijobv1": "mpijobs-v1"}
"""Of the others: named after the plural."""

FIELDS: Final = {
    "tfjob": ("tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    "pytorchjob": ("pytorchReplicaSpecs", ("Master", "Worker")),
    "xgboostjob": ("xgbReplicaSpecs", ("Master", "Worker")),
    "paddlejob": ("paddleReplicaSpecs", ("Master", "Worker")),
    "jaxjob": ("jaxReplicaSpecs", ("Worker",)),
    "mpijobv1": ("mpiReplicaSpecs", ("Launcher", "Worker")),
}

SMALL: Final = {"resources": {"requests": {"cpu": "50m", "memory": "10Mi"}}}
LARGE: Final = {
    "resources": {"requests": {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}}
}


@pytest.mark.parametrize("adapter", TRAINING_JOBS, ids=lambda each: each.kind.key)
def test_samples_are_accepted_and_read(adapter: TrainingJobAdapter) -> None:
    kind = adapter.kind
    body = sample(kind.key)
    assert (body["apiVersion"], body["kind"]) == (kind.api_version, kind.kind)
    assert troubles_of(body, CRDS.get(kind.key, kind.plural)) == []
    found = adapter.pod_sets(msgspec.convert(body, adapter.object_type))
    want = body["spec"][FIELDS[kind.key][0]]
    assert {each.name: each.count for each in found} == {
        name.lower(): each["replicas"] for name, each in want.items()
    }


def added_by_operator(key: str, roles: Json) -> dict[str, list[Json]]:
    if key == "pytorchjob" and "Master" in roles:
        return {"Worker": [SMALL]}
    return {"Launcher": [LARGE]} if key == "mpijobv1" else {}


@pytest.mark.parametrize("key", FIELDS)
def test_demand_is_that_of_the_spec(key: str) -> None:
    field, names = FIELDS[key]
    for seed in SEEDS:
        rng = random.Random(f"{key}-{seed}")
        roles = random_roles(rng, names)
        spec: Json = {field: roles}
        if rng.random() < 0.3:
            spec["elasticPolicy"] = {"minReplicas": rng.randrange(1, 3)}
        want = asked_by_job(roles, added_by_operator(key, roles))
        assert demand_found(BY_KEY[key], {"spec": spec}) == want, f"seed {seed}"


STARTED: Final = ("held", "released", "starting", "running", "stopping")
AGAIN: Final = ("held", "released", "starting", "running")
END: Final = ("deleting", "gone")


@pytest.mark.parametrize(
    ("name", "demand"),
    [
        pytest.param("tfjob", {"cpu": "4", "memory": "4Gi"}, id="TFJob"),
        pytest.param("pytorchjob", {"cpu": "3", "memory": "3Gi"}, id="PyTorchJob"),
        pytest.param("xgboostjob", {"cpu": "3", "memory": "3Gi"}, id="XGBoostJob"),
        pytest.param("paddlejob", {"cpu": "3", "memory": "3Gi"}, id="PaddleJob"),
        pytest.param(
            "mpijob-v1", {"cpu": "3", "ephemeral-storage": "5Gi", "memory": "3Gi"}, id="MPIJob"
        ),
    ],
)
def test_a_life_as_it_was(name: str, demand: Json) -> None:
    states, demands = told_states(f"{name}-abcde"), demands_of(f"{name}-abcde")
    assert states == [*STARTED, *AGAIN, "finished", "gone"]
    assert demands == [demand]


def test_a_life_whose_last_pod_succeeds_before_its_job() -> None:
    states, demands = told_states("jaxjob-abcde"), demands_of("jaxjob-abcde")
    assert states == [*STARTED, *AGAIN, "starting", "finished", "gone"]
    assert demands == [{"cpu": "2", "memory": "2Gi"}]


def test_a_restart_is_a_start() -> None:
    states = told_states("tfjob-g2-exitcode")
    assert states == ["starting", "running", "starting", "running", "stopping", *AGAIN, *END]


@pytest.mark.parametrize(
    "name", ["tfjob", "pytorchjob", "xgboostjob", "paddlejob", "jaxjob", "mpijob-v1"]
)
def test_a_resume_beside_old_pods_ends_a_job(name: str) -> None:
    """What the machine never does: it resumes when the pods are gone."""
    states = told_states(f"{name}-m-resume-at-suspended")
    assert states == ["starting", "running", "stopping", "starting", "finished", "gone"]
