"""Discovery and tables: what kubectl and the project's own discovery read."""

from __future__ import annotations

import pytest

from tests.contracts.api_server.server_under_test import GROUP, Api, claim, until_1_36

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def test_groups_are_listed(api: Api) -> None:
    groups = {group["name"]: group for group in api.get("/apis")["groups"]}
    assert {"batch", "events.k8s.io", "coordination.k8s.io"} <= groups.keys()
    ours = groups["conformance.example.com"]
    assert ours["preferredVersion"] == {"groupVersion": GROUP, "version": "v1alpha1"}
    assert api.get("/api")["versions"] == ["v1"]
    assert int(api.get("/version")["minor"].rstrip("+")) > 30


def test_a_custom_kind_is_described(api: Api) -> None:
    resources = {one["name"]: one for one in api.get(f"/apis/{GROUP}")["resources"]}
    ours = resources["claims"]
    assert (ours["kind"], ours["singularName"], ours["namespaced"]) == ("Claim", "claim", True)
    assert (ours["shortNames"], ours["categories"]) == (["cl"], ["conformance"])
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(ours["verbs"])
    assert "claims/status" in resources
    assert "plains/status" not in resources


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/v1", "pods"),
        ("/api/v1", "namespaces"),
        ("/api/v1", "nodes"),
        ("/apis/batch/v1", "jobs"),
        ("/apis/coordination.k8s.io/v1", "leases"),
        ("/apis/scheduling.k8s.io/v1", "priorityclasses"),
        ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
    ],
)
def test_a_built_in_kind_is_described(api: Api, path: str, name: str) -> None:
    assert name in {one["name"] for one in api.get(path)["resources"]}


def test_an_unknown_group_version_is_not_found(api: Api) -> None:
    assert api.ask("GET", "/apis/none.example.com/v1").status == 404


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health(api: Api, path: str) -> None:
    assert api.ask("GET", path).body == "ok"


def test_a_table_has_the_columns_of_the_crd(api: Api) -> None:
    api.create(api.claims, claim("a", priority=5))
    api.create(api.claims, claim("b"))
    conditions = [{"type": "Ready", "message": "well"}]
    api.merged(f"{api.claims}/b/status", {"status": {"conditions": conditions}})
    got = api.ask("GET", api.claims, accept=TABLE).body
    assert got["kind"] == "Table"
    columns = [(one["name"], one["type"], one["priority"]) for one in got["columnDefinitions"]]
    assert columns == [
        ("Name", "string", 0),
        ("Queue", "string", 0),
        ("Priority", "integer", 0),
        ("Phase", "string", 0),
        ("Age", "date", 0),
        ("Message", "string", 1),
    ]
    ages = [row["cells"].pop(4) for row in got["rows"]]
    assert all(text.endswith("s") for text in ages)
    assert [row["cells"] for row in got["rows"]] == [
        ["a", "aa", 5, "Enqueued", None],
        ["b", "aa", None, "Enqueued", "well"],
    ]
    assert got["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert got["rows"][0]["object"]["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        ("/api/v1/pods", ["Name", "Ready", "Status", "Restarts", "Age"]),
        ("/api/v1/nodes", ["Name", "Status", "Roles", "Age", "Version"]),
        ("/api/v1/namespaces", ["Name", "Status", "Age"]),
        ("/api/v1/events", ["Last Seen", "Type", "Reason", "Object", "Message"]),
        ("/apis/batch/v1/jobs", ["Name", "Status", "Completions", "Duration", "Age"]),
        ("/apis/coordination.k8s.io/v1/leases", ["Name", "Holder", "Age"]),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            ["Name", "Value", "Global-Default", "Age", "PreemptionPolicy"],
        ),
        pytest.param(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            ["Name", "Created At"],
            marks=until_1_36,
        ),
    ],
)
def test_columns_of_built_in_kinds(api: Api, path: str, columns: list[str]) -> None:
    got = api.ask("GET", path, accept=TABLE).body
    shown = [one["name"] for one in got["columnDefinitions"] if not one["priority"]]
    assert shown == columns
    assert all(len(row["cells"]) == len(got["columnDefinitions"]) for row in got["rows"])


def test_one_object_as_a_table(api: Api) -> None:
    api.create(api.claims, claim("a"))
    got = api.ask("GET", f"{api.claims}/a", accept=TABLE, query={"includeObject": "None"}).body
    assert [(row["cells"][0], row["object"]) for row in got["rows"]] == [("a", None)]


def test_metadata_alone(api: Api) -> None:
    api.create(api.claims, claim("a"))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    got = api.ask("GET", api.claims, accept=accept).body
    assert got["kind"] == "PartialObjectMetadataList"
    assert [(item["metadata"]["name"], "spec" in item) for item in got["items"]] == [("a", False)]
