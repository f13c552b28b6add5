"""Types become structural schemas, with the annotations of their fields."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from shared_api.crd_schema import QUANTITY, SchemaError, schema_of
from shared_api.objects.field_schema import (
    entries,
    flag,
    int32,
    int64,
    items,
    moment,
    part,
    rule,
    rules,
    text,
)
from shared_api.objects.meta import Condition, WireStruct
from shared_api.objects.pod import PodTemplate, QuantityText


class Leaf(WireStruct, frozen=True):
    """A leaf.

    A second paragraph, for programmers.
    """

    leaf_name: Annotated[str, text("Its name.", longest=5, pattern="^a", required=True)] = "a"


class Tree(WireStruct, frozen=True):
    """A tree."""

    kind: Annotated[str, text("Its kind.", longest=9, choices=("oak", "elm"))] = "oak"
    height: Annotated[int | None, int32("In metres.", least=1)] = None
    rings: Annotated[int, int64("Its age.", required=True)] = 0
    debt: Annotated[int, int64("May be negative.", least=None)] = 0
    evergreen: Annotated[bool, flag("Whether it keeps its leaves.")] = False
    planted: Annotated[str | None, moment("When.")] = None
    best: Annotated[Leaf | None, part("The best leaf.", atomic=True)] = None
    own: Annotated[Leaf, part(default={"leafName": "abc"})] = Leaf()
    leaves: Annotated[
        tuple[Leaf, ...],
        items(
            "All.", least=1, most=3, key="leafName", by_item=True, rules=(rule("true", "never"),)
        ),
    ] = ()
    boughs: Annotated[
        tuple[Leaf, ...], items("Some.", most=2, key="leafName", rules=(rule("true", "never"),))
    ] = ()
    tags: Annotated[
        tuple[Annotated[str, text("One.", longest=2)], ...], items("Tags.", most=4, unique=True)
    ] = ()
    marks: Annotated[dict[str, Annotated[int, int32("One.")]], entries("Marks.", most=7)] = (
        msgspec.field(default_factory=dict)
    )
    water: Annotated[QuantityText, rules(rule("self != 0", "dry", field_path=".x"))] = 0
    twigs: Annotated[int, int32("How many.", defaulted=True)] = 3


def property_of(name: str) -> Any:
    return schema_of(Tree)["properties"][name]


LEAF = {
    "type": "object",
    "description": "A leaf.",
    "required": ["leafName"],
    "properties": {
        "leafName": {
            "type": "string",
            "description": "Its name.",
            "maxLength": 5,
            "pattern": "^a",
        }
    },
}


def test_a_struct_is_an_object_with_its_docstrings_first_paragraph() -> None:
    assert schema_of(Leaf) == LEAF


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("kind", {"type": "string", "enum": ["oak", "elm"]}),
        (
            "height",
            {"type": "integer", "format": "int32", "minimum": 1, "maximum": 2147483647},
        ),
        ("rings", {"type": "integer", "format": "int64", "minimum": 0}),
        ("debt", {"type": "integer", "format": "int64"}),
        ("evergreen", {"type": "boolean"}),
        ("planted", {"type": "string", "format": "date-time"}),
        ("best", {**LEAF, "x-kubernetes-map-type": "atomic"}),
        ("own", {**LEAF, "default": {"leafName": "abc"}}),
        (
            "leaves",
            {
                "type": "array",
                "minItems": 1,
                "maxItems": 3,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["leafName"],
                "x-kubernetes-validations": [{"rule": "true", "message": "never"}],
                "items": LEAF,
            },
        ),
        (
            "boughs",
            {
                "type": "array",
                "maxItems": 2,
                "x-kubernetes-list-type": "atomic",
                "x-kubernetes-validations": [
                    {"rule": "true", "message": "never"},
                    {
                        "rule": "self.all(one, self.exists_one(other,"
                        " other.leafName == one.leafName))",
                        "message": "no two items may have the same leafName",
                    },
                ],
                "items": LEAF,
            },
        ),
        (
            "tags",
            {
                "type": "array",
                "maxItems": 4,
                "x-kubernetes-list-type": "set",
                "items": {"type": "string", "maxLength": 2, "description": "One."},
            },
        ),
        (
            "twigs",
            {
                "type": "integer",
                "format": "int32",
                "minimum": 0,
                "maximum": 2147483647,
                "default": 3,
            },
        ),
    ],
)
def test_each_type_has_its_schema(name: str, want: dict[str, Any]) -> None:
    got = dict(property_of(name))
    want = dict(want)
    got.pop("description", None)
    want.pop("description", None)
    assert got == want


def test_a_map_limits_its_keys_and_values() -> None:
    marks = property_of("marks")
    assert (marks["type"], marks["maxProperties"]) == ("object", 7)
    assert marks["additionalProperties"]["maximum"] == 2147483647


def test_a_field_is_described_by_itself_or_by_its_type() -> None:
    assert property_of("best")["description"] == "The best leaf."
    assert property_of("own")["description"] == LEAF["description"]


def test_a_quantity_is_an_int_or_a_string() -> None:
    validations = [{"rule": "self != 0", "message": "dry", "fieldPath": ".x"}]
    assert property_of("water") == {**QUANTITY, "x-kubernetes-validations": validations}


def test_required_fields_are_listed_and_no_others() -> None:
    assert schema_of(Tree)["required"] == ["rings"]


def test_types_of_kubernetes_keep_their_schema() -> None:
    assert schema_of(PodTemplate) == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert schema_of(Condition)["required"] == [
        "lastTransitionTime",
        "message",
        "reason",
        "status",
        "type",
    ]


def test_two_uses_of_a_type_do_not_share_their_schema() -> None:
    properties = schema_of(Tree)["properties"]
    assert "default" in properties["own"]
    assert "default" not in properties["best"]


@pytest.mark.parametrize("kind", [float, str | int, bytes, tuple[int, str]])
def test_a_type_without_a_structural_schema_is_an_error(kind: Any) -> None:
    odd = msgspec.defstruct("Odd", [("field", kind)])
    with pytest.raises(SchemaError, match="no structural schema"):
        schema_of(odd)


def test_annotations_of_a_field_are_not_checked_while_decoding() -> None:
    stored = b'{"leafName": "longer than five", "unknown": 1}'
    assert msgspec.json.decode(stored, type=Leaf).leaf_name == "longer than five"
