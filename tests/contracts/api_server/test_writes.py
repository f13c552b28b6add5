"""Create, update, patch, and delete, as for every kind."""

from __future__ import annotations

import re

import pytest

from tests.contracts.api_server.server_under_test import (
    JSON_PATCH,
    Api,
    Json,
    claim,
    config_map,
    plain,
)

FULL: Json = {"a": "x" * (256 * 1024 - 1)}
_CONTROLLER: Json = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "7", "controller": True}
RFC3339_SECONDS = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")


def test_create_sets_what_the_server_owns(api: Api) -> None:
    made = api.create(api.claims, claim("a"))["metadata"]
    assert made["generation"] == 1
    assert int(made["resourceVersion"]) > 0
    assert RFC3339_SECONDS.match(made["creationTimestamp"])
    assert len(made["uid"]) == 36
    assert made["namespace"] == api.namespace


def test_versions_of_all_kinds_come_from_one_counter(api: Api) -> None:
    bodies = [
        api.create(api.claims, claim("a")),
        api.create(api.config_maps, config_map("b")),
        api.create(api.claims, claim("c")),
    ]
    versions = [int(body["metadata"]["resourceVersion"]) for body in bodies]
    assert versions == sorted(set(versions))


def test_generated_names_start_with_their_prefix(api: Api) -> None:
    body = claim("x")
    body["metadata"] = {"generateName": "some-"}
    names = {api.create(api.claims, body)["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"some-[a-z0-9]{5}", name) for name in names)


def test_status_is_ignored_in_a_create_and_defaulted(api: Api) -> None:
    made = api.create(api.claims, {**claim("a"), "status": {"phase": "Running"}})
    assert made["status"] == {"phase": "Enqueued"}
    assert api.get(f"{api.claims}/a")["status"] == {"phase": "Enqueued"}


def test_annotations_have_a_size(api: Api) -> None:
    body = claim("a")
    body["metadata"]["annotations"] = FULL
    api.create(api.claims, body)
    for more in ({"b": ""}, {"a": FULL["a"] + "x"}):
        answer = api.merge(f"{api.claims}/a", {"metadata": {"annotations": more}})
        assert (answer.status, answer.reason) == (422, "Invalid")
        assert "Too long: may not be more than 262144 bytes" in answer.body["message"]
    api.merged(f"{api.claims}/a", {"metadata": {"annotations": {"a": "y"}}})


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        pytest.param(claim("Bad_Name"), 422, "Invalid", id="name with capitals"),
        pytest.param({**claim(""), "metadata": {}}, 422, "Invalid", id="no name"),
        pytest.param({**claim("a"), "kind": "Other"}, 422, "Invalid", id="another kind"),
        pytest.param(
            {**claim("a"), "apiVersion": "x/v1"}, 400, "BadRequest", id="another apiVersion"
        ),
        pytest.param(
            {**claim("a"), "metadata": {"name": "a", "namespace": "elsewhere"}},
            *(400, "BadRequest"),
            id="another namespace",
        ),
        pytest.param(
            {**claim("a"), "metadata": {"name": "a", "resourceVersion": "5"}},
            *(500, ""),
            id="a resourceVersion",
        ),
        pytest.param(claim("a", labels={"bad!": "x"}), 422, "Invalid", id="label key"),
        pytest.param(claim("a", labels={"x": "bad!"}), 422, "Invalid", id="label value"),
        pytest.param(
            {**claim("a"), "metadata": {"name": "a", "ownerReferences": [{"name": "x"}]}},
            *(422, "Invalid"),
            id="owner without uid",
        ),
        pytest.param(
            {
                **claim("a"),
                "metadata": {
                    "name": "a",
                    "ownerReferences": [_CONTROLLER, {**_CONTROLLER, "name": "q", "uid": "8"}],
                },
            },
            *(422, "Invalid"),
            id="two controllers",
        ),
    ],
)
def test_create_refuses(api: Api, body: Json, status: int, reason: str) -> None:
    answer = api.ask("POST", api.claims, body)
    assert (answer.status, answer.reason) == (status, reason)


def test_create_of_a_taken_name_is_already_exists(api: Api) -> None:
    api.create(api.claims, claim("a"))
    answer = api.ask("POST", api.claims, claim("a"))
    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.body["details"]["name"] == "a"


def test_create_in_a_missing_namespace_is_not_found(api: Api) -> None:
    answer = api.ask("POST", api.claims.replace(api.namespace, "nowhere"), claim("a"))
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.body["details"] == {"name": "nowhere", "kind": "namespaces"}


