"""The CRDs on a real API server: accepted, compatible with upstream, readable in kubectl.

Each of their rules is tested both ways.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from shared_api.crds import DEFINITIONS
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.pod_requests import pod_requests
from tests.cluster.crd_kit import (
    CONSUMER,
    CRDS,
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
from tests.cluster.queue_world import MERGE
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane, KubectlFailed
from tests.waiting import until

BORN = {"phase": "Enqueued", "message": "Waiting"}

UPSTREAM = Path(__file__).parent / "upstream"


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    with plane_with_crds(controlplane_binaries) as running:
        yield running


@pytest.fixture
def unit(plane: ControlPlane) -> Iterator[str]:
    with one_unit(plane) as name:
        yield name


def as_json(value: object) -> Json:
    return json.loads(msgspec.json.encode(value))


def without_nulls(value: Json) -> Json:
    """Return what is left after `kubectl apply`, which reads a null as "remove this field"."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


# ------------------------------------------------------------------------------- the server's view


@pytest.mark.parametrize("definition", DEFINITIONS, ids=[each.kind for each in DEFINITIONS])
def test_the_server_reports_no_problem(plane: ControlPlane, definition: Any) -> None:
    name = f"{definition.plural}.scheduling.x-k8s.io"
    crd = json.loads(plane.kubectl("get", "crd", name, "--output=json"))
    conditions = {one["type"]: one["status"] for one in crd["status"]["conditions"]}
    assert conditions.get("NonStructuralSchema") is None
    assert conditions["Established"] == conditions["NamesAccepted"] == "True"


def test_applying_them_again_changes_nothing(plane: ControlPlane) -> None:
    before = json.loads(plane.kubectl("get", "crd", "--output=json"))["items"]
    plane.apply(CRDS)
    after = json.loads(plane.kubectl("get", "crd", "--output=json"))["items"]
    assert [one["metadata"]["generation"] for one in after] == [1] * len(DEFINITIONS)
    assert [one["spec"] for one in after] == [one["spec"] for one in before]


def test_they_fit_into_client_side_apply(plane: ControlPlane) -> None:
    # The CRDs exist already; the test is that the annotation with the whole manifest fits.
    answer = plane.kubectl("apply", "--dry-run=server", "--filename", str(CRDS))
    assert answer.count("(server dry run)") == len(DEFINITIONS)


def test_kubectl_explain_describes_fields(plane: ControlPlane) -> None:
    assert "names of pod sets" not in plane.kubectl("explain", "queueunits.spec.podSet")
    reported = plane.kubectl("explain", "queueunits.spec.podSet.minCount")
    assert "The fewest pods that the job can run with; absent: all." in reported
    assert "An order in which units" in plane.kubectl("explain", "queues.scheduling.x-k8s.io")


# ------------------------------------------------------------------------------------- upstream


@pytest.mark.parametrize(
    "how",
    [["create"], ["apply"], ["apply", "--server-side"]],
    ids=["create", "client-side apply", "server-side apply"],
)
@pytest.mark.parametrize("file", ["queueunit.yaml", "queue.yaml"])
def test_an_upstream_manifest_is_accepted_unchanged(
    plane: ControlPlane, how: list[str], file: str
) -> None:
    path = str(UPSTREAM / file)
    try:
        # Strict: an unknown field is an error, not a warning.
        plane.kubectl(*how, "--validate=strict", "--filename", path)
        got = json.loads(plane.kubectl("get", "--output=json", "--filename", path))
        want = yaml.safe_load((UPSTREAM / file).read_text())
        assert without_nulls(got["spec"]) == without_nulls(want["spec"])
        if how != ["create"]:
            plane.kubectl(*how, "--validate=strict", "--filename", path)
            again = json.loads(plane.kubectl("get", "--output=json", "--filename", path))
            assert again["metadata"]["generation"] == 1
    finally:
        plane.kubectl("delete", "--filename", path)


def test_an_upstream_status_is_kept_field_for_field_and_decodes(plane: ControlPlane) -> None:
    manifest = yaml.safe_load((UPSTREAM / "queueunit.yaml").read_text())
    name = manifest["metadata"]["name"]
    plane.client_for().request("POST", UNITS, manifest)
    got = patch(plane, name, {"status": manifest["status"]}, "/status")
    assert got["status"] == manifest["status"]
    raw = plane.kubectl("get", "--raw", f"{UNITS}/{name}")
    plane.client_for().request("DELETE", f"{UNITS}/{name}")
    unit = msgspec.json.decode(raw.encode(), type=QueueUnit)
    assert [pod_requests(pods.template.spec) for pods in unit.spec.pod_set] == [
        {"cpu": 2500, "memory": 5 * 2**30, "nvidia.com/gpu": 1},
        {"cpu": 2000, "memory": 4 * 2**30, "nvidia.com/gpu": 1},
    ]
    assert as_json(unit.status)["admissions"] == manifest["status"]["admissions"]


