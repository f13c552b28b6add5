"""The command report: what it adds up, for which times, and what it says of the rest."""

from __future__ import annotations

import json
from typing import Any, Final

import click
import pytest

from koord_queue.cli.report import report
from koord_queue.errors import CommandError
from tests.koord_queue.cli.played_answers import run, session_with

AT: Final = "2026-11-01T10:00:00Z"  # when the clock of the tests stands
THIS: Final = "2026-11-01T00:00:00Z"
LAST: Final = "2026-10-01T00:00:00Z"
PAGE: Final = {
    "leader": True,
    "at": AT,
    "completeFrom": "2026-09-15T00:00:00Z",
    "thisPeriodFrom": THIS,
    "lastPeriodFrom": LAST,
    "total": 3,
    "items": [],
    "others": [],
}


def account(user: str, quota: str = "a", cpu: str = "10", **more: Any) -> dict[str, Any]:
    return {
        "quota": quota,
        "queue": "q",
        "namespace": "ns",
        "group": "lab",
        "user": user,
        "used": {"cpu": cpu, "nvidia.com/gpu": "0.5"},
        "thisPeriod": {"cpu": "1.25"},
        "lastPeriod": {"cpu": "3"},
        **more,
    }


ITEMS: Final = [account("ann"), account("bob"), account("ann", "b", cpu="0.001")]


def asked(page: Any, *, form: str = "table", **given: Any) -> tuple[list[str], str]:
    """Return the lines of the answer, and the notes."""
    session = session_with({"/debug/accounts": page})
    options = {"start": None, "end": None, "by": ("user",), **given}
    lines = run(report, session, form=form, **options)
    return lines, session.err_text.getvalue()


def test_accounts_are_added_up_by_user() -> None:
    lines, notes = asked(PAGE | {"items": ITEMS})
    assert [line.split() for line in lines] == [
        ["USER", "cpu", "nvidia.com/gpu"],
        ["ann", "10.001", "1"],
        ["bob", "10", "0.5"],
    ]
    assert "use before 2026-09-15T00:00:00Z is not complete" in notes


def test_by_several_fields_and_as_csv() -> None:
    items = [*ITEMS, account('x,"y')]
    lines, _ = asked(PAGE | {"items": items}, by=("quota", "user"), form="csv")
    assert lines == [
        "QUOTA,USER,cpu,nvidia.com/gpu",
        "a,ann,10,0.5",
        "a,bob,10,0.5",
        'a,"x,""y",10,0.5',
        "b,ann,0.001,0.5",
    ]


@pytest.mark.parametrize(
    ("start", "end", "want"),
    [
        pytest.param(THIS, None, {"cpu": "1.25"}, id="this period"),
        pytest.param(LAST, THIS, {"cpu": "3"}, id="the last one"),
        pytest.param(LAST, None, {"cpu": "4.25"}, id="both"),
        pytest.param(None, THIS, {"cpu": "8.75", "nvidia.com/gpu": "0.5"}, id="before this one"),
        pytest.param(None, LAST, {"cpu": "5.75", "nvidia.com/gpu": "0.5"}, id="before both"),
    ],
)
def test_times(start: str | None, end: str | None, want: dict[str, str]) -> None:
    page = PAGE | {"items": ITEMS[:1]}
    lines, _ = asked(page, start=start, end=end, form="json")
    found = json.loads("\n".join(lines))
    assert found["items"] == [{"user": "ann", "hours": want}]
    assert (found["from"], found["to"]) == (start, end or AT)


def test_other_times_are_refused_with_those_that_are_known() -> None:
    with pytest.raises(CommandError) as caught:
        asked(PAGE, start="2026-10-15T00:00:00Z")
    assert f"{LAST} or {THIS}" in caught.value.next_step
    with pytest.raises(click.UsageError, match="is not a moment"):
        asked(PAGE, start="soon")


def test_a_complete_period_needs_no_note() -> None:
    _, notes = asked(PAGE | {"items": ITEMS}, start=THIS)
    assert notes == ""


def test_use_that_may_not_be_read_is_told_as_such() -> None:
    use = {"used": {"cpu": "7"}, "thisPeriod": {}, "lastPeriod": {}}
    others = [{"quota": "a", "accounts": 3, "use": use}, {"quota": "b", "accounts": 1}]
    page = PAGE | {"items": ITEMS[:1], "others": others}
    lines, _ = asked(page, by=("quota", "user"))
    assert [line.split() for line in lines[2:]] == [
        ["a", "(not-readable)", "7", "0"],
        ["b", "(not-readable)", "?", "?"],
    ]
    lines, _ = asked(page)
    assert lines[2].split() == ["(not-readable)", "?", "?"]


def test_all_pages_are_asked_for() -> None:
    def page(query: dict[str, str]) -> dict[str, Any]:
        items = [account(f"u{query['offset']}")] * 1000
        return PAGE | {"total": 2500, "items": items[: 500 if query["offset"] == "2000" else 1000]}

    lines, _ = asked(page, form="json")
    found = json.loads("\n".join(lines))["items"]
    assert [each["hours"]["cpu"] for each in found] == ["10000", "10000", "5000"]


def test_nothing_was_used() -> None:
    assert asked(PAGE | {"total": 0})[1].startswith("note: nothing was used")