def test_a_body_that_is_not_json_is_a_bad_request(api: Api) -> None:
    assert api.ask("POST", api.claims, "text").status == 400


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_a_missing_object_is_not_found(api: Api, method: str) -> None:
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    body: Json = {} if method == "PATCH" else None
    answer = api.ask(method, f"{api.claims}/none", body, content_type=content_type)
    assert (answer.status, answer.reason) == (404, "NotFound")
    assert answer.body["details"]["kind"] == "claims"


@pytest.mark.parametrize("path", ["/apis/none.example.com/v1/things", "/apis/batch/v1/things"])
def test_an_unknown_kind_is_not_found(api: Api, path: str) -> None:
    assert api.ask("GET", path).status == 404


# --------------------------------------------------------------------------------------- patches


def settled_claim(api: Api, name: str) -> Json:
    """Return a claim that has been written to since its creation.

    The real server stores a new object without its default status, so the first write, even an
    empty one, creates a new version there.
    """
    api.create(api.claims, claim(name))
    return api.merged(f"{api.claims}/{name}", {"metadata": {"annotations": {"settled": "yes"}}})


def test_a_spec_patch_bumps_generation_and_version(api: Api) -> None:
    before = api.create(api.claims, claim("a"))["metadata"]
    after = api.merged(f"{api.claims}/a", {"spec": {"queue": "bb"}})
    assert after["spec"]["queue"] == "bb"
    assert after["metadata"]["generation"] == 2
    assert int(after["metadata"]["resourceVersion"]) > int(before["resourceVersion"])


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({}, id="empty"),
        pytest.param({"spec": {"queue": "aa"}}, id="the same value"),
        pytest.param({"spec": {"unknown": 1}}, id="a field that is pruned"),
        pytest.param({"spec": {"policy": None}}, id="a default removed"),
        pytest.param({"status": {"phase": "X"}}, id="status, on the main resource"),
        pytest.param({"metadata": {"labels": {}}}, id="no labels"),
        pytest.param({"metadata": {"generation": 9}}, id="what the server owns"),
    ],
)
def test_a_patch_that_changes_nothing_keeps_the_version(api: Api, patch: Json) -> None:
    before = settled_claim(api, "a")
    assert api.merged(f"{api.claims}/a", patch) == before
    assert api.get(f"{api.claims}/a") == before


def test_labels_do_not_bump_the_generation(api: Api) -> None:
    api.create(api.claims, claim("a"))
    after = api.merged(f"{api.claims}/a", {"metadata": {"labels": {"x": "y"}}})["metadata"]
    assert (after["labels"], after["generation"]) == ({"x": "y"}, 1)


def test_a_status_write_touches_nothing_but_the_status(api: Api) -> None:
    api.create(api.claims, claim("a"))
    patch = {
        "metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}},
        "spec": {"queue": "zz"},
        "status": {"phase": "Running"},
    }
    after = api.merged(f"{api.claims}/a/status", patch)
    assert after["status"] == {"phase": "Running"}
    assert after["spec"]["queue"] == "aa"
    assert after["metadata"]["generation"] == 1
    assert "labels" not in after["metadata"]


def test_an_emptied_status_is_defaulted_again(api: Api) -> None:
    api.create(api.claims, claim("a"))
    api.merged(f"{api.claims}/a/status", {"status": {"phase": "Running"}})
    after = api.merged(f"{api.claims}/a/status", {"status": None})
    assert after["status"] == {"phase": "Enqueued"}


def test_without_the_subresource_the_status_is_an_ordinary_field(api: Api) -> None:
    made = api.create(api.plains, plain("a", status={"used": {"cpu": 1}}))
    assert made["status"] == {"used": {"cpu": 1}}
    after = api.merged(f"{api.plains}/a", {"status": {"used": {"cpu": 2}}})
    assert after["status"] == {"used": {"cpu": 2}}
    assert after["metadata"]["generation"] == 2
    assert api.merge(f"{api.plains}/a/status", {"status": {}}).status == 404


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_a_stale_resource_version_is_a_conflict(api: Api, subresource: str) -> None:
    made = api.create(api.claims, claim("a"))["metadata"]["resourceVersion"]
    api.merged(f"{api.claims}/a", {"spec": {"queue": "bb"}})
    patch = {
        "metadata": {"resourceVersion": made},
        "spec": {"queue": "cc"},
        "status": {"phase": "X"},
    }
    answer = api.merge(f"{api.claims}/a{subresource}", patch)
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert api.get(f"{api.claims}/a")["spec"]["queue"] == "bb"


