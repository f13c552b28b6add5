"""Facts about the kinds of the training-operator."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from queue_controllers.decision.grants import plan_restoration
from queue_controllers.extensions.training_job import TRAINING_JOBS, TrainingJob, TrainingJobAdapter
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    JobPodSet,
    LabelsPods,
    PodStamp,
    PrioritySource,
    StatusFacts,
    pod_set_of_pod,
    read_facts,
)
from queue_controllers.jobframework.partial_parallelism import Resize
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.pod import Pod
from tests.queue_controllers.extensions.kubeflow_kit import CHANGED, condition, container, role

Json = dict[str, Any]

BY_KEY: Final = {each.kind.key: each for each in TRAINING_JOBS}
TF: Final = BY_KEY["tfjob"]
PYTORCH: Final = BY_KEY["pytorchjob"]
MPI: Final = BY_KEY["mpijobv1"]


def job(status: Json | None = None, annotations: Json | None = None, **spec: Any) -> TrainingJob:
    metadata = {"name": "main", "uid": "u-1", "annotations": annotations or {}}
    body = {"metadata": metadata, "spec": spec, "status": status or {}}
    return msgspec.convert(body, TrainingJob)


def counts_of(sets: tuple[JobPodSet, ...]) -> list[tuple[str, int]]:
    return [(each.name, each.count) for each in sets]


def test_the_kinds() -> None:
    named = [
        (each.kind.key, each.kind.kind, each.kind.plural, each.kind.name_suffix)
        for each in TRAINING_JOBS
    ]
    assert named == [
        ("tfjob", "TFJob", "tfjobs", "tf-qu"),
        ("pytorchjob", "PyTorchJob", "pytorchjobs", "py-qu"),
        ("xgboostjob", "XGBoostJob", "xgboostjobs", "xgb-qu"),
        ("paddlejob", "PaddleJob", "paddlejobs", "paddle-qu"),
        ("jaxjob", "JAXJob", "jaxjobs", "jax-qu"),
        ("mpijobv1", "MPIJob", "mpijobs", "mpi-qu"),
    ]
    for adapter in TRAINING_JOBS:
        is_adapter: GenericJob[TrainingJob] = adapter
        kind = is_adapter.kind
        assert kind.api_version == "kubeflow.org/v1"
        assert kind.has_suspend_field
        assert kind.owns_pods


@pytest.mark.parametrize(
    ("key", "field", "roles", "want"),
    [
        pytest.param(
            "tfjob",
            "tfReplicaSpecs",
            ("Evaluator", "Worker", "PS", "Master", "Chief"),
            ("chief", "master", "ps", "worker", "evaluator"),
            id="TFJob",
        ),
        pytest.param(
            "pytorchjob",
            "pytorchReplicaSpecs",
            ("Worker", "Master"),
            ("master", "worker"),
            id="PyTorchJob",
        ),
        pytest.param(
            "xgboostjob",
            "xgbReplicaSpecs",
            ("Worker", "Master"),
            ("master", "worker"),
            id="XGBoostJob",
        ),
        pytest.param(
            "paddlejob",
            "paddleReplicaSpecs",
            ("Worker", "Master"),
            ("master", "worker"),
            id="PaddleJob",
        ),
        pytest.param("jaxjob", "jaxReplicaSpecs", ("Worker",), ("worker",), id="JAXJob"),
        pytest.param(
            "mpijobv1",
            "mpiReplicaSpecs",
            ("Worker", "Launcher"),
            ("launcher", "worker"),
            id="MPIJob",
        ),
    ],
)
def test_roles_have_a_fixed_order(
    key: str, field: str, roles: tuple[str, ...], want: tuple[str, ...]
) -> None:
    of = job(**{field: {name: role(2) for name in roles}})
    assert counts_of(BY_KEY[key].pod_sets(of)) == [(name, 2) for name in want]
    # Roles of another kind are not this kind's.
    others = [each for each in TRAINING_JOBS if each.kind.key != key]
    assert all(each.pod_sets(of) == () for each in others)


# --- the switch ---------------------------------------------------------------------------------


def test_the_switch() -> None:
    assert TF.is_suspended(job(runPolicy={"suspend": True}))
    assert not TF.is_suspended(job(runPolicy={"suspend": False}))
    assert not TF.is_suspended(job(runPolicy={}))
    assert not TF.is_suspended(job())
    assert TF.suspend_patch(job()) == {"spec": {"runPolicy": {"suspend": True}}}
    assert TF.release_patch(job(), {}) == {"spec": {"runPolicy": {"suspend": False}}}
    assert TF.why_not_suspendable(job()) == ""


def test_the_suspend_annotation_can_hold_it_too() -> None:
    of = job(annotations={"scheduling.x-k8s.io/suspend": "true"})
    assert read_facts(TF, of, held_by_annotation=True).suspended
    assert not read_facts(TF, of, held_by_annotation=False).suspended


def test_a_release_annotates_the_templates_in_the_same_patch() -> None:
    """Each role as the object spells it, and only existing ones."""
    of = job(pytorchReplicaSpecs={"Master": role(), "worker": role()})
    stamps = {
        "master": PodStamp(labels={"l": "1"}, annotations={"a": "1"}),
        "worker": PodStamp(annotations={"a": "2"}),
        "another": PodStamp(annotations={"a": "3"}),
    }
    master = {"template": {"metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}}}}
    worker = {"template": {"metadata": {"annotations": {"a": "2"}}}}
    assert PYTORCH.release_patch(of, stamps) == {
        "spec": {
            "runPolicy": {"suspend": False},
            "pytorchReplicaSpecs": {"Master": master, "worker": worker},
        }
    }


def test_updates_reach_the_templates() -> None:
    of = job(tfReplicaSpecs={"Chief": role(), "Worker": role()})
    spot = {"key": "spot", "operator": "Exists"}
    update = TemplateUpdate(
        labels={"a": None}, node_selector={"zone": None, "rack": "r"}, tolerations=(spot,)
    )
    pod = {"nodeSelector": {"zone": None, "rack": "r"}, "tolerations": [spot]}
    template = {"metadata": {"labels": {"a": None}}, "spec": pod}
    assert TF.update_patch(of, {"worker": update}) == {
        "spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}
    }
    assert TF.update_patch(of, {"another": update}) == {}
    assert read_facts(TF, of, held_by_annotation=False).takes_updates


def test_other_controllers_are_recognized() -> None:
    assert TF.foreign_manager(job(runPolicy={"managedBy": "x.y/z"})) == "x.y/z"
    assert TF.foreign_manager(job(runPolicy={"managedBy": "kubeflow.org/training-operator"})) == ""
    assert TF.foreign_manager(job()) == ""


# --- what it needs ------------------------------------------------------------------------------


def test_absent_replicas_are_one() -> None:
    of = job(mpiReplicaSpecs={"Launcher": role(), "Worker": role(0)})
    assert counts_of(MPI.pod_sets(of)) == [("launcher", 1), ("worker", 0)]


@pytest.mark.parametrize(
    ("adapter", "spec", "want"),
    [
        pytest.param(
            PYTORCH,
            {"pytorchReplicaSpecs": {"Master": role(), "Worker": role()}},
            {"master": [], "worker": [{"cpu": "50m", "memory": "10Mi"}]},
            id="workers wait for their master",
        ),
        pytest.param(
            PYTORCH,
            {"pytorchReplicaSpecs": {"Worker": role()}},
            {"worker": []},
            id="without one they do not",
        ),
        pytest.param(
            MPI,
            {"mpiReplicaSpecs": {"Launcher": role(), "Worker": role()}},
            {
                "launcher": [{"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}],
                "worker": [],
            },
            id="a launcher gets its tool",
        ),
        pytest.param(
            BY_KEY["xgboostjob"],
            {"xgbReplicaSpecs": {"Master": role(), "Worker": role()}},
            {"master": [], "worker": []},
            id="other kinds add nothing",
        ),
    ],
)
def test_init_containers_of_the_operator_count(
    adapter: TrainingJobAdapter, spec: Json, want: dict[str, list[Json]]
) -> None:
    found = {
        each.name: [first.resources.requests for first in each.template.spec.init_containers]
        for each in adapter.pod_sets(job(**spec))
    }
    assert found == want


def test_they_are_after_those_of_the_template() -> None:
    of = {"Launcher": role(initContainers=[{**container(), "name": "mine"}])}
    (launcher,) = MPI.pod_sets(job(mpiReplicaSpecs=of))
    names = [each.name for each in launcher.template.spec.init_containers]
    assert names == ["mine", "kubectl-delivery"]
    assert all(each.image for each in launcher.template.spec.init_containers)


def test_full_templates_have_them_too() -> None:
    pod = {"containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}]}
    raw = {"spec": {"mpiReplicaSpecs": {"Worker": role(), "Launcher": {"template": {"spec": pod}}}}}
    whole = MPI.full_templates(raw)
    assert whole["worker"] == role()["template"]
    assert whole["launcher"]["spec"]["containers"] == pod["containers"]
    (added,) = whole["launcher"]["spec"]["initContainers"]
    assert added["name"] == "kubectl-delivery"
    assert added["resources"]["requests"]["memory"] == "512Mi"
    assert "initContainers" not in pod


def test_finished_pods_are_not_needed_while_the_run_goes_on() -> None:
    specs = {"Chief": role(), "Worker": role(3)}
    status = {"replicaStatuses": {"Chief": {"active": 1}, "Worker": {"active": 1, "succeeded": 2}}}
    chief, worker = TF.pod_sets(job(status, tfReplicaSpecs=specs))
    assert (chief.count, worker.count) == (1, 1)
    assert not worker.is_done
    status["replicaStatuses"]["Worker"] = {"succeeded": 3}
    chief, worker = TF.pod_sets(job(status, tfReplicaSpecs=specs))
    assert (worker.count, worker.is_done, chief.is_done) == (0, True, False)


@pytest.mark.parametrize(
    ("suspend", "conditions"),
    [
        pytest.param(True, [], id="suspended just now"),
        pytest.param(True, [condition("Suspended")], id="held"),
        pytest.param(False, [condition("Suspended")], id="resumed, and not seen yet"),
    ],
)
def test_pods_of_an_earlier_run_are_needed_again(suspend: bool, conditions: Json) -> None:
    status = {"conditions": conditions, "replicaStatuses": {"Worker": {"succeeded": 2}}}
    of = job(status, runPolicy={"suspend": suspend}, tfReplicaSpecs={"Worker": role(3)})
    assert counts_of(TF.pod_sets(of)) == [("worker", 3)]


# --- elastic ------------------------------------------------------------------------------------


def elastic(replicas: int, least: int | None, **more: Any) -> TrainingJob:
    policy: Json = {"minReplicas": least, "maxReplicas": 20, "metrics": []}
    return job(
        elasticPolicy=policy,
        pytorchReplicaSpecs={"Master": role(), "Worker": role(replicas)},
        **more,
    )


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(elastic(8, 3), (8, 3, 8, None), id="needs three at least"),
        pytest.param(elastic(8, 1), (8, 1, 8, None), id="needs one at least, as the master counts"),
        pytest.param(elastic(8, None), (8, None, None, None), id="states no minimum"),
        pytest.param(elastic(8, 9), (8, None, None, None), id="more than it has"),
        pytest.param(elastic(8, 0), (8, None, None, None), id="none at all"),
        pytest.param(elastic(8, 8), (8, 8, 8, None), id="needs all"),
        pytest.param(
            elastic(4, 3, annotations={"koord-queue/released-parallelism": "4/8"}),
            (8, 3, 8, 4),
            id="released with four",
        ),
        pytest.param(
            elastic(5, 3, annotations={"koord-queue/released-parallelism": "4/8"}),
            (5, 3, 5, None),
            id="edited since",
        ),
        pytest.param(
            elastic(8, 3, status={"replicaStatuses": {"Worker": {"succeeded": 6}}}),
            (2, 2, 8, None),
            id="six have finished",
        ),
        pytest.param(
            elastic(8, 3, status={"replicaStatuses": {"Worker": {"succeeded": 8}}}),
            (0, None, 8, None),
            id="all have",
        ),
    ],
)
def test_an_elastic_job_can_run_with_fewer_workers(
    of: TrainingJob, want: tuple[int, int | None, int | None, int | None]
) -> None:
    master, worker = PYTORCH.pod_sets(of)
    assert (
        worker.count,
        worker.min_count,
        worker.wanted_parallelism,
        worker.released_parallelism,
    ) == want
    assert worker.is_done is (want[0] == 0)
    assert (master.count, master.min_count, master.wanted_parallelism) == (1, None, None)


def test_only_pytorch_is_elastic() -> None:
    specs = {"Worker": role(8)}
    of = job(elasticPolicy={"minReplicas": 3}, paddleReplicaSpecs=specs)
    (worker,) = BY_KEY["paddlejob"].pod_sets(of)
    assert (worker.min_count, worker.wanted_parallelism) == (None, None)
    (worker,) = PYTORCH.pod_sets(job(pytorchReplicaSpecs=specs))
    assert (worker.min_count, worker.wanted_parallelism) == (None, None)


def test_workers_are_resized_and_restored() -> None:
    of = elastic(4, 3, annotations={"koord-queue/released-parallelism": "4/8"})
    assert PYTORCH.resize_patch(of, {"worker": 8}) == {
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 8}}}
    }
    assert PYTORCH.resize_patch(of, {}) == {}
    # Also where the policy was removed while fewer ran.
    bare = msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, elastic_policy=None))
    facts = read_facts(PYTORCH, bare, held_by_annotation=False)
    assert plan_restoration(facts) == Resize({"worker": 8}, "")


# --- priority -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, PrioritySource(), id="nothing is set"),
        pytest.param(
            {
                "runPolicy": {"schedulingPolicy": {"priorityClass": "first"}},
                "tfReplicaSpecs": {"Chief": role(priorityClassName="second")},
            },
            PrioritySource("first"),
            id="the scheduling policy",
        ),
        pytest.param(
            {
                "tfReplicaSpecs": {
                    "Worker": role(priorityClassName="worker"),
                    "PS": role(priorityClassName="ps", priority=7),
                    "Chief": role(),
                }
            },
            PrioritySource("ps", 7),
            id="the first role that has one",
        ),
        pytest.param(
            {"tfReplicaSpecs": {"Worker": role(priority=0)}},
            PrioritySource("", 0),
            id="a number, even 0",
        ),
    ],
)
def test_priority(spec: Json, want: PrioritySource) -> None:
    assert TF.priority_of(job(**spec)) == want


# --- status -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, StatusFacts(is_empty=True), id="no status yet"),
        pytest.param({"startTime": "2026-11-01T10:00:00Z"}, StatusFacts(), id="looked at"),
        pytest.param(
            {"conditions": [condition("Created"), condition("Running")]},
            StatusFacts(running=True),
            id="running",
        ),
        pytest.param({"conditions": [condition("Running", "False")]}, StatusFacts(), id="ran once"),
        pytest.param({"conditions": [condition("Restarting")]}, StatusFacts(), id="restarting"),
        pytest.param(
            {"replicaStatuses": {"Chief": {"active": 1}, "Worker": {"active": 2, "failed": 1}}},
            StatusFacts(pods=3),
            id="counts pods",
        ),
        pytest.param(
            {"conditions": [condition("Suspended")], "replicaStatuses": {"Worker": {}}},
            StatusFacts(suspended=True, suspended_since=CHANGED),
            id="suspended",
        ),
        pytest.param(
            {"conditions": [condition("Suspended", "False")]},
            StatusFacts(suspended_since=CHANGED),
            id="resumed",
        ),
    ],
)
def test_status(status: Json, want: StatusFacts) -> None:
    assert TF.status_of(job(status)) == want


def test_ends_count_only_when_true() -> None:
    """A condition with status False or Unknown does not count."""
    ended = TF.status_of(job({"conditions": [condition("Succeeded")]})).outcome
    assert ended is not None
    assert ended.succeeded
    failed = condition("Failed", reason="TFJobFailed", message="worker 0 failed")
    lost = TF.status_of(job({"conditions": [failed]})).outcome
    assert lost is not None
    assert (lost.succeeded, lost.message) == (False, "worker 0 failed")
    short = TF.status_of(job({"conditions": [condition("Failed", reason="TFJobFailed")]})).outcome
    assert short is not None
    assert short.message == "TFJobFailed"
    undone = [condition("Succeeded", "False"), condition("Failed", "Unknown")]
    assert TF.status_of(job({"conditions": undone})).outcome is None


# --- pods ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({"replica-type": "worker"}, "worker", id="a worker"),
        pytest.param({"replica-type": "worker", "job-role": "master"}, "worker", id="JAX's first"),
        pytest.param({"replica-type": "launcher", "job-role": "master"}, "launcher", id="launcher"),
        pytest.param({}, "", id="one without the label"),
    ],
)
def test_pods_are_found_by_their_replica_type(labels: dict[str, str], want: str) -> None:
    full = {f"training.kubeflow.org/{key}": value for key, value in labels.items()}
    pod = msgspec.convert({"metadata": {"labels": full}}, Pod)
    assert pod_set_of_pod(MPI, pod, ("launcher", "worker")) == want
    assert all(key in full for key in MPI.pod_labels) is bool(want)
    assert not isinstance(MPI, LabelsPods), "their controller is the job"


def test_pods_are_known_before_they_exist() -> None:
    owner = TF.pod_owner(job(), "ps")
    assert owner.labels == {"training.kubeflow.org/replica-type": "ps"}
    found = owner.controller
    assert (found.api_version, found.kind, found.name, found.uid, found.controller) == (
        *("kubeflow.org/v1", "TFJob", "main", "u-1", True),
    )
