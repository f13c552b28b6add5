"""Deletion: preconditions, finalizers, owners, namespaces."""

from __future__ import annotations

import pytest

from tests.contracts.api_server.server_under_test import (
    EVENTUALLY_SECONDS,
    Api,
    Json,
    claim,
    config_map,
    owner,
)
from tests.waiting import until


def test_delete_answers_a_status_that_names_the_object(api: Api) -> None:
    made = api.create(api.claims, claim("a"))
    answer = api.ask("DELETE", f"{api.claims}/a")
    assert (answer.status, answer.body["status"]) == (200, "Success")
    assert answer.body["details"]["uid"] == made["metadata"]["uid"]
    assert api.ask("GET", f"{api.claims}/a").status == 404


@pytest.mark.parametrize("precondition", [{"uid": "wrong"}, {"resourceVersion": "1"}])
def test_a_precondition_that_fails_is_a_conflict(api: Api, precondition: Json) -> None:
    api.create(api.claims, claim("a"))
    answer = api.ask("DELETE", f"{api.claims}/a", {"preconditions": precondition})
    assert (answer.status, answer.reason) == (409, "Conflict")


def test_a_delete_with_preconditions_that_hold(api: Api) -> None:
    made = api.create(api.claims, claim("a"))["metadata"]
    wanted = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    assert api.ask("DELETE", f"{api.claims}/a", {"preconditions": wanted}).status == 200


def test_a_finalizer_keeps_a_deleted_object(api: Api) -> None:
    api.create(api.claims, claim("a"))
    api.merged(f"{api.claims}/a", {"metadata": {"finalizers": ["example.com/hold"]}})
    marked = api.ask("DELETE", f"{api.claims}/a")
    assert marked.status == 200
    assert "deletionTimestamp" in marked.body["metadata"]
    assert marked.body["metadata"]["generation"] == 2
    assert api.ask("DELETE", f"{api.claims}/a").body == marked.body
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    assert api.merge(f"{api.claims}/a", more).status == 422
    assert api.merged(f"{api.claims}/a", {"spec": {"queue": "bb"}})["spec"]["queue"] == "bb"
    last = api.merged(f"{api.claims}/a", {"metadata": {"finalizers": None}})
    assert "finalizers" not in last["metadata"]
    assert api.ask("GET", f"{api.claims}/a").status == 404


def test_a_new_object_of_the_same_name_has_another_uid(api: Api) -> None:
    first = api.create(api.claims, claim("a"))["metadata"]
    api.ask("DELETE", f"{api.claims}/a")
    second = api.create(api.claims, claim("a"))["metadata"]
    assert first["uid"] != second["uid"]
    stale = {"metadata": {"uid": first["uid"]}, "spec": {"queue": "zz"}}
    assert api.merge(f"{api.claims}/a", stale).status == 422


def test_a_whole_list_can_be_deleted(api: Api) -> None:
    for name in ("a", "b", "c"):
        api.create(api.claims, claim(name, labels={"of": "x" if name == "b" else "y"}))
    answer = api.ask("DELETE", api.claims, query={"labelSelector": "of=y"})
    assert answer.status == 200
    until(lambda: api.names(api.claims) == ["b"], EVENTUALLY_SECONDS)


def await_collector(api: Api, reference: Json) -> None:
    """Return when the garbage collector knows all config maps created so far.

    It learns of them in order, some time after their creation, and deletes those without an owner.
    What it does not know of yet, it neither waits for nor releases.
    """
    nobody = reference | {"name": "nobody", "uid": "3f1b6a4e-0d51-4c5f-9d8a-2f6f0e6f6c11"}
    api.create(api.config_maps, config_map("stray", ownerReferences=[nobody]))
    until(lambda: "stray" not in api.names(api.config_maps), EVENTUALLY_SECONDS)


def test_dependents_are_deleted_with_their_owner(api: Api) -> None:
    made = api.create(api.claims, claim("owner"))
    other = api.create(api.claims, claim("other"))
    api.create(api.config_maps, config_map("one", ownerReferences=[owner(made)]))
    api.create(api.config_maps, config_map("two", ownerReferences=[owner(made), owner(other)]))
    api.ask("DELETE", f"{api.claims}/owner", {"propagationPolicy": "Background"})
    until(lambda: "one" not in api.names(api.config_maps), EVENTUALLY_SECONDS)
    await_collector(api, owner(made))  # by then it has processed the other one
    assert "two" in api.names(api.config_maps)


def test_foreground_deletion_waits_for_dependents(api: Api) -> None:
    made = api.create(api.claims, claim("owner"))
    reference = owner(made, blocks=True)
    held = config_map("one", ownerReferences=[reference], finalizers=["example.com/hold"])
    api.create(api.config_maps, held)
    await_collector(api, reference)
    answer = api.ask("DELETE", f"{api.claims}/owner", {"propagationPolicy": "Foreground"})
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    one = f"{api.config_maps}/one"
    until(lambda: "deletionTimestamp" in api.get(one)["metadata"], EVENTUALLY_SECONDS)
    assert api.ask("GET", f"{api.claims}/owner").status == 200
    api.merged(one, {"metadata": {"finalizers": None}})
    until(lambda: api.ask("GET", f"{api.claims}/owner").status == 404, EVENTUALLY_SECONDS)


def test_an_orphaning_delete_leaves_dependents(api: Api) -> None:
    made = api.create(api.claims, claim("owner"))
    api.create(api.config_maps, config_map("one", ownerReferences=[owner(made)]))
    await_collector(api, owner(made))
    api.ask("DELETE", f"{api.claims}/owner", {"propagationPolicy": "Orphan"})
    until(lambda: api.ask("GET", f"{api.claims}/owner").status == 404, EVENTUALLY_SECONDS)
    assert "ownerReferences" not in api.get(f"{api.config_maps}/one")["metadata"]


def test_a_dependent_without_an_owner_is_deleted(api: Api) -> None:
    made = api.create(api.claims, claim("owner"))
    api.ask("DELETE", f"{api.claims}/owner", {"propagationPolicy": "Background"})
    api.create(api.config_maps, config_map("late", ownerReferences=[owner(made)]))
    until(lambda: "late" not in api.names(api.config_maps), EVENTUALLY_SECONDS)


def test_a_namespace_is_deleted_with_its_objects(api: Api) -> None:
    api.create(api.claims, claim("a"))
    api.create(
        api.claims,
        claim("held") | {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}},
    )
    path = f"/api/v1/namespaces/{api.namespace}"
    answer = api.ask("DELETE", path)
    assert answer.body["status"]["phase"] == "Terminating"
    until(lambda: api.names(api.claims) == ["held"], EVENTUALLY_SECONDS)
    refused = api.ask("POST", api.claims, claim("late"))
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    api.merged(f"{api.claims}/held", {"metadata": {"finalizers": None}})
    until(lambda: api.ask("GET", path).status == 404, EVENTUALLY_SECONDS)
