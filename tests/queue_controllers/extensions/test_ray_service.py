"""Facts about RayService."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.extensions.ray_service import RayService, RayServiceAdapter
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    PodStamp,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.pod import Pod
from tests.sample_jobs import sample, sample_sets, troubles_of

ADAPTER: GenericJob[RayService] = RayServiceAdapter()
AT = "2026-11-01T10:00:00Z"


def service(status: dict[str, Any] | None = None, **spec: Any) -> RayService:
    body = sample("rayservice")
    body["spec"] |= spec
    return msgspec.convert({**body, "status": status or {}}, RayService)


def says(name: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": status, "lastTransitionTime": AT}]}


def one(pods: int) -> dict[str, Any]:
    return {"rayClusterStatus": {"availableWorkerReplicas": pods}}


def test_the_sample_is_decoded() -> None:
    assert sample_sets(ADAPTER, "rayservice") == [("head", 1), ("small", 1)]


def test_the_sample_is_valid() -> None:
    assert troubles_of(sample("rayservice"), "rayservices") == []


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, StatusFacts(is_empty=True), id="no status yet"),
        pytest.param(says("Ready"), StatusFacts(running=True), id="serves"),
        pytest.param(says("Ready", "False"), StatusFacts(), id="does not serve"),
        pytest.param(says("Suspended", "False"), StatusFacts(), id="not suspended"),
        pytest.param(
            {"activeServiceStatus": one(2), "pendingServiceStatus": one(3)},
            StatusFacts(pods=5),
            id="two clusters during an upgrade",
        ),
    ],
)
def test_status(status: dict[str, Any], want: StatusFacts) -> None:
    assert ADAPTER.status_of(service(status)) == want


@pytest.mark.parametrize("name", ["Suspended", "RayServiceSuspended"])
def test_suspended_has_a_time(name: str) -> None:
    said = ADAPTER.status_of(service(says(name)))
    assert (said.suspended, said.suspended_since) == (True, AT)


def test_the_switch() -> None:
    assert ADAPTER.is_suspended(service())
    assert not ADAPTER.is_suspended(service(suspend=False))
    assert ADAPTER.why_not_suspendable(service()) == ""
    assert ADAPTER.suspend_patch(service()) == {"spec": {"suspend": True}}
    assert ADAPTER.release_patch(service(), {}) == {"spec": {"suspend": False}}


def test_annotations_and_updates_reach_the_new_cluster() -> None:
    head = {"headGroupSpec": {"template": {"metadata": {"labels": {"a": "b"}}}}}
    spec = ADAPTER.release_patch(service(), {"head": PodStamp(labels={"a": "b"})})["spec"]
    assert spec == {"suspend": False, "rayClusterConfig": head}
    update = TemplateUpdate(labels={"a": "b"})
    assert RayServiceAdapter().update_patch(service(), {"head": update}) == {
        "spec": {"rayClusterConfig": head}
    }
    assert RayServiceAdapter().update_patch(service(), {}) == {}
    assert set(RayServiceAdapter().list_keys) == {"spec.rayClusterConfig.workerGroupSpecs"}


def test_its_owner() -> None:
    adapter = RayServiceAdapter()
    assert adapter.foreign_manager(service(managedBy="kueue.x-k8s.io/multikueue")) != ""
    assert adapter.foreign_manager(service(managedBy="ray.io/kuberay-operator")) == ""
    labels = {"ray.io/cluster": "fruit-x2k4z", "ray.io/group": "small"}
    assert adapter.job_name_of(labels) == "fruit"
    assert adapter.pod_set_of(Pod(metadata=ObjectMeta(labels=labels))) == "small"
    assert "ray.io/cluster" in adapter.pod_labels


def test_priority_comes_from_the_templates() -> None:
    config = {"headGroupSpec": {"template": {"spec": {"priorityClassName": "high"}}}}
    assert ADAPTER.priority_of(service(rayClusterConfig=config)) == PrioritySource("high")
