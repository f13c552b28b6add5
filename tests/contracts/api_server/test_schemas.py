"""Custom kinds: defaults, pruning, and the paths of fields that the schema refuses."""

from __future__ import annotations

import pytest

from tests.contracts.api_server.server_under_test import Api, Json, claim, of_1_36


def test_defaults_are_set(api: Api) -> None:
    made = api.create(api.claims, claim("a", items=[{"name": "x"}]))
    assert made["spec"] == {"queue": "aa", "policy": "Block", "items": [{"name": "x", "count": 1}]}


def test_unknown_fields_are_dropped(api: Api) -> None:
    spec: Json = {"nobody": 1, "items": [{"name": "x", "nobody": 2}], "template": {"anything": [1]}}
    made = api.create(api.claims, claim("a", **spec))
    assert "nobody" not in made["spec"]
    assert made["spec"]["items"] == [{"name": "x", "count": 1}]
    assert made["spec"]["template"] == {"anything": [1]}


def test_unknown_fields_are_refused_with_strict_validation(api: Api) -> None:
    body = claim("a", nobody=1, items=[{"name": "x", "nobody": 2}])
    answer = api.ask("POST", api.claims, body, query={"fieldValidation": "Strict"})
    assert (answer.status, answer.reason) == (400, "BadRequest")
    for path in ("spec.nobody", "spec.items[0].nobody"):
        assert f'unknown field "{path}"' in answer.body["message"]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({"queue": 7}, {"spec.queue"}, id="a number for a text"),
        pytest.param({"priority": "7"}, {"spec.priority"}, id="a text for a number"),
        pytest.param({"priority": 1.5}, {"spec.priority", "<nil>"}, id="a fraction", marks=of_1_36),
        pytest.param({"flag": "yes"}, {"spec.flag"}, id="a text for a boolean"),
        pytest.param({"template": 1}, {"spec.template"}, id="a number for an object"),
        pytest.param({"items": {}}, {"spec.items"}, id="an object for a list"),
        pytest.param({"queue": None}, {"spec.queue"}, id="null for a required field"),
        pytest.param({"queue": ""}, {"spec.queue"}, id="too short"),
        pytest.param({"queue": "x" * 11}, {"spec.queue"}, id="too long"),
        pytest.param({"queue": "ABC"}, {"spec.queue"}, id="pattern"),
        pytest.param({"priority": -1}, {"spec.priority"}, id="too small"),
        pytest.param({"priority": 101}, {"spec.priority"}, id="too big"),
        pytest.param({"policy": "None"}, {"spec.policy"}, id="not in the enumeration"),
        pytest.param({"items": [{}]}, {"spec.items[0].name"}, id="missing in an item"),
        pytest.param({"items": [{"name": n} for n in "abc"]}, {"spec.items"}, id="too many items"),
        pytest.param(
            {"items": [{"name": "a"}, {"name": "a"}]}, {"spec.items[1]"}, id="the same key twice"
        ),
        pytest.param({"words": ["a", "a"]}, {"spec.words[1]"}, id="the same word twice"),
        pytest.param({"at": "noon"}, {"spec.at"}, id="no time"),
        pytest.param(
            {"flag": 1, "priority": 101}, {"spec.flag", "spec.priority"}, id="two at once"
        ),
    ],
)
def test_the_schema_refuses(api: Api, spec: Json, fields: set[str]) -> None:
    answer = api.ask("POST", api.claims, claim("a", **spec))
    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.fields == fields


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"amounts": {"cpu": 1, "memory": "1Gi"}}, id="int or string"),
        pytest.param({"maybe": None}, id="null where it is allowed"),
        pytest.param({"flag": None}, id="null for a field that is then dropped"),
        pytest.param({"priority": 100, "queue": "a" * 10}, id="at the limits"),
        pytest.param({"at": "2026-11-01T10:00:00Z"}, id="a time"),
        pytest.param({"at": "2026-11-01T10:00:00.123456+01:00"}, id="a time to the microsecond"),
        pytest.param({"items": [{"name": "a"}, {"name": "b"}]}, id="two items"),
    ],
)
def test_the_schema_allows(api: Api, spec: Json) -> None:
    assert api.ask("POST", api.claims, claim("a", **spec)).status == 201


def test_int_or_string_allows_no_other_type(api: Api) -> None:
    answer = api.ask("POST", api.claims, claim("a", amounts={"cpu": True}))
    assert answer.status == 422
    assert "spec.amounts.cpu" in answer.fields


def test_the_schema_holds_for_patches_too(api: Api) -> None:
    api.create(api.claims, claim("a"))
    assert api.merge(f"{api.claims}/a", {"spec": {"priority": 101}}).fields == {"spec.priority"}
    conditions = [{"type": kind} for kind in "abc"]
    answer = api.merge(f"{api.claims}/a/status", {"status": {"conditions": conditions}})
    assert answer.fields == {"status.conditions"}


def test_a_required_field_cannot_be_removed(api: Api) -> None:
    api.create(api.claims, claim("a"))
    assert api.merge(f"{api.claims}/a", {"spec": None}).fields == {"spec"}


def test_a_crd_reports_that_it_is_established(api: Api) -> None:
    name = "claims.conformance.example.com"
    crd = api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    conditions = {one["type"]: one["status"] for one in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
