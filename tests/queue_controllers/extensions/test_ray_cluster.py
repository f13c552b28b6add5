"""Facts about RayCluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.extensions.ray_cluster import RayCluster, RayClusterAdapter
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    PodStamp,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.list_patches import fill_lists
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import ObjectMeta, Timestamp
from shared_api.objects.pod import Pod
from tests.recorded_lives import demands_of, told_states
from tests.sample_jobs import sample, sample_sets, troubles_of

ADAPTER: GenericJob[RayCluster] = RayClusterAdapter()
AT = Timestamp("2026-11-01T10:00:00Z")


def cluster(status: dict[str, Any] | None = None, **spec: Any) -> RayCluster:
    body = sample("raycluster")
    body["spec"] |= spec
    return msgspec.convert({**body, "status": status or {}}, RayCluster)


def says(*true: str, **more: Any) -> dict[str, Any]:
    conditions = [{"type": each, "status": "True", "lastTransitionTime": AT} for each in true]
    return {"conditions": conditions, **more}


def test_the_sample_is_decoded() -> None:
    assert sample_sets(ADAPTER, "raycluster") == [("head", 1), ("gpu", 2)]


def test_the_sample_is_valid() -> None:
    assert troubles_of(sample("raycluster"), "rayclusters") == []


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, StatusFacts(is_empty=True), id="no status yet"),
        pytest.param(
            says("RayClusterSuspended", state="suspended"),
            StatusFacts(suspended=True, suspended_since=AT),
            id="suspended",
        ),
        pytest.param({"state": "suspended"}, StatusFacts(), id="its state does not count"),
        pytest.param({"state": "ready"}, StatusFacts(), id="nor that it is ready"),
        pytest.param(
            says("HeadPodReady", readyWorkerReplicas=2),
            StatusFacts(running=True, pods=3),
            id="runs",
        ),
        pytest.param(
            says("HeadPodReady", readyWorkerReplicas=1),
            StatusFacts(pods=2),
            id="one is missing",
        ),
        pytest.param(says(readyWorkerReplicas=2), StatusFacts(pods=2), id="the head is missing"),
        pytest.param(
            says("HeadPodReady", "RayClusterSuspending", readyWorkerReplicas=2),
            StatusFacts(pods=3),
            id="it is being suspended",
        ),
        pytest.param(says("RayClusterProvisioned"), StatusFacts(), id="was ready once"),
    ],
)
def test_status(status: dict[str, Any], want: StatusFacts) -> None:
    assert ADAPTER.status_of(cluster(status)) == want


def test_a_head_alone_runs() -> None:
    of = cluster(says("HeadPodReady"), workerGroupSpecs=[])
    assert ADAPTER.status_of(of).running


def test_the_switch() -> None:
    assert ADAPTER.is_suspended(cluster())
    assert not ADAPTER.is_suspended(cluster(suspend=None))
    assert ADAPTER.suspend_patch(cluster()) == {"spec": {"suspend": True}}
    assert ADAPTER.release_patch(cluster(), {}) == {"spec": {"suspend": False}}


def test_a_release_annotates_all_templates() -> None:
    stamp = PodStamp(labels={"a": "b"}, annotations={"c": "d"})
    patch = ADAPTER.release_patch(cluster(), {"head": stamp, "gpu": stamp})
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    assert patch["spec"] == {
        "suspend": False,
        "headGroupSpec": {"template": template},
        "workerGroupSpecs": [{"template": template}],
    }
    found = sample("raycluster")
    (workers,) = found["spec"]["workerGroupSpecs"]
    whole = fill_lists(patch, found, RayClusterAdapter().list_keys)
    assert whole["spec"]["workerGroupSpecs"] == [
        {**workers, "template": {**workers["template"], **template}}
    ]


def test_updates_reach_the_templates() -> None:
    update = TemplateUpdate(node_selector={"zone": "z"})
    assert RayClusterAdapter().update_patch(cluster(), {"head": update}) == {
        "spec": {"headGroupSpec": {"template": {"spec": {"nodeSelector": {"zone": "z"}}}}}
    }
    assert RayClusterAdapter().update_patch(cluster(), {}) == {}


def test_its_owner() -> None:
    adapter = RayClusterAdapter()
    assert adapter.foreign_manager(cluster(managedBy="kueue.x-k8s.io/multikueue")) != ""
    assert adapter.foreign_manager(cluster(managedBy="ray.io/kuberay-operator")) == ""
    assert adapter.foreign_manager(cluster()) == ""
    labels = {"ray.io/cluster": "main", "ray.io/node-type": "head"}
    assert adapter.job_name_of(labels) == "main"
    assert adapter.job_name_of({}) == ""
    assert adapter.pod_set_of(Pod(metadata=ObjectMeta(labels=labels))) == "head"
    assert set(adapter.pod_labels) == {"ray.io/cluster", "ray.io/group", "ray.io/node-type"}


def test_priority_comes_from_the_templates() -> None:
    head = {"template": {"spec": {"priorityClassName": "high"}}}
    assert ADAPTER.priority_of(cluster(headGroupSpec=head)) == PrioritySource("high")


def test_a_recorded_life() -> None:
    assert " ".join(told_states("raycluster-abcde")) == (
        "held stopping held released starting running stopping"
        " held released starting running starting running deleting gone"
    )
    assert demands_of("raycluster-abcde")[0] == {"cpu": "3", "memory": "3Gi"}


def test_a_resume_without_pods() -> None:
    """It runs only after it was touched 35 s later."""
    states = " ".join(told_states("raycluster-s-nudge"))
    assert states == "starting held stopping held released starting running deleting gone"
