"""The pods of a RayCluster's spec."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.job_families.ray import (
    RayClusterSpec,
    RayClusterStatus,
    WorkerGroup,
    cluster_patch,
    cluster_pod_sets,
    cluster_priority,
    owner_of_cluster,
    ray_pod_set_of,
    worker_set_names,
)
from queue_controllers.jobframework.generic_job import PodStamp, PrioritySource, updates_of_stamps
from queue_controllers.jobframework.list_patches import BY_POSITION, fill_lists
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import Condition, ObjectMeta
from shared_api.objects.pod import Pod
from shared_api.pod_requests import pod_requests

CPU, MIB = 1000, 2**20


def template(cpu: str, memory: str, **spec: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "ray", "image": "ray:1", "resources": {"requests": requests}}
    return {"spec": {"containers": [container], **spec}}


def group(name: str = "small", **more: Any) -> dict[str, Any]:
    return {"groupName": name, "replicas": 1, "template": template("1", "1Gi"), **more}


def cluster(*groups: dict[str, Any], **more: Any) -> RayClusterSpec:
    head = {"template": more.pop("head", template("1", "1Gi"))}
    body = {"headGroupSpec": head, "workerGroupSpecs": list(groups), **more}
    return msgspec.convert(body, RayClusterSpec)


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param({}, 0, id="no fields: none"),
        pytest.param({"replicas": 2}, 2, id="replicas"),
        pytest.param({"minReplicas": 3}, 3, id="no replicas: the least"),
        pytest.param({"replicas": 1, "minReplicas": 3}, 3, id="fewer than the least"),
        pytest.param({"replicas": 9, "maxReplicas": 4}, 4, id="more than the most"),
        pytest.param({"minReplicas": 5, "maxReplicas": 4}, 5, id="the least before the most"),
        pytest.param({"replicas": 2, "numOfHosts": 4}, 8, id="on four hosts each"),
        pytest.param({"replicas": 2, "numOfHosts": 0}, 2, id="on zero: on one"),
        pytest.param({"replicas": 2, "suspend": True}, 0, id="a group that is suspended"),
        pytest.param({"replicas": 2**31 - 1, "numOfHosts": 9}, 2**31 - 1, id="no more than fit"),
    ],
)
def test_how_many_workers(said: dict[str, Any], want: int) -> None:
    assert msgspec.convert(said, WorkerGroup).count == want


@pytest.mark.parametrize(
    ("groups", "want"),
    [
        pytest.param(["b", "a"], ("b", "a"), id="in the order of the spec"),
        pytest.param(["GPU.a"], ("gpu-a",), id="lower case, no dots"),
        pytest.param(["x", "X", "x"], ("x", "x-2", "x-3"), id="each once"),
        pytest.param(
            ["head", "submitter", ""],
            ("head-group", "submitter-group", "worker"),
            id="never those of other pods",
        ),
        pytest.param(["y" * 63, "Y" * 63], ("y" * 63, "y" * 61 + "-2"), id="cut to fit"),
    ],
)
def test_names_of_worker_groups(groups: list[str], want: tuple[str, ...]) -> None:
    spec = cluster(*(group(each) for each in groups))
    assert worker_set_names(spec) == want
    assert [each.name for each in cluster_pod_sets(spec)] == ["head", *want]


@pytest.mark.parametrize(
    ("more", "want"),
    [
        pytest.param({}, (1000, 1024), id="the head alone"),
        pytest.param({"enableInTreeAutoscaling": False}, (1000, 1024), id="no autoscaler"),
        pytest.param({"enableInTreeAutoscaling": True}, (1500, 1536), id="the usual autoscaler"),
        pytest.param(
            {
                "enableInTreeAutoscaling": True,
                "autoscalerOptions": {"resources": {"requests": {"cpu": "2"}}},
            },
            (3000, 1024),
            id="an autoscaler of its own size",
        ),
        pytest.param(
            {"autoscalerOptions": {"resources": {"requests": {"cpu": "2"}}}},
            (1000, 1024),
            id="sized but off",
        ),
        pytest.param(
            {"historyServerOptions": {"collectorOptions": {}}}, (1100, 1152), id="a collector"
        ),
        pytest.param({"historyServerOptions": {}}, (1000, 1024), id="no collector"),
    ],
)
def test_containers_added_to_the_head(more: dict[str, Any], want: tuple[int, int]) -> None:
    (head,) = cluster_pod_sets(cluster(**more))
    requests = pod_requests(head.template.spec)
    assert (requests["cpu"], requests["memory"] // MIB) == want
    assert all(each.image == "ray:1" for each in head.template.spec.containers)


def test_workers_wait_for_the_head() -> None:
    """The init container counts where it requests more than the worker itself."""
    small = group(template=template("100m", "1Gi"), replicas=1)
    _, workers = cluster_pod_sets(cluster(small))
    assert pod_requests(workers.template.spec) == {"cpu": 200, "memory": 1024 * MIB}
    (init,) = workers.template.spec.init_containers
    assert (init.name, init.image) == ("wait-gcs-ready", "ray:1")


def expected(spec: dict[str, Any]) -> dict[str, int]:
    """Add up a spec by the definition of the CRD, without the code under test."""
    cpu, memory = 1000, 1024
    if spec.get("enableInTreeAutoscaling"):
        cpu, memory = cpu + 500, memory + 512
    for each in spec["workerGroupSpecs"]:
        requests = each["template"]["spec"]["containers"][0]["resources"]["requests"]
        of_cpu, of_memory = int(requests["cpu"][:-1]), int(requests["memory"][:-2])
        least, most = each.get("minReplicas", 0), each.get("maxReplicas", 2**31 - 1)
        count = min(max(each.get("replicas", least), least), most) * each.get("numOfHosts", 1)
        cpu += max(of_cpu, 200) * count
        memory += max(of_memory, 256) * count
    return {"cpu": cpu, "memory": memory * MIB}


def random_spec(chance: random.Random) -> dict[str, Any]:
    groups = []
    for index in range(chance.randrange(5)):
        requests = (f"{chance.randrange(50, 4000)}m", f"{chance.randrange(64, 9000)}Mi")
        more = {
            "replicas": chance.randrange(6),
            "minReplicas": chance.randrange(3),
            "maxReplicas": chance.randrange(3, 8),
            "numOfHosts": chance.randrange(1, 4),
        }
        kept = {key: value for key, value in more.items() if chance.random() < 0.8}
        groups.append({"groupName": f"g{index}", "template": template(*requests), **kept})
    head = {"template": template("1", "1Gi")}
    spec = {"headGroupSpec": head, "workerGroupSpecs": groups}
    return spec | {"enableInTreeAutoscaling": chance.random() < 0.5}


@pytest.mark.parametrize("seed", range(100))
def test_demand_of_any_cluster(seed: int) -> None:
    body = random_spec(random.Random(seed))
    got = demand_of(cluster_pod_sets(msgspec.convert(body, RayClusterSpec)))
    assert got == expected(body)


def test_an_invalid_group_is_refused_at_decoding() -> None:
    with pytest.raises(msgspec.ValidationError, match="replicas"):
        cluster(group(replicas="two"))


@pytest.mark.parametrize(
    ("head", "workers", "want"),
    [
        pytest.param("a", "b", PrioritySource("a"), id="the head's"),
        pytest.param("", "b", PrioritySource("b"), id="else the first group's"),
        pytest.param("", "", PrioritySource(), id="none"),
    ],
)
def test_priority(head: str, workers: str, want: PrioritySource) -> None:
    spec = cluster(
        group(template=template("1", "1Gi", priorityClassName=workers)),
        group("b", template=template("1", "1Gi", priorityClassName="last")) if workers else group(),
        head=template("1", "1Gi", priorityClassName=head),
    )
    assert cluster_priority(spec) == want


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({"ray.io/node-type": "head", "ray.io/group": "headgroup"}, "head", id="head"),
        pytest.param({"ray.io/node-type": "worker", "ray.io/group": "GPU"}, "gpu", id="worker"),
        pytest.param({"ray.io/group": "head"}, "head-group", id="a group named like the head"),
        pytest.param({}, "", id="says nothing"),
    ],
)
def test_pods_are_sorted_by_role_and_group(labels: dict[str, str], want: str) -> None:
    assert ray_pod_set_of(Pod(metadata=ObjectMeta(labels=labels))) == want


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({"ray.io/cluster": "main-rkrrw"}, "main", id="by the cluster's name"),
        pytest.param({"ray.io/cluster": "a-b-x2k4z"}, "a-b", id="only the last part is random"),
        pytest.param({"ray.io/cluster": "main"}, "", id="a cluster with a name of its own"),
        pytest.param({}, "", id="no pod of Ray's"),
        pytest.param(
            {"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": "main"},
            "main",
            id="by its label",
        ),
        pytest.param(
            {
                "ray.io/originated-from-crd": "RayService",
                "ray.io/originated-from-cr-name": "main",
                "ray.io/cluster": "main-rkrrw",
            },
            "",
            id="by another kind's label",
        ),
    ],
)
def test_whose_pod_it_is(labels: dict[str, str], want: str) -> None:
    assert owner_of_cluster(labels, "RayJob") == want


def test_patches_keep_fields_of_a_group_that_are_not_read() -> None:
    first, second = group("a", rayStartParams={"x": "y"}), group("b")
    first["template"]["metadata"] = {"labels": {"gone": "1", "kept": "2"}}
    update = TemplateUpdate(
        labels={"gone": None, "new": "3"}, node_selector={"zone": "z"}, tolerations=({"key": "k"},)
    )
    patch = cluster_patch(cluster(first, second), {"a": update})
    assert patch["workerGroupSpecs"][1] == {}, "no change for it"
    found = {"spec": {"workerGroupSpecs": [first, second]}}
    whole = fill_lists({"spec": patch}, found, {"spec.workerGroupSpecs": BY_POSITION})
    changed = {
        **first["template"]["spec"],
        "nodeSelector": {"zone": "z"},
        "tolerations": [{"key": "k"}],
    }
    metadata = {"labels": {"kept": "2", "new": "3"}}
    assert whole["spec"]["workerGroupSpecs"] == [
        {**first, "template": {"metadata": metadata, "spec": changed}},
        second,
    ]


def test_annotations_of_the_head_leave_the_groups_alone() -> None:
    stamps = {"head": PodStamp(labels={"a": "b"}), "submitter": PodStamp(labels={"a": "b"})}
    assert cluster_patch(cluster(group()), updates_of_stamps(stamps)) == {
        "headGroupSpec": {"template": {"metadata": {"labels": {"a": "b"}}}}
    }
    assert cluster_patch(cluster(group()), {}) == {}


def test_a_status_counts_its_pods() -> None:
    ready = Condition(type="HeadPodReady", status="True")
    assert RayClusterStatus().pods == 0
    assert RayClusterStatus(conditions=(ready,)).pods == 1
    both = RayClusterStatus(
        conditions=(ready,), available_worker_replicas=3, ready_worker_replicas=2
    )
    assert both.pods == 4
