"""The parameters of a list."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from queue_insight.visibility.queries import (
    DEFAULT_PAGE,
    LONGEST_SELECTOR,
    MAX_PAGE,
    Term,
    read_limit,
    read_query,
    read_selection,
)
from queue_insight.visibility.statuses import StatusError


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", DEFAULT_PAGE, id="none is asked for"),
        pytest.param("0", DEFAULT_PAGE, id="0 is none, as in Kubernetes"),
        pytest.param("1", 1, id="one"),
        pytest.param("1000", MAX_PAGE, id="the most"),
        pytest.param("1001", MAX_PAGE, id="more are capped"),
        pytest.param(str(2**63 - 1), MAX_PAGE, id="the largest number of 64 bits"),
    ],
)
def test_a_limit_is_read(text: str, want: int) -> None:
    assert read_limit(text) == want


@pytest.mark.parametrize("text", ["-1", str(2**63), "1.5", "1e3", " 1", "+1", "٣", "9" * 5000])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(StatusError) as raised:
        read_limit(text)
    assert raised.value.code is HTTPStatus.BAD_REQUEST
    assert len(raised.value.message) < 100


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", ()),
        ("spec.queue=team", (Term("spec.queue", "team"),)),
        ("spec.queue==team", (Term("spec.queue", "team"),)),
        ("spec.queue=", (Term("spec.queue", ""),)),
        ("metadata.name!=a.b-c", (Term("metadata.name", "a.b-c", is_equal=False),)),
        (
            "metadata.namespace = x , metadata.name=y",
            (Term("metadata.namespace", "x"), Term("metadata.name", "y")),
        ),
    ],
)
def test_a_field_selector_is_read(text: str, want: tuple[Term, ...]) -> None:
    assert read_selection(text).terms == want


@pytest.mark.parametrize(
    "text",
    ["spec.queue", "=x", "spec.queue=a=b", "spec.quota=x", ",", "spec.queue=a,", "a in (b)",
     "metadata.name=a\\,b", "spec.queue=" + "a" * LONGEST_SELECTOR],
)  # fmt: skip
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(StatusError) as raised:
        read_selection(text)
    assert raised.value.code is HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("", True),
        ("metadata.name=n", True),
        ("metadata.name=q", False),
        ("metadata.namespace=ns,spec.queue=q", True),
        ("metadata.namespace=ns,spec.queue!=q", False),
        ("metadata.name=n,metadata.name=m", False),
    ],
)
def test_a_selection_takes_units(selector: str, want: bool) -> None:
    assert read_selection(selector).takes("ns/n", "q") is want


@pytest.mark.parametrize(
    ("value", "is_watch"), [("true", True), ("1", True), ("", True), ("0", False), ("False", False)]
)
def test_a_watch_is_recognized_as_by_the_api_server(value: str, is_watch: bool) -> None:
    query = {"watch": value}
    if not is_watch:
        assert read_query(query).limit == DEFAULT_PAGE
        return
    with pytest.raises(StatusError) as raised:
        read_query(query)
    assert raised.value.code is HTTPStatus.METHOD_NOT_ALLOWED
