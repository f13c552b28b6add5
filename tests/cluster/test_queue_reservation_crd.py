"""The CRD of QueueReservation on a real API server: what is refused, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared_api.objects.queue_reservation import MAX_QUOTAS, QueueReservation
from tests.cluster.crd_kit import NAMESPACE, Json, body_of, causes, plane_with_crds
from tests.cluster.queue_world import MERGE
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane

RESERVATIONS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/queuereservations"
STRICT = "fieldValidation=Strict"
ONCE = {"scope": {"all": True}, "start": "2026-12-03T18:00", "duration": "2h"}
WEEKLY = {
    "scope": {"quotas": ["team-a", "root/b", "team/rq"]},
    "start": "2026-12-03T18:00:00+01:00",
    "duration": "1h30m",
    "timeZone": "Europe/Berlin",
    "rrule": "FREQ=WEEKLY;BYDAY=TH,-1FR;UNTIL=20271231T235959Z",
    "margin": "0",
    "undeclared": "Wait",
}


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    with plane_with_crds(controlplane_binaries) as running:
        yield running


def create_dry(plane: ControlPlane, spec: Json) -> Json:
    body = body_of("QueueReservation", "dry", spec)
    return plane.client_for().request("POST", f"{RESERVATIONS}?dryRun=All&{STRICT}", body)


@pytest.mark.parametrize("spec", [ONCE, WEEKLY, ONCE | {"start": "1970-01-01T00:00Z"}])
def test_reservations_are_taken_as_they_are(plane: ControlPlane, spec: Json) -> None:
    assert create_dry(plane, spec)["spec"] == spec


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"scope": None}, "scope", "Required value"),
        ({"scope": {}}, "scope", "set either all or quotas"),
        ({"scope": {"all": False}}, "scope", "set either all or quotas"),
        ({"scope": {"all": True, "quotas": ["a"]}}, "scope", "set either all or quotas"),
        ({"scope": {"quotas": ["/a"]}}, "scope.quotas[0]", "should match"),
        ({"start": None}, "start", "Required value"),
        ({"start": "tomorrow"}, "start", "should match"),
        ({"start": "2026-13-01T00:00"}, "start", "should match"),
        ({"start": "2026-12-03T24:00"}, "start", "should match"),
        ({"duration": None}, "duration", "Required value"),
        ({"duration": "-2h"}, "duration", "should match"),
        ({"duration": "0h"}, "duration", "a window must have some duration"),
        ({"timeZone": ""}, "timeZone", "should match"),
        ({"timeZone": "E" * 65}, "timeZone", "Too long"),
        ({"rrule": "every Thursday"}, "rrule", "should match"),
        ({"rrule": "FREQ=HOURLY"}, "rrule", "should match"),
        ({"rrule": "FREQ=SECONDLY;COUNT=1"}, "rrule", "should match"),
        ({"rrule": "FREQ=DAILY;" + "A" * 512}, "rrule", "Too long"),
        ({"margin": "-1m"}, "margin", "should match"),
        ({"undeclared": "soon"}, "undeclared", "should match"),
    ],
)
def test_bad_reservations(
    plane: ControlPlane, changes: dict[str, Any], field: str, message: str
) -> None:
    spec = {name: each for name, each in {**ONCE, **changes}.items() if each is not None}
    with pytest.raises(ApiError) as caught:
        create_dry(plane, spec)
    found = causes(caught.value)
    assert any(message in said for blamed, said in found if blamed == f"spec.{field}"), found


def test_there_are_not_too_many_quotas(plane: ControlPlane) -> None:
    quotas = [f"quota-{number}" for number in range(MAX_QUOTAS + 1)]
    create_dry(plane, ONCE | {"scope": {"quotas": quotas[1:]}})
    with pytest.raises(ApiError, match="must have at most 64 items"):
        create_dry(plane, ONCE | {"scope": {"quotas": quotas}})


def test_what_the_scheduler_writes_is_kept_and_decodes(plane: ControlPlane) -> None:
    client = plane.client_for()
    body = body_of("QueueReservation", "upgrade", WEEKLY)
    client.request("POST", f"{RESERVATIONS}?{STRICT}", body)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "it counts",
        "lastTransitionTime": "2026-11-01T09:00:00Z",
    }
    window = {"start": "2026-12-03T17:00:00Z", "end": "2026-12-03T18:30:00Z"}
    status = {
        "observedGeneration": 1,
        "windows": [window],
        "inForce": [WEEKLY],
        "conditions": [ready],
    }
    path = f"{RESERVATIONS}/upgrade/status?{STRICT}"
    kept = client.request("PATCH", path, {"status": status}, content_type=MERGE)
    assert kept["status"] == status
    raw = plane.kubectl("get", "queuereservation", "upgrade", "-n", NAMESPACE, "-o", "json")
    found = msgspec.json.decode(raw.encode(), type=QueueReservation)
    assert found.status.in_force == (found.spec,)
    assert json.loads(raw)["status"] == status
    header, line = plane.kubectl("get", "qres", "-n", NAMESPACE).splitlines()
    assert header.split() == ["NAME", "NEXT", "UNTIL", "RRULE", "READY", "REASON", "AGE"]
    assert line.split()[1:3] == [window["start"], window["end"]]
