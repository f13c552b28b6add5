"""Common properties of all answers of debug APIs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from shared_api.debug_api.views import View


class Example(View):
    first_word: str


def test_fields_are_in_camel_case_and_immutable() -> None:
    view = Example(first_word="a")
    assert view.model_dump(by_alias=True) == {"firstWord": "a"}
    with pytest.raises(ValidationError):
        view.first_word = "b"
