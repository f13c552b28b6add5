"""The CRDs on a real API server: accepted, compatible with upstream, readable in kubectl."""

from __future__ import annotations

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
    CRDS,
    NAMESPACE,
    QUEUES,
    UNITS,
    Json,
    body_of,
    create,
    create_dry,
    one_unit,
    patch,
    plane_with_crds,
)
from tests.cluster.queue_world import MERGE
from tests.controlplane.control_plane import ControlPlane
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


@pytest.mark.parametrize("definition", DEFINITIONS, ids=["Queue", "QueueUnit"])
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
    assert [one["metadata"]["generation"] for one in after] == [1, 1]
    assert [one["spec"] for one in after] == [one["spec"] for one in before]


def test_they_fit_into_client_side_apply(plane: ControlPlane) -> None:
    # The CRDs exist already; the test is that the annotation with the whole manifest fits.
    answer = plane.kubectl("apply", "--dry-run=server", "--filename", str(CRDS))
    assert answer.count("(server dry run)") == 2


def test_kubectl_explain_describes_fields(plane: ControlPlane) -> None:
    assert "names of pod sets" not in plane.kubectl("explain", "queueunits.spec.podSet")
    told = plane.kubectl("explain", "queueunits.spec.podSet.minCount")
    assert "The fewest pods that the job can run with; absent: all." in told
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
