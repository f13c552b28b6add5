"""Budgets of QuotaPolicies on a real API server: what is refused, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared_api.objects.quota_policy import MAX_BUDGETS, QuotaPolicy
from tests.cluster.crd_kit import NAMESPACE, Json, body_of, causes, plane_with_crds
from tests.cluster.queue_world import MERGE
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane

POLICIES = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/quotapolicies"
STRICT = "fieldValidation=Strict"
GPUS = {"resource": "nvidia.com/gpu", "hours": 20000, "period": "Month"}
PRICED = {"amount": "500", "price": {"nvidia.com/gpu": "2.5", "cpu": "0.04"}, "period": "Day"}
ALL = {
    **GPUS,
    "hours": "1.5k",
    "timeZone": "Europe/Berlin",
    "enforce": "Stop",
    "reserve": "None",
    "undeclared": "Refuse",
    "grace": "1h30m",
    "carryOver": 100,
    "debt": "Forgive",
}


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    with plane_with_crds(controlplane_binaries) as running:
        yield running


def create_dry(plane: ControlPlane, *budgets: Json) -> Json:
    body = body_of("QuotaPolicy", "dry", {"quotas": ["a"], "budgets": list(budgets)})
    return plane.client_for().request("POST", f"{POLICIES}?dryRun=All&{STRICT}", body)


def test_budgets_are_taken_as_they_are(plane: ControlPlane) -> None:
    budgets = [GPUS, PRICED, ALL, {**GPUS, "period": "Rolling 30d"}, {**GPUS, "period": "None"}]
    assert create_dry(plane, *budgets)["spec"]["budgets"] == budgets


def test_the_largest_policy_is_within_the_cost_of_rules(plane: ControlPlane) -> None:
    price = {f"example.com/{number:02}": "0.123456789" for number in range(32)}
    create_dry(plane, *[{"amount": "1", "price": price, "period": "Day"}] * MAX_BUDGETS)


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"period": None}, "period", "Required value"),
        ({"period": "Year"}, "period", "Unsupported value"),
        ({"hours": None}, "", "set either hours or amount"),
        ({"amount": 1}, "", "set either hours or amount"),
        ({"resource": None}, "", "hours are of one resource, and have no price"),
        ({"price": {"cpu": 1}}, "", "hours are of one resource, and have no price"),
        ({"hours": None, "amount": 1}, "", "an amount needs a price, and no resource"),
        ({"hours": -1}, "hours", "must not be negative"),
        ({"hours": "-1"}, "hours", "must not be negative"),
        ({"hours": "many"}, "hours", "should match"),
        ({"hours": 1.5}, "hours", "must be of type integer"),
        ({"resource": " cpu"}, "resource", "should match"),
        ({"timeZone": ""}, "timeZone", "should match"),
        ({"timeZone": "E" * 65}, "timeZone", "Too long"),
        ({"enforce": "Kill"}, "enforce", "Unsupported value"),
        ({"reserve": "Half"}, "reserve", "Unsupported value"),
        ({"undeclared": "soon"}, "undeclared", "should match"),
        ({"undeclared": ""}, "undeclared", "should match"),
        ({"grace": "-1m"}, "grace", "should match"),
        ({"carryOver": 101}, "carryOver", "less than or equal to 100"),
        ({"carryOver": -1}, "carryOver", "greater than or equal to 0"),
        ({"debt": "Sell"}, "debt", "Unsupported value"),
        ({"period": "None", "carryOver": 1}, "", "timeZone, carryOver and debt need"),
        ({"period": "Rolling 30d", "debt": "Forgive"}, "", "timeZone, carryOver and debt need"),
        ({"period": "None", "timeZone": "UTC"}, "", "timeZone, carryOver and debt need"),
    ],
)
def test_bad_settings_of_budgets(
    plane: ControlPlane, changes: dict[str, Any], field: str, message: str
) -> None:
    body = {name: each for name, each in {**GPUS, **changes}.items() if each is not None}
    with pytest.raises(ApiError) as caught:
        create_dry(plane, body)
    place = f"spec.budgets[0].{field}".rstrip(".")
    found = causes(caught.value)
    assert any(message in said for blamed, said in found if blamed == place), found


def test_there_are_not_too_many(plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match="must have at most 8 items"):
        create_dry(plane, *[GPUS] * (MAX_BUDGETS + 1))


def test_what_the_scheduler_writes_is_kept_and_decodes(plane: ControlPlane) -> None:
    client = plane.client_for()
    body = body_of("QuotaPolicy", "team", {"quotas": ["a"], "budgets": [GPUS, ALL]})
    client.request("POST", f"{POLICIES}?{STRICT}", body)
    figures = {
        "resource": "nvidia.com/gpu",
        "spent": "9120.5",
        "committed": "310",
        "left": "-5",
        "carried": "0",
        "exhausted": True,
        "countedFrom": "2026-11-01T00:00:00Z",
        "resetsAt": "2026-12-01T00:00:00Z",
        "at": "2026-11-30T20:00:00Z",
    }
    status = {
        "quotas": [{"name": "a", "reason": "InForce", "budgets": [figures, {"budget": 1}]}],
        "budgetsInForce": [GPUS, ALL],
    }
    path = f"{POLICIES}/team/status?{STRICT}"
    client.request("PATCH", path, {"status": status}, content_type=MERGE)
    raw = plane.kubectl("get", "--raw", f"{POLICIES}/team")
    assert json.loads(raw)["status"] == status
    found = msgspec.json.decode(raw.encode(), type=QuotaPolicy)
    assert json.loads(msgspec.json.encode(found.status))["budgetsInForce"] == [GPUS, ALL]
    assert found.spec.budgets == found.status.budgets_in_force
