"""Tests of shared_api.fake_api_server.garbage_collector beyond the conformance suite."""

from __future__ import annotations

from typing import Any

from tests.shared_api.testing.fake_server_cases import make_server, thing

Json = Any


def owner(body: Json, **fields: Json) -> Json:
    named = {"apiVersion": body["apiVersion"], "kind": body["kind"]}
    return {**named, "name": body["metadata"]["name"], "uid": body["metadata"]["uid"], **fields}


def dependent(name: str, *owners: Json) -> Json:
    return {**thing(name), "metadata": {"name": name, "ownerReferences": list(owners)}}


def test_a_chain_of_dependents_is_deleted_one_by_one() -> None:
    server = make_server()
    first = server.direct.create(thing("a"))
    second = server.direct.create(dependent("b", owner(first)))
    server.direct.create(dependent("c", owner(second)))
    server.direct.delete("things", "a", propagation="Background")
    assert server.direct.list("things") == []


def test_an_owner_of_an_unknown_kind_counts_as_existing() -> None:
    server = make_server()
    unknown = {"apiVersion": "other.com/v1", "kind": "Other", "name": "x", "uid": "7"}
    server.direct.create(dependent("a", unknown))
    assert server.direct.exists("things", "a")


def test_foreground_deletion_keeps_dependents_with_another_owner() -> None:
    server = make_server()
    first, other = server.direct.create_all([thing("a"), thing("other")])
    shared = dependent("shared", owner(first, blockOwnerDeletion=True), owner(other))
    server.direct.create(shared)
    server.direct.delete("things", "a", propagation="Foreground")
    assert not server.direct.exists("things", "a")
    owners = server.direct.get("things", "shared")["metadata"]["ownerReferences"]
    assert [one["name"] for one in owners] == ["other"]


def test_an_adopted_orphan_is_deleted_with_its_new_owner() -> None:
    server = make_server()
    first, second = server.direct.create_all([thing("a"), thing("b")])
    server.direct.create(dependent("c", owner(first)))
    server.direct.delete("things", "a", propagation="Orphan")
    adopted = {"metadata": {"ownerReferences": [owner(second)]}}
    server.direct.patch("things", "c", adopted)
    server.direct.delete("things", "b", propagation="Background")
    assert server.direct.list("things") == []


def test_a_new_object_with_the_name_of_the_owner_is_not_the_owner() -> None:
    server = make_server()
    first = server.direct.create(thing("a"))
    server.direct.delete("things", "a")
    server.direct.create(thing("a"))
    server.direct.create(dependent("late", owner(first)))
    assert not server.direct.exists("things", "late")


def test_a_namespace_is_emptied_of_all_kinds() -> None:
    server = make_server()
    server.direct.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    body = {**thing("a"), "metadata": {"name": "a", "namespace": "team"}}
    server.direct.create(body)
    server.direct.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": body["metadata"]})
    server.direct.delete("namespaces", "team")
    assert not server.direct.exists("namespaces", "team")
    assert server.direct.list("things") == server.direct.list("configmaps") == []
