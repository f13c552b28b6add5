"""Tests of shared_api.fake_api_server.custom_resources beyond the conformance suite."""

from __future__ import annotations

import copy

import pytest

from shared_api.client.errors import Invalid
from tests.shared_api.testing.fake_server_cases import CRD, THINGS, Json, ask, make_server, thing


def test_every_served_version_shows_the_same_objects() -> None:
    crd = copy.deepcopy(CRD)
    second = {**crd["spec"]["versions"][0], "name": "v2", "storage": False}
    hidden = {**second, "name": "v3", "served": False}
    crd["spec"]["versions"] += [second, hidden]
    server = make_server()
    server.direct.delete("customresourcedefinitions", "things.example.com")
    server.direct.create(crd)
    server.direct.create(thing("a", spec=1))
    other = server.direct.create({**thing("b", spec=2), "apiVersion": "example.com/v2"})
    assert other["apiVersion"] == "example.com/v2"
    assert [one["spec"] for one in server.direct.list("things")] == [1, 2]
    for version, status in (("v1", 200), ("v2", 200), ("v3", 404)):
        assert ask(server, "GET", f"{THINGS.replace('v1', version)}/a").status == status


def test_the_objects_of_a_deleted_crd_are_deleted() -> None:
    server = make_server()
    server.direct.create(thing("a"))
    server.direct.delete("customresourcedefinitions", "things.example.com")
    assert ask(server, "GET", THINGS).status == 404
    server.direct.create(CRD)
    assert server.direct.list("things") == []


def test_changes_of_a_crd_are_served() -> None:
    server = make_server()
    version = copy.deepcopy(CRD["spec"]["versions"][0])
    version["subresources"] = {}
    server.direct.patch(
        "customresourcedefinitions", "things.example.com", {"spec": {"versions": [version]}}
    )
    made = server.direct.create(thing("a", status={"kept": True}))
    assert made["status"] == {"kept": True}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"group": "other.com"}, "metadata.name", id="name"),
        pytest.param({"scope": None}, "spec.scope", id="scope"),
        pytest.param({"versions": []}, "spec.versions", id="no version"),
        pytest.param(
            {"versions": [{"name": "v1", "served": True, "storage": True}]},
            "openAPIV3Schema",
            id="no schema",
        ),
    ],
)
def test_a_crd_is_checked(change: Json, field: str) -> None:
    crd = copy.deepcopy(CRD)
    crd["spec"] |= change
    server = make_server()
    server.direct.delete("customresourcedefinitions", "things.example.com")
    with pytest.raises(Invalid, match=field.replace(".", r"\.")):
        server.direct.create(crd)
