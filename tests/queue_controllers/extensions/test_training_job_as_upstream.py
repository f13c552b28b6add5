"""PyTorchJobs of upstream's tests (ids: tests/cluster/upstream/README.md)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext, classify_ownership
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.queue_unit_builder import demand_of, priority_of_job
from queue_controllers.extensions.training_job import TRAINING_JOBS, TrainingJob
from queue_controllers.jobframework.generic_job import JobFacts, pod_set_of_pod, read_facts
from queue_controllers.reservations.reservation_builder import build_reservation, plan_reservations
from queue_controllers.reservations.reservation_settings import ReservationSettings
from shared_api.objects.pod import Pod
from shared_api.well_known_labels import SUSPEND
from tests.queue_controllers.extensions.kubeflow_kit import condition
from tests.queue_controllers.owner_kit import NobodyAbove
from tests.queue_controllers.reservations.reservation_kit import strict

Json = dict[str, Any]

PYTORCH: Final = next(each for each in TRAINING_JOBS if each.kind.key == "pytorchjob")
GIB: Final = 2**30
TOPOLOGY: Final = "network-topology-job-name"


def role(replicas: int, cpu: str, memory: str, *, labels: Json | None = None, **pod: Any) -> Json:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "pytorch", "image": "i", "resources": {"requests": requests}}
    template = {"metadata": {"labels": labels or {}}, "spec": {"containers": [container], **pod}}
    return {"replicas": replicas, "template": template}


MASTER: Final = role(1, "2", "4Gi")
WORKERS: Final = role(2, "1", "2Gi")


def job(*, status: Json | None = None, annotations: Json | None = None, **roles: Json) -> JobFacts:
    """Return a PyTorchJob as it is decoded; of a master and two workers by default."""
    return read_facts(
        PYTORCH, body(status=status, annotations=annotations, **roles), held_by_annotation=False
    )


def body(
    *, status: Json | None = None, annotations: Json | None = None, **roles: Json
) -> TrainingJob:
    metadata = {"name": "p", "namespace": "team", "uid": "u", "annotations": annotations or {}}
    spec = {"pytorchReplicaSpecs": roles or {"Worker": WORKERS, "Master": MASTER}}
    return msgspec.convert(
        {"metadata": metadata, "spec": spec, "status": status or {}}, TrainingJob
    )


def test_sets_and_demand() -> None:
    """[ctl-47] The operator's init container of a worker requests less than the worker."""
    found = job().pod_sets
    assert [(each.name, each.count) for each in found] == [("master", 1), ("worker", 2)]
    assert demand_of(found) == {"cpu": 4000, "memory": 8 * GIB}


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        pytest.param({"training.kubeflow.org/replica-type": "worker"}, {}, "worker", id="worker"),
        pytest.param(
            {
                "training.kubeflow.org/replica-type": "master",
                "training.kubeflow.org/job-role": "master",
            },
            {},
            "master",
            id="master",
        ),
        pytest.param({"pytorch-replica-type": "worker"}, {}, "", id="a label of older operators"),
        pytest.param(
            {"pytorch-replica-type": "worker", "job-role": "master"},
            {"koord-queue/related-podset-name": "master"},
            "master",
            id="with those the annotation of its release counts",
        ),
    ],
)
def test_which_set_a_pod_belongs_to(labels: Json, annotations: Json, want: str) -> None:
    """[ctl-48] The current operator writes other labels than upstream's tests have."""
    pod = msgspec.convert({"metadata": {"labels": labels, "annotations": annotations}}, Pod)
    assert pod_set_of_pod(PYTORCH, pod, ("master", "worker")) == want


def test_the_value_of_its_priority_class_counts() -> None:
    """[ctl-49]."""
    context = ClusterContext(priority_classes={"high": 1000})
    of = job(Master=role(1, "1", "1Gi", priorityClassName="high", priority=7))
    assert priority_of_job(of, context) == ("high", 1000)
    assert priority_of_job(of, ClusterContext()) == ("high", 7), "the class does not exist"


@pytest.mark.parametrize(
    ("annotation", "conditions", "has_unit", "want"),
    [
        pytest.param("false", [], False, False, id="no label"),
        pytest.param("true", [], False, True, id="asks to be queued"),
        pytest.param("false", ["Queuing"], False, False, id="a condition is no mark"),
        pytest.param("false", [], True, True, id="its unit is"),
    ],
)
def test_which_are_managed(
    annotation: str, conditions: list[str], has_unit: bool, want: bool
) -> None:
    """[ctl-50] Upstream marks queued jobs by a condition; here its unit is the mark."""
    status = {"conditions": [condition(each) for each in conditions]}
    of = job(status=status, annotations={SUSPEND: annotation})
    found = classify_ownership(
        of, ClusterContext(), JobSettings(), has_unit=has_unit, owners=NobodyAbove()
    )
    assert found.managed is want


@pytest.mark.parametrize(
    ("roles", "want"),
    [
        pytest.param(
            {"Worker": WORKERS, "Master": MASTER}, ["master", "worker", "worker"], id="all roles"
        ),
        pytest.param({"AIMaster": role(1, "1", "1Gi")}, ["aimaster"], id="one of Alibaba's"),
    ],
)
def test_nodes_are_reserved_for_every_role(roles: Json, want: list[str]) -> None:
    """[ctl-51] Upstream reserves none for an AIMaster, whose pod needs a node like any other."""
    planned = plan_reservations(job(**roles), strict(admissions=()))
    assert [each.pod_set for each in planned] == want


@pytest.mark.parametrize(("attempt", "want"), [(1, "t-reserve-1"), (2, "t-reserve-2")])
def test_a_placeholder_has_its_own_topology(attempt: int, want: str) -> None:
    """[ctl-51] Upstream's suffix is the unit's, `-py-qu`, which all attempts share."""
    of = job(Master=role(1, "1", "1Gi", labels={TOPOLOGY: "t"}))
    unit = strict(attempts=attempt, admissions=())
    (planned,) = plan_reservations(of, unit)
    owner = PYTORCH.pod_owner(body(), planned.pod_set)
    built = build_reservation(planned, of, unit, owner, settings=ReservationSettings())
    assert built["spec"]["template"]["metadata"]["labels"] == {TOPOLOGY: want}