def test_an_upstream_queue_status_is_kept_and_decodes(plane: ControlPlane) -> None:
    manifest = yaml.safe_load((UPSTREAM / "queue.yaml").read_text())
    plane.client_for().request("POST", QUEUES, manifest)
    path = f"{QUEUES}/team-a/status?fieldValidation=Strict"
    status = {"status": manifest["status"]}
    plane.client_for().request("PATCH", path, status, content_type=MERGE)
    raw = plane.kubectl("get", "--raw", f"{QUEUES}/team-a")
    plane.client_for().request("DELETE", f"{QUEUES}/team-a")
    queue = msgspec.json.decode(raw.encode(), type=Queue)
    assert as_json(queue.spec) == manifest["spec"]
    assert as_json(queue.status) == manifest["status"]


def test_a_manifest_needs_no_spec_and_no_status(plane: ControlPlane) -> None:
    body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "metadata": {"name": "bare"}}
    client = plane.client_for()
    assert client.request("POST", f"{UNITS}?dryRun=All", {**body, "kind": "QueueUnit"})
    assert client.request("POST", f"{QUEUES}?dryRun=All", {**body, "kind": "Queue"})


def test_nulls_are_dropped_before_validation(plane: ControlPlane) -> None:
    # Go writes null for an empty pointer or slice that has no omitempty.
    pod_set: Json = {"name": None, "count": None, "minCount": None, "template": {}}
    nothing = dict.fromkeys(["priority", "active", "queue", "consumerRef", "resource"])
    got = create_dry(plane, {**nothing, "request": {"cpu": None}, "podSet": [pod_set]})
    pod_sets = [{"name": "main", "count": 1, "template": {}}]
    assert got["spec"] == {"request": {}, "podSet": pod_sets, "priority": 0}


# --------------------------------------------------------------------------------- created Enqueued


def test_a_unit_is_enqueued_from_its_creation(plane: ControlPlane) -> None:
    version = plane.client_for().request("GET", UNITS)["metadata"]["resourceVersion"]
    born = create(plane, "newborn", {"queue": "q"}, status={"phase": "Running"})
    assert born["status"] == BORN
    client = plane.client_for()
    listed = client.request("GET", f"{UNITS}?fieldSelector=status.phase%3DEnqueued")["items"]
    assert [one["metadata"]["name"] for one in listed] == ["newborn"]
    assert listed[0]["status"] == BORN
    watch = f"{UNITS}?watch=1&timeoutSeconds=1&resourceVersion={version}"
    for path in (watch, f"{watch}&fieldSelector=status.phase%3DEnqueued"):
        # Within the second of one watch a busy server may send nothing.
        said = until(partial(plane.kubectl, "get", "--raw", path))
        events = [json.loads(line) for line in said.splitlines()]
        assert [(event["type"], event["object"]["status"]) for event in events] == [("ADDED", BORN)]
    assert client.request("GET", f"{UNITS}/newborn")["metadata"]["generation"] == 1
    client.request("DELETE", f"{UNITS}/newborn")


def test_a_unit_whose_phase_is_removed_is_enqueued_again(plane: ControlPlane, unit: str) -> None:
    patch(plane, unit, {"status": {"phase": "Running"}}, "/status")
    assert patch(plane, unit, {"status": None}, "/status")["status"] == BORN


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("spec.queue=q", ["unit"]),
        ("spec.queue=other", []),
        ("status.phase=Enqueued,spec.queue=q", ["unit"]),
        ("status.phase!=Enqueued", []),
    ],
)
def test_units_are_found_by_queue_and_phase(
    plane: ControlPlane, unit: str, selector: str, want: list[str]
) -> None:
    assert unit == "unit"
    names = plane.kubectl(
        "get", "qu", "-n", NAMESPACE, "--field-selector", selector,
        "--output=jsonpath={.items[*].metadata.name}",
    )  # fmt: skip
    assert names.split() == want


# ------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize("name", ["queueunits", "queueunit", "qu", "qus"])
def test_units_in_columns(plane: ControlPlane, unit: str, name: str) -> None:
    header, row = rows(plane.kubectl("get", name, "-n", NAMESPACE))
    assert header == ["NAME", "QUEUE", "PRIORITY", "PHASE", "JOBTYPE", "AGE"]
    assert row[:-1] == [unit, "q", "3", "Enqueued", "Job"]


