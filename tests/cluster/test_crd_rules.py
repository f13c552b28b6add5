"""Each rule of the CRDs on a real API server, both ways."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.crd_kit import (
    CONSUMER,
    NAMESPACE,
    QUEUES,
    UNITS,
    Json,
    body_of,
    causes,
    create,
    create_dry,
    one_unit,
    patch,
    plane_with_crds,
)
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane, KubectlFailed


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    with plane_with_crds(controlplane_binaries) as running:
        yield running


@pytest.fixture
def unit(plane: ControlPlane) -> Iterator[str]:
    with one_unit(plane) as name:
        yield name


TEMPLATE: Json = {}
POD_SET = {"name": "a", "count": 2, "template": TEMPLATE}


@pytest.mark.parametrize(
    "spec",
    [
        {"podSet": [POD_SET, {**POD_SET, "name": "b"}]},
        {"podSet": [{**POD_SET, "name": f"w-{number}"} for number in range(32)]},
        {"podSet": [{**POD_SET, "minCount": 2}]},
        {"podSet": [{"minCount": 1}]},
        {"podSet": [{**POD_SET, "count": 0}]},
        {"request": {"cpu": 0, "memory": "+1Gi", "a/b": "0.5"}},
        {"resource": {"cpu": "1e3", "memory": "1E", "x": ".5", "y": "5."}},
        {"request": {f"example.com/r{number}": "1" for number in range(64)}},
        {"priority": -(2**31), "maximumExecutionTimeSeconds": 0},
        {"podSet": [{"template": {"anything": [1, {"goes": None}]}}]},
    ],
)
def test_accepted_specs(plane: ControlPlane, spec: Json) -> None:
    assert create_dry(plane, copy.deepcopy(spec))["kind"] == "QueueUnit"


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"podSet": [POD_SET, POD_SET]}, "spec.podSet", "no two items may have the same name"),
        ({"podSet": [{}, {}]}, "spec.podSet", "no two items may have the same name"),
        (
            {"podSet": [{**POD_SET, "minCount": 3}]},
            "spec.podSet[0].minCount",
            "minCount must not be larger than count",
        ),
        ({"request": {"cpu": "-1"}}, "spec.request[cpu]", "a demand must not be negative"),
        ({"request": {"a/b": -1}}, "spec.request[a/b]", "a demand must not be negative"),
        ({"resource": {"cpu": "-1m"}}, "spec.resource[cpu]", "a demand must not be negative"),
        ({"request": {"cpu": "1GB"}}, "spec.request.cpu", "should match"),
        ({"request": {"cpu": "9e999999999"}}, "spec.request.cpu", "should match"),
        ({"request": {"cpu": "1" * 65}}, "spec.request.cpu", "Too long"),
        ({"request": {"cpu": 0.5}}, "spec.request.cpu", "must be of type integer"),
        ({"podSet": []}, "spec.podSet", "should have at least 1 items"),
        (
            {"podSet": [{**POD_SET, "name": f"w-{number}"} for number in range(33)]},
            "spec.podSet",
            "must have at most 32 items",
        ),
        ({"podSet": [{**POD_SET, "count": -1}]}, "spec.podSet[0].count", "greater than or equal"),
        ({"podSet": [{**POD_SET, "name": "A b"}]}, "spec.podSet[0].name", "should match"),
        ({"priority": 2**31}, "spec.priority", "less than or equal"),
        ({"priority": "high"}, "spec.priority", "must be of type integer"),
        ({"queue": "q" * 254}, "spec.queue", "Too long"),
        (
            {"request": {f"example.com/r{number}": 1 for number in range(65)}},
            "spec.request",
            "must have at most 64 items",
        ),
    ],
)
def test_refused_specs(plane: ControlPlane, spec: Json, field: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        create_dry(plane, spec)
    found = causes(caught.value)
    assert any(message in said for blamed, said in found if blamed == field), found


@pytest.mark.parametrize(
    "change",
    [
        {"consumerRef": {"apiVersion": "batch/v2", "resourceVersion": "9", "fieldPath": "x"}},
        {"queue": "another", "priority": 9},
        {"request": {"cpu": "2"}},
    ],
)
def test_a_unit_may_be_edited(plane: ControlPlane, unit: str, change: Json) -> None:
    assert patch(plane, unit, {"spec": change})["metadata"]["generation"] == 2


def test_empty_fields_of_a_reference_may_be_set_once(plane: ControlPlane) -> None:
    create(plane, "open", {"consumerRef": {"name": "j"}})
    patch(plane, "open", {"spec": {"consumerRef": CONSUMER}})
    with pytest.raises(ApiError) as caught:
        patch(plane, "open", {"spec": {"consumerRef": {"uid": "2"}}})
    plane.client_for().request("DELETE", f"{UNITS}/open")
    assert caught.value.status == 422


def test_a_unit_without_a_job_may_be_given_one(plane: ControlPlane) -> None:
    create(plane, "jobless", {"queue": "q"})
    got = patch(plane, "jobless", {"spec": {"consumerRef": CONSUMER}})
    plane.client_for().request("DELETE", f"{UNITS}/jobless")
    assert got["spec"]["consumerRef"] == CONSUMER


SAME = (
    "a unit stands for one job: group, kind, namespace, name and uid of consumerRef are immutable"
)


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"consumerRef": {"apiVersion": "example.com/v1"}}, "spec.consumerRef", SAME),
        ({"consumerRef": {"apiVersion": "v1"}}, "spec.consumerRef", SAME),
        ({"consumerRef": {"apiVersion": None}}, "spec.consumerRef", SAME),
        ({"consumerRef": {"uid": "2"}}, "spec.consumerRef", SAME),
        ({"consumerRef": {"uid": None}}, "spec.consumerRef", SAME),
        ({"consumerRef": {"kind": "RayJob"}}, "spec.consumerRef", SAME),
        ({"consumerRef": {"namespace": "b"}}, "spec.consumerRef", SAME),
        ({"consumerRef": {"name": "k"}}, "spec.consumerRef", SAME),
        ({"consumerRef": None}, "spec", "consumerRef cannot be removed"),
        (None, "spec", "consumerRef cannot be removed"),
    ],
)
def test_a_unit_cannot_be_given_another_job(
    plane: ControlPlane, unit: str, spec: Json, field: str, message: str
) -> None:
    with pytest.raises(ApiError) as caught:
        patch(plane, unit, {"spec": spec})
    assert causes(caught.value) == {(field, f"Invalid value: {message}")}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": ""},
        {"phase": "Preempted"},
        {"phase": "TimeoutBackoff", "lastUpdateTime": None},
        {"admissions": [{"name": "a", "replicas": 1, "running": 3}]},
        {"podOwners": ["1", "2"], "requeueState": {"count": 1}},
        {"admissionChecks": [{"name": "c", "state": "Retry", "requeueAfterSeconds": 5}]},
        {"requeueState": {"count": 1, "requeueAt": "0001-01-01T00:00:00+14:00"}},
        {"requeueState": {"count": 1, "requeueAt": "9999-12-31T23:59:59-14:00"}},
        {"reclaimablePods": [{"name": "a", "count": 2**31 - 1}]},
    ],
)
def test_accepted_statuses(plane: ControlPlane, unit: str, status: Json) -> None:
    assert patch(plane, unit, {"status": status}, "/status")["status"]


@pytest.mark.parametrize(
    ("status", "field", "message"),
    [
        ({"phase": "Foo"}, "status.phase", "Unsupported value"),
        ({"attempts": -1}, "status.attempts", "greater than or equal to 0"),
        (
            {"admissions": [{"name": "a", "replicas": 1}]},
            "status.admissions[0].running",
            "Required",
        ),
        (
            {"admissions": [{"name": f"{n}", "replicas": 1, "running": 0} for n in range(33)]},
            "status.admissions",
            "must have at most 32 items",
        ),
        (
            {"admissionChecks": [{"name": "c", "state": "Maybe"}]},
            "status.admissionChecks[0].state",
            "Unsupported value",
        ),
        (
            {"admissionChecks": [{"name": "c", "state": "Ready"}] * 2},
            "status.admissionChecks[1]",
            "Duplicate value",
        ),
        (
            {"admissions": [{"name": "a", "replicas": 1, "running": 0}] * 2},
            "status.admissions",
            "no two items may have the same name",
        ),
        (
            {"reclaimablePods": [{"name": "a", "count": 1}] * 2},
            "status.reclaimablePods",
            "no two items may have the same name",
        ),
        (
            {"admissions": [{"name": "a", "replicas": -1, "running": 0}]},
            "status.admissions[0].replicas",
            "greater than or equal to 0",
        ),
        (
            {
                "admissions": [
                    {"name": "a", "replicas": 1, "running": 0, "resources": {"cpu": "lots"}}
                ]
            },
            "status.admissions[0].resources.cpu",
            "should match",
        ),
        (
            {"reclaimablePods": [{"name": "a", "count": -1}]},
            "status.reclaimablePods[0].count",
            "greater than or equal to 0",
        ),
        (
            {"reclaimablePods": [{"name": "a", "count": 2**31}]},
            "status.reclaimablePods[0].count",
            "less than or equal to",
        ),
        (
            {"requeueState": {"count": 1, "requeueAt": "soon"}},
            "status.requeueState.requeueAt",
            "must be of type date-time",
        ),
        ({"podOwners": ["1", "1"]}, "status.podOwners[1]", "Duplicate value"),
        ({"lastUpdateTime": "yesterday"}, "status.lastUpdateTime", "must be of type date-time"),
        ({"message": "m" * 32769}, "status.message", "Too long"),
        ({"conditions": [{"type": "A", "status": "Yes"}]}, "status.conditions[0].status", "Unsu"),
    ],
)
def test_refused_statuses(
    plane: ControlPlane, unit: str, status: Json, field: str, message: str
) -> None:
    with pytest.raises(ApiError) as caught:
        patch(plane, unit, {"status": status}, "/status")
    found = causes(caught.value)
    assert any(message in said for blamed, said in found if blamed == field), found


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"queuePolicy": "p" * 64}, "spec.queuePolicy"),
        ({"admissionChecks": [{}]}, "spec.admissionChecks[0].name"),
        (
            {
                "admissionChecks": [
                    {"name": "c", "labelSelector": {"matchExpressions": [{"operator": "Like"}]}}
                ]
            },
            "spec.admissionChecks[0].labelSelector.matchExpressions[0].operator",
        ),
    ],
)
def test_refused_queues(plane: ControlPlane, spec: Json, field: str) -> None:
    body = body_of("Queue", "dry", spec)
    with pytest.raises(ApiError) as caught:
        plane.client_for().request("POST", f"{QUEUES}?dryRun=All", body)
    assert field in {blamed for blamed, _ in causes(caught.value)}


def test_an_unknown_policy_is_not_refused(plane: ControlPlane) -> None:
    body = body_of("Queue", "dry", {"queuePolicy": "somebody.example/Lottery"})
    assert plane.client_for().request("POST", f"{QUEUES}?dryRun=All", body)


def test_kubectl_shows_the_message_to_its_user(plane: ControlPlane, unit: str) -> None:
    with pytest.raises(KubectlFailed, match=r"spec\.request\[cpu\].*must not be negative"):
        plane.kubectl(
            "patch", "qu", unit, "-n", NAMESPACE, "--type=merge",
            "--patch", '{"spec": {"request": {"cpu": "-1"}}}',
        )  # fmt: skip
