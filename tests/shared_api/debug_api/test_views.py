"""Common properties of all answers of debug APIs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from shared_api.debug_api.views import FieldsOf, View

_of_text = FieldsOf[str]()


class Example(View):
    first_word: str


class Described(View):
    length: int = _of_text(len)
    shout: str | None = _of_text(lambda text: text.upper(), default=None)
    is_last: bool


def test_fields_are_in_camel_case_and_immutable() -> None:
    view = Example(first_word="a")
    assert view.model_dump(by_alias=True) == {"firstWord": "a"}
    with pytest.raises(ValidationError):
        view.first_word = "b"


def test_a_field_is_read_from_the_facts_by_the_function_beside_it() -> None:
    got = Described.of("abc", is_last=True)
    assert got == Described(length=3, shout="ABC", is_last=True)


def test_the_contract_has_the_fields_as_they_are_declared() -> None:
    contract = Described.model_json_schema(mode="serialization")
    assert contract["required"] == ["length", "isLast"]
    assert contract["properties"]["shout"]["default"] is None


def test_a_view_without_one_of_its_fields_is_an_error() -> None:
    with pytest.raises(ValidationError, match="isLast"):
        Described.of("abc")
