"""A control plane with the CRDs, and requests that tests send to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shared_api.crds import DEFINITIONS
from tests.cluster.program_process import ROOT
from tests.cluster.queue_world import MERGE
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane

CRDS = ROOT / "crds"
NAMESPACE = "team-a"
UNITS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/queueunits"
QUEUES = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/queues"
CONSUMER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "namespace": NAMESPACE,
    "name": "j",
    "uid": "1",
}

Json = Any


@contextmanager
def plane_with_crds(binaries: Path) -> Iterator[ControlPlane]:
    """Run a control plane that knows the CRDs, with a namespace for their objects."""
    with ControlPlane(binaries) as running:
        running.apply(CRDS)
        running.kubectl("create", "namespace", NAMESPACE)
        running.await_kinds(*(f"{each.plural}.scheduling.x-k8s.io" for each in DEFINITIONS))
        yield running


@contextmanager
def one_unit(plane: ControlPlane) -> Iterator[str]:
    """Create a unit for a Job that requests one cpu; return its name."""
    spec = {"queue": "q", "priority": 3, "consumerRef": CONSUMER, "request": {"cpu": 1}}
    create(plane, "unit", spec)
    yield "unit"
    plane.client_for().request("DELETE", f"{UNITS}/unit")


def body_of(kind: str, name: str, spec: Json) -> Json:
    """Build an object."""
    api_version = "scheduling.x-k8s.io/v1alpha1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def create(plane: ControlPlane, name: str, spec: Json, **more: Json) -> Json:
    """Create a unit."""
    body = body_of("QueueUnit", name, spec) | more
    return plane.client_for().request("POST", UNITS, body)


def create_dry(plane: ControlPlane, spec: Json) -> Json:
    """Create a unit by dry run."""
    body = body_of("QueueUnit", "dry", spec)
    return plane.client_for().request("POST", f"{UNITS}?dryRun=All&fieldValidation=Strict", body)


def patch(plane: ControlPlane, name: str, body: Json, subresource: str = "") -> Json:
    """Patch a unit by a merge patch."""
    path = f"{UNITS}/{name}{subresource}?fieldValidation=Strict"
    return plane.client_for().request("PATCH", path, body, content_type=MERGE)


def causes(error: ApiError) -> set[tuple[str, str]]:
    """Return the invalid fields that a response names, with its messages."""
    assert error.status == 422, error
    # After a type or length error CEL rules are not evaluated; the server adds that as a cause.
    return {
        # In 1.34 the message of a CEL rule also has the type of the value.
        (cause["field"], cause["message"].replace('Invalid value: "object": ', "Invalid value: "))
        for cause in json.loads(error.body)["details"]["causes"]
        if "some validation rules were not checked" not in cause["message"]
    }
