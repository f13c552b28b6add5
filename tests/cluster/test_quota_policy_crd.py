"""The CRD of QuotaPolicy on a real API server: a mistake is refused when it is applied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared_api.objects.quota_policy import QuotaPolicy
from tests.cluster.crd_kit import NAMESPACE, Json, body_of, causes, plane_with_crds
from tests.cluster.queue_world import MERGE
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane, KubectlFailed

POLICIES = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/quotapolicies"
STRICT = "fieldValidation=Strict"
ANN = {"users": ["ann"], "max": {"nvidia.com/gpu": 8}, "running": 4, "pending": 50}
READY = {
    "type": "Ready",
    "status": "False",
    "reason": "QuotaMissing",
    "message": "no quota has the name",
    "lastTransitionTime": "2026-11-01T09:00:00Z",
}


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    with plane_with_crds(controlplane_binaries) as running:
        yield running


@pytest.fixture
def policy(plane: ControlPlane) -> Iterator[str]:
    body = body_of("QuotaPolicy", "team", {"quotas": ["team-a"], "userLimits": [ANN]})
    plane.client_for().request("POST", f"{POLICIES}?{STRICT}", body)
    yield "team"
    plane.client_for().request("DELETE", f"{POLICIES}/team")


def create_dry(plane: ControlPlane, spec: Json) -> Json:
    body = body_of("QuotaPolicy", "dry", spec)
    return plane.client_for().request("POST", f"{POLICIES}?dryRun=All&{STRICT}", body)


def limits(*entries: Json) -> Json:
    return {"quotas": ["a"], "userLimits": list(entries)}


LARGEST = {
    "quotas": [f"root/{number:03}/{'q' * 100}" for number in range(64)],
    "userLimits": [
        {
            "users": [f"user-{entry:02}-{number:02}-{'u' * 30}" for number in range(64)],
            "max": {f"example.com/r{number}": "1" for number in range(32)},
        }
        for entry in range(64)
    ],
}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"quotas": ["a"]}, id="no limits"),
        pytest.param({"quotas": ["a", "root/a/b", "team/quota"]}, id="all kinds of quotas"),
        pytest.param(limits(ANN, {"groups": ["interns"], "running": 0}), id="users and groups"),
        pytest.param(limits(ANN, {"users": ["*"], "pending": 0}), id="* for other users"),
        pytest.param(limits({"groups": ["*"], "max": {"cpu": "0"}}), id="* for other groups"),
        pytest.param(
            limits({"users": ["*"], "running": 1}, {"groups": ["*"], "running": 2}),
            id="* for both",
        ),
        pytest.param(limits(ANN, ANN), id="a user in two entries: the first counts"),
        pytest.param(
            limits({"users": ["system:serviceaccount:a:b", "Ann Ä <a@x>"], "max": {"cpu": "5m"}}),
            id="any name of a user",
        ),
        pytest.param(limits(ANN | {"groups": []}), id="an empty list is none"),
        pytest.param(limits({"users": ["u" * 512], "running": 2**31 - 1}), id="the longest name"),
        pytest.param(LARGEST, id="all lists are full"),
    ],
)
def test_accepted(plane: ControlPlane, spec: Json) -> None:
    assert create_dry(plane, spec)["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({}, "spec.quotas", "Required value", id="no quotas"),
        pytest.param({"quotas": []}, "spec.quotas", "at least 1 items", id="empty quotas"),
        pytest.param({"quotas": [""]}, "spec.quotas[0]", "should match", id="an empty name"),
        pytest.param({"quotas": ["/a"]}, "spec.quotas[0]", "should match", id="a leading slash"),
        pytest.param({"quotas": ["a//b"]}, "spec.quotas[0]", "should match", id="two slashes"),
        pytest.param({"quotas": ["a", "a"]}, "spec.quotas[1]", "Duplicate", id="a quota twice"),
        pytest.param({"quotas": ["q" * 1025]}, "spec.quotas[0]", "Too long", id="a long name"),
        pytest.param(
            {"quotas": [f"q{number}" for number in range(65)]},
            "spec.quotas", "must have at most 64 items", id="65 quotas",
        ),
        pytest.param(
            limits({"running": 1}), "spec.userLimits[0]", "either users or groups", id="nobody",
        ),
        pytest.param(
            limits(ANN | {"groups": ["g"]}),
            "spec.userLimits[0]", "either users or groups", id="users and groups in one entry",
        ),
        pytest.param(
            limits({"users": ["ann"]}),
            "spec.userLimits[0]", "at least one of max, running and pending", id="no limit",
        ),
        pytest.param(
            limits({"users": ["ann"], "max": {}}),
            "spec.userLimits[0]", "at least one of max, running and pending", id="an empty max",
        ),
        pytest.param(
            limits(ANN | {"users": ["*", "ann"]}),
            "spec.userLimits[0].users", "must stand alone", id="* beside a user",
        ),
        pytest.param(
            limits({"groups": ["g", "*"], "running": 1}),
            "spec.userLimits[0].groups", "must stand alone", id="* beside a group",
        ),
        pytest.param(
            limits(ANN | {"users": ["*"]}, ANN | {"users": ["*"]}),
            "spec.userLimits", "only one entry may have the users *", id="users * twice",
        ),
        pytest.param(
            limits({"groups": ["*"], "running": 1}, {"groups": ["*"], "running": 2}),
            "spec.userLimits", "only one entry may have the groups *", id="groups * twice",
        ),
        pytest.param(
            limits(ANN | {"users": ["ann", "ann"]}),
            "spec.userLimits[0].users[1]", "Duplicate", id="a user twice in an entry",
        ),
        pytest.param(
            limits(ANN | {"users": [""]}),
            "spec.userLimits[0].users[0]", "should match", id="a user without a name",
        ),
        pytest.param(
            limits(ANN | {"users": ["ann "]}),
            "spec.userLimits[0].users[0]", "should match", id="a blank behind a user",
        ),
        pytest.param(
            limits(ANN | {"users": ["u" * 513]}),
            "spec.userLimits[0].users[0]", "Too long", id="a long user",
        ),
        pytest.param(
            limits(ANN | {"users": [f"u{number}" for number in range(65)]}),
            "spec.userLimits[0].users", "must have at most 64 items", id="65 users",
        ),
        pytest.param(
            limits(*[ANN] * 65), "spec.userLimits", "must have at most 64 items", id="65 entries",
        ),
    ],
)  # fmt: skip
def test_bad_settings_of_names(plane: ControlPlane, spec: Json, field: str, message: str) -> None:
    assert_refused(plane, spec, field, message)


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param(
            limits(ANN | {"max": {"cpu": "-1"}}),
            "spec.userLimits[0].max[cpu]", "must not be negative", id="a negative text",
        ),
        pytest.param(
            limits(ANN | {"max": {"cpu": -1}}),
            "spec.userLimits[0].max[cpu]", "must not be negative", id="a negative number",
        ),
        pytest.param(
            limits(ANN | {"max": {"cpu": "1GB"}}),
            "spec.userLimits[0].max.cpu", "should match", id="no quantity",
        ),
        pytest.param(
            limits(ANN | {"max": {"cpu": 0.5}}),
            "spec.userLimits[0].max.cpu", "must be of type integer", id="a fraction as a number",
        ),
        pytest.param(
            limits(ANN | {"max": {f"example.com/r{number}": 1 for number in range(33)}}),
            "spec.userLimits[0].max", "must have at most 32 items", id="33 resources",
        ),
        pytest.param(
            limits(ANN | {"running": -1}),
            "spec.userLimits[0].running", "greater than or equal to 0", id="negative running",
        ),
        pytest.param(
            limits(ANN | {"running": 2**31}),
            "spec.userLimits[0].running", "less than or equal to", id="too many running",
        ),
        pytest.param(
            limits(ANN | {"running": "4"}),
            "spec.userLimits[0].running", "must be of type integer", id="running as a text",
        ),
        pytest.param(
            limits(ANN | {"pending": -1}),
            "spec.userLimits[0].pending", "greater than or equal to 0", id="negative pending",
        ),
        pytest.param(
            limits(ANN | {"pending": "few"}),
            "spec.userLimits[0].pending", "must be of type integer", id="pending as a text",
        ),
    ],
)  # fmt: skip
def test_bad_settings_of_limits(plane: ControlPlane, spec: Json, field: str, message: str) -> None:
    assert_refused(plane, spec, field, message)


def shares(**fields: Any) -> Json:
    return {"quotas": ["a"], "queue": {"fairShare": fields}}


def test_all_fields_of_a_fair_share_are_accepted(plane: ControlPlane) -> None:
    weights = [{"groups": ["vision"], "weight": 2}, {"users": ["ann"], "weight": 0}]
    spec = shares(
        levels=["group", "user"],
        weights=weights,
        halfLife="87600h",
        minimumCharge="0s",
        priority="First",
        resourceWeights={"cpu": 1, "nvidia.com/gpu": 30},
    )
    assert create_dry(plane, spec)["spec"] == spec
    assert create_dry(plane, shares())["spec"] == shares()


FAIR = "spec.queue.fairShare"


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param(shares(levels=["user", "group"]), f"{FAIR}.levels", "must be", id="levels"),
        pytest.param(shares(levels=["team"]), f"{FAIR}.levels[0]", "supported", id="a level"),
        pytest.param(shares(halfLife="87601h"), f"{FAIR}.halfLife", "between 1s", id="too long"),
        pytest.param(shares(halfLife="0s"), f"{FAIR}.halfLife", "between 1s", id="no half-life"),
        pytest.param(shares(halfLife="1w"), f"{FAIR}.halfLife", "match", id="no duration"),
        pytest.param(
            shares(minimumCharge="25h"), f"{FAIR}.minimumCharge", "24h", id="minimumCharge",
        ),
        pytest.param(shares(priority="Last"), f"{FAIR}.priority", "supported", id="priority"),
        pytest.param(
            shares(resourceWeights={"cpu": 0}),
            f"{FAIR}.resourceWeights", "above 0", id="no weight",
        ),
        pytest.param(
            shares(resourceWeights={"cpu": -1}),
            f"{FAIR}.resourceWeights.cpu", "greater than", id="a negative weight of a resource",
        ),
        pytest.param(
            shares(weights=[{"users": ["a"], "weight": -1}]),
            f"{FAIR}.weights[0].weight", "greater than", id="a negative weight",
        ),
        pytest.param(
            shares(minimumCharge="-1s"), f"{FAIR}.minimumCharge", "match", id="a negative charge",
        ),
        pytest.param(
            shares(weights=[{"weight": 2}]), f"{FAIR}.weights[0]", "name either", id="nobody",
        ),
        pytest.param(
            shares(weights=[{"users": ["a"], "namespaces": ["b"]}]),
            f"{FAIR}.weights[0]", "name either", id="users and namespaces in one entry",
        ),
        pytest.param(
            shares(weights=[{"users": ["a"], "weight": 1_000_001}]),
            f"{FAIR}.weights[0].weight", "less than", id="too large a weight",
        ),
    ],
)  # fmt: skip
def test_bad_settings_of_fair_shares(
    plane: ControlPlane, spec: Json, field: str, message: str
) -> None:
    assert_refused(plane, spec, field, message)


def assert_refused(plane: ControlPlane, spec: Json, field: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        create_dry(plane, spec)
    found = causes(caught.value)
    assert any(message in said for blamed, said in found if blamed == field), found


@pytest.mark.parametrize(
    "spec",
    [limits(ANN | {"runing": 1}), {"quotas": ["a"], "queue": {"queuePolicy": "Fair"}}],
    ids=["a misspelled field", "a field of queues that stays a label"],
)
def test_there_is_no_field_that_has_no_effect(plane: ControlPlane, spec: Json) -> None:
    with pytest.raises(ApiError, match="unknown field"):
        create_dry(plane, spec)


def test_a_policy_needs_a_spec(plane: ControlPlane) -> None:
    body: Any = body_of("QuotaPolicy", "dry", {})
    del body["spec"]
    with pytest.raises(ApiError) as caught:
        plane.client_for().request("POST", f"{POLICIES}?dryRun=All", body)
    assert {field for field, _ in causes(caught.value)} == {"spec"}


def test_kubectl_apply_tells_its_user_what_is_wrong(plane: ControlPlane, tmp_path: Path) -> None:
    body = body_of("QuotaPolicy", "team", limits({"users": ["ann"]}))
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(body))
    with pytest.raises(KubectlFailed, match="at least one of max, running and pending"):
        plane.kubectl("apply", "-n", NAMESPACE, "--filename", str(file))


def test_kubectl_explain_tells_what_is_meant(plane: ControlPlane) -> None:
    told = plane.kubectl("explain", "quotapolicies.spec.userLimits", "--recursive=false")
    for words in ("The first entry that names a user counts", "further ones are on hold"):
        assert words in " ".join(told.split())
    told = " ".join(plane.kubectl("explain", "quotapolicies.spec.quotas").split())
    assert "Of two policies that name one quota the older counts for it" in told


def test_what_the_scheduler_writes_is_kept_and_decodes(plane: ControlPlane, policy: str) -> None:
    status = {
        "observedGeneration": 1,
        "quotas": [{"name": "team-a", "reason": "QuotaMissing", "message": "no such quota"}],
        "userLimitsInForce": [ANN],
        "conditions": [READY],
    }
    path = f"{POLICIES}/{policy}/status?{STRICT}"
    plane.client_for().request("PATCH", path, {"status": status}, content_type=MERGE)
    raw = plane.kubectl("get", "--raw", f"{POLICIES}/{policy}")
    assert json.loads(raw)["status"] == status
    found = msgspec.json.decode(raw.encode(), type=QuotaPolicy)
    assert json.loads(msgspec.json.encode(found.spec)) == limits(ANN) | {"quotas": ["team-a"]}
    assert json.loads(msgspec.json.encode(found.status))["userLimitsInForce"] == [ANN]


def test_policies_in_columns(plane: ControlPlane, policy: str) -> None:
    client, path = plane.client_for(), f"{POLICIES}/{policy}/status"
    client.request("PATCH", path, {"status": {"conditions": [READY]}}, content_type=MERGE)
    header, row = (
        line.split() for line in plane.kubectl("get", "qpol", "-n", NAMESPACE).splitlines()
    )
    assert header == ["NAME", "QUOTAS", "READY", "REASON", "AGE"]
    assert row[:-1] == [policy, '["team-a"]', "False", "QuotaMissing"]
