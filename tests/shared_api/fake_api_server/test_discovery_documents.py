"""Tests of shared_api.fake_api_server.discovery_documents: documents that only kubectl reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.shared_api.testing.fake_server_cases import ask, make_server


def read(path: str) -> Any:
    answer = ask(make_server(), "GET", path)
    assert answer.status == 200, answer
    return msgspec.json.decode(answer.body)


def test_one_group() -> None:
    group = read("/apis/batch")
    assert (group["kind"], group["preferredVersion"]["version"]) == ("APIGroup", "v1")


@pytest.mark.parametrize(
    ("path", "item"),
    [
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}"),
        ("apis/example.com/v1", "/apis/example.com/v1/namespaces/{namespace}/things/{name}"),
        ("apis/scheduling.k8s.io/v1", "/apis/scheduling.k8s.io/v1/priorityclasses/{name}"),
    ],
)
def test_openapi_declares_that_the_server_validates_fields(path: str, item: str) -> None:
    where = read("/openapi/v3")["paths"][path]["serverRelativeURL"]
    operation = read(where)["paths"][item]["patch"]
    assert operation["x-kubernetes-group-version-kind"]["version"] == "v1"
    assert "fieldValidation" in {one["name"] for one in operation["parameters"]}


def test_openapi_has_the_schemas_of_crds() -> None:
    schemas = read("/openapi/v3/apis/example.com/v1")["components"]["schemas"]
    thing = schemas["com.example.v1.Thing"]
    identity = {"group": "example.com", "version": "v1", "kind": "Thing"}
    assert thing["x-kubernetes-group-version-kind"] == [identity]
    assert all(
        thing["properties"][name]["description"] for name in ("apiVersion", "kind", "metadata")
    )
    assert thing["x-kubernetes-preserve-unknown-fields"] is True


def test_the_document_for_client_side_validation_is_empty() -> None:
    answer = ask(make_server(), "GET", "/openapi/v2")
    assert (answer.status, answer.body) == (200, b"")
    assert "@" not in answer.headers["content-type"]


@pytest.mark.parametrize("path", ["/openapi/v3/apis/none.com/v1", "/openapi/v1", "/apis/none.com"])
def test_paths_without_a_document(path: str) -> None:
    assert ask(make_server(), "GET", path).status == 404


def test_a_namespaced_kind_has_its_scope() -> None:
    resources = {one["name"]: one for one in read("/api/v1")["resources"]}
    assert resources["pods"]["namespaced"] is True
    assert resources["nodes"]["namespaced"] is False
    assert resources["pods/status"]["verbs"] == ["get", "patch", "update"]