def test_the_message_is_a_wide_column(plane: ControlPlane, unit: str) -> None:
    patch(plane, unit, {"status": {"message": "no-room"}}, "/status")
    header, row = rows(plane.kubectl("get", "qu", "-n", NAMESPACE, "-o", "wide"))
    assert header == ["NAME", "QUEUE", "PRIORITY", "PHASE", "JOBTYPE", "MESSAGE", "AGE"]
    assert row[:-1] == [unit, "q", "3", "Enqueued", "Job", "no-room"]


def test_queues_in_columns_and_both_kinds_by_their_category(plane: ControlPlane, unit: str) -> None:
    client = plane.client_for()
    client.request("POST", QUEUES, body_of("Queue", "q", {"queuePolicy": "Block"}))
    ready = {"type": "Ready", "status": "False", "reason": "Stopped", "message": "stopped"}
    ready["lastTransitionTime"] = "2026-11-01T09:00:00Z"
    status = {"status": {"pending": 7, "admitted": 2, "conditions": [ready]}}
    client.request("PATCH", f"{QUEUES}/q/status", status, content_type=MERGE)
    header, row = rows(plane.kubectl("get", "queues", "-n", NAMESPACE))
    wide_header, wide_row = rows(plane.kubectl("get", "queues", "-n", NAMESPACE, "-o", "wide"))
    both = plane.kubectl("get", "koord-queue", "-n", NAMESPACE, "-o", "name").split()
    client.request("DELETE", f"{QUEUES}/q")
    assert header == ["NAME", "POLICY", "PENDING", "ADMITTED", "READY", "AGE"]
    assert row[:-1] == ["q", "Block", "7", "2", "False"]
    assert wide_header == ["NAME", "POLICY", "PENDING", "ADMITTED", "READY", "MESSAGE", "AGE"]
    assert wide_row[:-1] == ["q", "Block", "7", "2", "False", "stopped"]
    assert sorted(both) == ["queue.scheduling.x-k8s.io/q", f"queueunit.scheduling.x-k8s.io/{unit}"]


# -------------------------------------------------------------------------- rules, both ways

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
        *(
            ({"fairShare": stated}, f"spec.fairShare.{field}")
            for stated, field in (
                ({"halfLife": "0s"}, "halfLife"),
                ({"halfLife": "87601h"}, "halfLife"),
                ({"halfLife": "soon"}, "halfLife"),
                ({"minimumCharge": "25h"}, "minimumCharge"),
                ({"minimumCharge": "-1s"}, "minimumCharge"),
                ({"levels": ["group"]}, "levels"),
                ({"levels": ["team"]}, "levels[0]"),
                ({"priority": "Last"}, "priority"),
                ({"weights": [{"weight": 2}]}, "weights[0]"),
                ({"weights": [{"users": ["ann"], "groups": ["x"]}]}, "weights[0]"),
                ({"weights": [{"users": ["ann"], "weight": -1}]}, "weights[0].weight"),
                ({"weights": [{"users": ["ann"], "weight": 10**7}]}, "weights[0].weight"),
                ({"resourceWeights": {"cpu": 0}}, "resourceWeights"),
                ({"resourceWeights": {"cpu": -1}}, "resourceWeights.cpu"),
            )
        ),
    ],
)
def test_refused_queues(plane: ControlPlane, spec: Json, field: str) -> None:
    body = body_of("Queue", "dry", spec)
    with pytest.raises(ApiError) as caught:
        plane.client_for().request("POST", f"{QUEUES}?dryRun=All", body)
    assert field in {blamed for blamed, _ in causes(caught.value)}


def test_fair_shares_are_not_refused(plane: ControlPlane) -> None:
    for levels in (["user"], ["group", "user"], ["namespace"]):
        stated = {
            "levels": levels,
            "weights": [{"users": ["system:serviceaccount:a:b"], "weight": 0}, {"groups": ["x"]}],
            "halfLife": "1h30m",
            "minimumCharge": "0s",
            "priority": "First",
            "resourceWeights": {"nvidia.com/gpu": 16, "cpu": 0},
        }
        body = body_of("Queue", "dry", {"queuePolicy": "Fair", "fairShare": stated})
        assert plane.client_for().request("POST", f"{QUEUES}?dryRun=All", body)


def test_an_unknown_policy_is_not_refused(plane: ControlPlane) -> None:
    body = body_of("Queue", "dry", {"queuePolicy": "somebody.example/Lottery"})
    assert plane.client_for().request("POST", f"{QUEUES}?dryRun=All", body)


def test_kubectl_shows_the_message_to_its_user(plane: ControlPlane, unit: str) -> None:
    with pytest.raises(KubectlFailed, match=r"spec\.request\[cpu\].*must not be negative"):
        plane.kubectl(
            "patch", "qu", unit, "-n", NAMESPACE, "--type=merge",
            "--patch", '{"spec": {"request": {"cpu": "-1"}}}',
        )  # fmt: skip
