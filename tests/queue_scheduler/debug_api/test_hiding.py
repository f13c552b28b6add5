"""What the marks of fields hide, on answers made up for it."""

from __future__ import annotations

from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from queue_scheduler.debug_api.hiding import (
    OF_OTHERS,
    OfUnit,
    Owner,
    Sentence,
    SumOf,
    hide,
    may_sum,
    with_sentences,
)
from shared_api.debug_api.views import View


def _said(row: Row) -> str:
    return f"{row.unit} waits for {row.ahead or OF_OTHERS}"


class Row(View):
    """One unit, and the one ahead of it."""

    unit: Annotated[str, Owner()]
    ahead: Annotated[str, OfUnit()] = ""
    by: Annotated[str, OfUnit(hidden=OF_OTHERS)] = ""
    seconds: int = 1
    text: Annotated[str, Sentence(_said)] = ""


class Entry(View):
    """A row that stays."""

    namespace: Annotated[str, Owner(stays=True)]


class Asked(View):
    """What the reader has sent, with a right of its own."""

    namespace: Annotated[str, Owner(is_asked=True)]
    before: Annotated[list[str], OfUnit(counted="more")]
    more: int = 0


class Account(View):
    """A sum over units of several namespaces."""

    namespaces: Annotated[list[str], Owner()]
    units: int = 1


class Accounts(View):
    """Sums by user."""

    items: Annotated[list[Account], OfUnit(counted="others")]
    others: int = 0
    units: Annotated[int | None, SumOf("items", hidden="units")] = 0


class Answer(View):
    """An answer about a unit."""

    namespace: Annotated[str, Owner()] = "own"
    first: Row | None = None
    rows: Annotated[list[Row], OfUnit(counted="others")] = Field(default_factory=list)
    others: int = 0
    seconds: Annotated[int | None, SumOf("rows", hidden="seconds")] = 0
    total: Annotated[int | None, SumOf("rows")] = 9
    uncounted: list[Row] = Field(default_factory=list)
    entries: list[Entry] = Field(default_factory=list)
    asked: list[Asked] = Field(default_factory=list)


def reads_a(namespace: str) -> bool:
    return namespace == "a"


def row(unit: str, *, ahead: str = "", by: str = "") -> Row:
    return with_sentences(Row(unit=unit, ahead=ahead, by=by))


def test_views_of_hidden_units_are_left_out_and_counted() -> None:
    rows = [row("a/1"), row("b/1"), row("own/1")]
    got = hide(Answer(first=row("b/1"), rows=rows, uncounted=rows, others=4), reads_a)
    assert [each.unit for each in got.rows] == ["a/1", "own/1"]
    assert (got.others, got.first, got.uncounted) == (5, None, got.rows)


def test_the_namespace_that_is_asked_about_is_open_whatever_the_rights() -> None:
    answer = Answer(first=row("own/1", ahead="own/2"), rows=[row("own/3")])
    assert hide(answer, lambda _: False) is answer


def test_names_are_replaced_and_sentences_built_without_them() -> None:
    reported = row("a/1", ahead="b/secret", by="b/secret")
    (got,) = hide(Answer(rows=[reported]), reads_a).rows
    assert (got.ahead, got.by) == ("", OF_OTHERS)
    assert got.text == f"a/1 waits for {OF_OTHERS}"
    assert reported.text == "a/1 waits for b/secret"


def test_what_is_no_unit_is_shown() -> None:
    answer = Answer(rows=[row("a/1", ahead="queue-b")])
    assert hide(answer, reads_a) is answer


def test_a_row_that_stays_loses_its_unit() -> None:
    got = hide(Answer(entries=[Entry(namespace="a"), Entry(namespace="b")]), reads_a)
    assert [each.namespace for each in got.entries] == ["a", ""]


def test_what_is_of_several_namespaces_is_for_readers_of_all_of_them() -> None:
    of = [["red"], ["red", "blue"], ["blue"], ["red", ""], []]
    accounts = Accounts(items=[Account(namespaces=each) for each in of])
    shown = hide(accounts, {"red"}.__contains__)
    assert [each.namespaces for each in shown.items] == [["red"], []]
    assert shown.others == 3
    assert shown.units == 3  # of red, blue, and some that are not known
    assert hide(accounts, {"red", "blue"}.__contains__).units is None
    assert hide(accounts, lambda _: True) is accounts


def test_names_in_a_list_are_counted() -> None:
    asked = Asked(namespace="sent", before=["a/1", "b/1", "sent/1"], more=2)
    (got,) = hide(Answer(asked=[asked]), reads_a).asked
    assert (got.before, got.more) == (["a/1", "sent/1"], 3)


@pytest.mark.parametrize(
    ("hidden", "seconds", "total"),
    [("", 0, 9), ("b", None, None), ("bc", None, None), ("bcd", 3, 9), ("bbb", None, None)],
)
def test_a_sum_is_over_three_hidden_namespaces_at_least(
    hidden: str, seconds: int | None, total: int | None
) -> None:
    rows = [row("a/1"), *(row(f"{each}/1") for each in hidden)]
    got = hide(Answer(rows=rows), reads_a)
    assert (got.seconds, got.total, got.others) == (seconds, total, len(hidden))
    assert may_sum(hidden) == (got.total is not None)


@given(st.lists(st.sampled_from("abcdef"), max_size=8), st.sets(st.sampled_from("abcdef")))
def test_what_was_hidden_is_not_changed_by_hiding_it_again(
    namespaces: list[str], readable: set[str]
) -> None:
    rows = [row(f"{each}/{n}", ahead="b/1", by="b/1") for n, each in enumerate(namespaces)]
    entries = [Entry(namespace=each) for each in namespaces]
    asked = [Asked(namespace="sent", before=[each.unit for each in rows])]
    answer = Answer(first=row("c/1"), rows=rows, uncounted=rows, entries=entries, asked=asked)
    once = hide(answer, readable.__contains__)
    assert hide(once, readable.__contains__) is once