def test_the_current_resource_version_is_accepted(api: Api) -> None:
    version = api.create(api.claims, claim("a"))["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "status": {"phase": "Running"}}
    assert api.merged(f"{api.claims}/a/status", patch)["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("guard", "status"),
    [
        pytest.param({"uid": "wrong"}, 422, id="another uid"),
        pytest.param({"uid": "wrong", "resourceVersion": "1"}, 409, id="and a stale version"),
        pytest.param({"name": "b"}, 400, id="another name"),
        pytest.param({"deletionTimestamp": "2020-01-01T00:00:00Z"}, 422, id="deletionTimestamp"),
    ],
)
def test_guards_of_a_patch(api: Api, guard: Json, status: int) -> None:
    api.create(api.claims, claim("a"))
    answer = api.merge(f"{api.claims}/a", {"metadata": guard, "spec": {"queue": "zz"}})
    assert answer.status == status
    assert api.get(f"{api.claims}/a")["spec"]["queue"] == "aa"


@pytest.mark.parametrize(
    ("operations", "status"),
    [
        pytest.param(
            [
                {"op": "test", "path": "/spec/queue", "value": "aa"},
                {"op": "replace", "path": "/spec/queue", "value": "bb"},
            ],
            200,
            id="test holds",
        ),
        pytest.param(
            [
                {"op": "test", "path": "/spec/queue", "value": "zz"},
                {"op": "replace", "path": "/spec/queue", "value": "bb"},
            ],
            422,
            id="test fails",
        ),
        pytest.param([{"op": "remove", "path": "/spec/flag"}], 422, id="nothing to remove"),
        pytest.param([{"op": "add", "path": "/spec/flag", "value": True}], 200, id="add"),
        pytest.param([{"op": "replace", "path": "/spec/flag", "value": True}], 200, id="replace"),
        pytest.param([{"op": "add", "path": "/spec/no/x", "value": 1}], 422, id="no parent"),
        pytest.param([{"op": "fly", "path": "/spec/queue"}], 422, id="unknown operation"),
        pytest.param({"op": "add"}, 400, id="not a list"),
    ],
)
def test_json_patch(api: Api, operations: Json, status: int) -> None:
    api.create(api.claims, claim("a"))
    answer = api.ask("PATCH", f"{api.claims}/a", operations, content_type=JSON_PATCH)
    assert answer.status == status


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/strategic-merge-patch+json"]
)
def test_custom_kinds_accept_no_other_patches(api: Api, content_type: str) -> None:
    api.create(api.claims, claim("a"))
    answer = api.ask("PATCH", f"{api.claims}/a", {}, content_type=content_type)
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")


def test_dry_run_stores_nothing(api: Api) -> None:
    api.create(api.claims, claim("b"), dryRun="All")
    assert api.names(api.claims) == []
    before = api.create(api.claims, claim("a"))
    answer = api.merge(f"{api.claims}/a", {"spec": {"queue": "zz"}}, dryRun="All")
    assert (answer.status, answer.body["spec"]["queue"]) == (200, "zz")
    api.ask("DELETE", f"{api.claims}/a", query={"dryRun": "All"})
    assert api.get(f"{api.claims}/a") == before


# ------------------------------------------------------------------------------------------- PUT


def test_put_replaces_what_the_client_owns(api: Api) -> None:
    made = api.create(api.claims, claim("a", labels={"x": "y"}, priority=3))
    body = claim("a")
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    answer = api.ask("PUT", f"{api.claims}/a", body)
    assert answer.status == 200
    assert answer.body["spec"] == {"queue": "aa", "policy": "Block"}
    assert "labels" not in answer.body["metadata"]
    for field in ("uid", "creationTimestamp"):
        assert answer.body["metadata"][field] == made["metadata"][field]


def test_put_of_the_same_keeps_the_version(api: Api) -> None:
    made = settled_claim(api, "a")
    assert api.ask("PUT", f"{api.claims}/a", made).body == made


@pytest.mark.parametrize(
    ("guard", "status"),
    [
        pytest.param({}, 422, id="no version"),
        pytest.param({"resourceVersion": "1"}, 409, id="a stale version"),
        pytest.param({"uid": "wrong"}, 409, id="another uid"),
    ],
)
def test_guards_of_a_put(api: Api, guard: Json, status: int) -> None:
    api.create(api.claims, claim("a"))
    body = claim("a", priority=5)
    body["metadata"] |= guard
    assert api.ask("PUT", f"{api.claims}/a", body).status == status
