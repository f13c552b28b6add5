"""Texts of objects: what can be read, and that all else is one error."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_api.text_decoding import (
    MAX_DEPTH,
    MAX_SHOWN,
    TextError,
    convert_value,
    decode_json,
    decode_yaml,
)

LONG = 100_000
"""Characters of a nasty text; all annotations of an object have 256 KiB."""

PIECES = st.sampled_from(
    [*'[]{}",:\\-?!&*|>#%@`~= \n\t', "a", "1", "null", "\0", "\u202e", "<<: ", "!!int "]
)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "truncated", id="empty"),
        pytest.param("{", "truncated", id="cut off"),
        pytest.param("none", "invalid", id="no JSON"),
        pytest.param("1e999", "out of range", id="a number without end"),
        pytest.param(nested(MAX_DEPTH + 1), "nested more than 64", id="one level too deep"),
        pytest.param(nested(5000), "nested more than 64", id="deeper than the stack"),
        pytest.param("[" * LONG, "nested more than 64", id="never closed"),
        pytest.param('{"a":' * LONG, "nested more than 64", id="maps, never closed"),
        pytest.param("]" * LONG, "malformed", id="only closed"),
        pytest.param('"' * LONG, "trailing", id="quotes"),
        pytest.param('"\\' * LONG, "", id="backslashes"),
        pytest.param("\0", "malformed", id="NUL"),
        pytest.param("\ud800", "surrogates", id="half a character"),
    ],
)
def test_a_text_that_is_no_json_is_an_error_of_one_line(text: str, says: str) -> None:
    with pytest.raises(TextError) as caught:
        decode_json(text, object)
    assert says in str(caught.value)
    assert len(str(caught.value)) <= MAX_SHOWN
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("- " * 5000, "nested more than 64", id="too deep"),
        pytest.param("[" * LONG, "nested more than 64", id="deeper than the parser goes"),
        pytest.param("a: &x [1]\nb: *x", "aliases", id="aliases"),
        pytest.param("? [a]\n: b", "unhashable", id="a list as a key"),
        pytest.param("a: b\n---\nc: d", "single document", id="two documents"),
        pytest.param("%YAML 9.9\n---\na", "incompatible", id="another version"),
        pytest.param("\0", "unacceptable", id="NUL"),
        pytest.param("\ud800", "surrogates", id="half a character"),
        pytest.param("a: {", "while parsing", id="cut off"),
        pytest.param("a:\n\tb", "cannot start any token", id="a tab"),
    ],
)
def test_a_text_that_is_no_yaml_is_an_error_of_one_line(text: str, says: str) -> None:
    with pytest.raises(TextError) as caught:
        decode_yaml(text, object)
    assert says in str(caught.value)
    assert len(str(caught.value)) <= MAX_SHOWN
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(nested(2), [[]], id="lists"),
        pytest.param('{"a": "[[[["}', {"a": "[[[["}, id="brackets in a string"),
        pytest.param("[" + ",".join(["[]"] * 200) + "]", [[]] * 200, id="many, and not deep"),
    ],
)
def test_json_is_decoded(text: str, want: object) -> None:
    assert decode_json(text, object) == want


def test_a_string_without_an_end_costs_little() -> None:
    """Searched again from each of its quotes, it would take minutes, and hold up all threads."""
    text = "[]" * MAX_DEPTH + '["' + '\\"' * 130_000
    with pytest.raises(TextError):
        decode_json(text, object)


def test_as_deep_as_may_be_is_decoded() -> None:
    value: Any = decode_json(nested(MAX_DEPTH), object)
    for _ in range(MAX_DEPTH - 1):
        (value,) = value
    assert value == []


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a: 1\nb: x", {"a": "1", "b": "x"}, id="a map"),
        pytest.param("a: 2001-99-99", {"a": "2001-99-99"}, id="no date is made"),
        pytest.param("a: !!int ''", {"a": ""}, id="no tag is followed"),
        pytest.param("<<: 3", {"<<": "3"}, id="nothing is merged"),
        pytest.param("a: " + "9" * 5000, {"a": "9" * 5000}, id="no number is made"),
    ],
)
def test_scalars_of_yaml_are_texts(text: str, want: object) -> None:
    assert decode_yaml(text, object) == want


def test_the_error_of_another_type_has_the_path() -> None:
    for decode in (decode_json, decode_yaml):
        with pytest.raises(TextError, match=r"\$\[\.\.\.\]"):
            decode('{"a": ["b"]}', dict[str, str])


class Nest(msgspec.Struct):
    """A type without a bound of depth."""

    a: Nest | None = None


def test_a_value_that_is_deeper_than_the_stack_is_an_error() -> None:
    deep: Any = {}
    for _ in range(20_000):
        deep = {"a": deep}
    with pytest.raises(TextError, match="nested too deep"):
        convert_value(deep, Nest)
    with pytest.raises(TextError, match="Expected `int`"):
        convert_value({"a": "x"}, dict[str, int])


@given(st.lists(PIECES, max_size=60).map("".join))
def test_nothing_but_a_text_error_is_raised(text: str) -> None:
    for decode in (decode_json, decode_yaml):
        with contextlib.suppress(TextError):
            decode(text, object)
