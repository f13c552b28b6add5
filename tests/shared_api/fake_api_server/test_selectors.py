"""Tests of shared_api.fake_api_server.selectors beyond the conformance suite."""

from __future__ import annotations

import pytest

from shared_api.fake_api_server.api_errors import RequestFailed
from shared_api.fake_api_server.selectors import parse_field_selector, parse_label_selector

FIELDS = {"spec.n": ("spec", "n"), "spec.flag": ("spec", "flag")}


@pytest.mark.parametrize(
    ("text", "labels", "want"),
    [
        pytest.param("n>4", {"n": "5"}, True, id="greater"),
        pytest.param("n>5", {"n": "5"}, False, id="not greater"),
        pytest.param("n<-1", {"n": "-2"}, True, id="less, negative"),
        pytest.param("n<5", {"n": "x"}, False, id="no number"),
        pytest.param("n<5", {}, False, id="absent"),
        pytest.param("a/b.c=d", {"a/b.c": "d"}, True, id="qualified key"),
        pytest.param("a=", {"a": ""}, True, id="empty value"),
        pytest.param("a in (x, y) , b", {"a": "y", "b": ""}, True, id="spaces"),
        pytest.param("a in (x,y),b", {"a": "y"}, False, id="comma inside a set"),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], want: bool) -> None:
    holds = parse_label_selector(text)
    assert holds is not None
    assert holds(labels) is want


@pytest.mark.parametrize("text", ["a b c", "=x", "n>five", "!"])
def test_invalid_label_selectors(text: str) -> None:
    with pytest.raises(RequestFailed):
        parse_label_selector(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("spec.n=5", True, id="a number as text"),
        pytest.param("spec.flag=true", True, id="a boolean as text"),
        pytest.param("spec.flag!=true", False, id="unequal"),
        pytest.param("spec.n==5,spec.flag=false", False, id="all must hold"),
    ],
)
def test_field_selectors(text: str, want: bool) -> None:
    holds = parse_field_selector(text, FIELDS)
    assert holds is not None
    assert holds({"spec": {"n": 5, "flag": True}}) is want


def test_an_absent_field_is_empty() -> None:
    holds = parse_field_selector("spec.n=", FIELDS)
    assert holds is not None
    assert holds({"metadata": {}})
    assert holds({"spec": "text"})


@pytest.mark.parametrize("text", ["spec.other=1", "spec.n"])
def test_invalid_field_selectors(text: str) -> None:
    with pytest.raises(RequestFailed):
        parse_field_selector(text, FIELDS)
