"""The command report: what it asks for, its columns, and what it says of the rest."""

from __future__ import annotations

import json
from typing import Any, Final

import click
import pytest

from koord_queue.cli.report import report
from tests.koord_queue.cli.played_answers import PlayedAnswers, run, session_with

THIS: Final = "2026-11-01T00:00:00Z"
AT: Final = "2026-11-01T10:00:00Z"  # when the clock of the tests stands
RESOURCES: Final = ("cpu", "nvidia.com/gpu")
PAGE: Final = {
    "leader": True,
    "source": "record",
    "note": "",
    "fromTime": THIS,
    "toTime": AT,
    "completeFrom": "2026-09-15T00:00:00Z",
    "missingSeconds": 0,
    "by": ["user"],
    "total": 2,
    "items": [],
    "others": [],
    "jain": [],
}


def row(user: str, cpu: str = "10", quota: str = "", **more: Any) -> dict[str, Any]:
    names = {"quota": quota, "user": user} if quota else {"user": user}
    return {
        "names": names,
        "used": {"cpu": cpu, "nvidia.com/gpu": "0.5"},
        "admitted": 0,
        "waitP50": None,
        "waitP90": None,
        "evictions": 0,
        "lost": {},
        **more,
    }


def asked(page: Any, *, form: str = "table", **given: Any) -> tuple[list[str], str]:
    """Return the lines of the answer, and the notes."""
    session = session_with({"/debug/report": page})
    options = {"start": None, "end": None, "by": ("user",), **given}
    lines = run(report, session, form=form, **options)
    return lines, session.err_text.getvalue()


def test_rows_have_hours_evictions_and_where_there_are_any_waits_and_losses() -> None:
    waited: dict[str, Any] = {"admitted": 4, "waitP50": 62.0, "waitP90": 3600.0, "evictions": 1}
    jain = [{"quota": "", "rows": 2, "index": {"cpu": 0.8}}]
    items = [row("ann", **waited, lost={"cpu": "0.25"}), row("bob")]
    lines, notes = asked(PAGE | {"items": items, "jain": jain})
    assert [line.split() for line in lines] == [
        [
            "USER",
            "cpu",
            "nvidia.com/gpu",
            "WAIT-P50",
            "WAIT-P90",
            "EVICTIONS",
            "LOST-cpu",
            "JAIN-cpu",
        ],
        ["ann", "10", "0.5", "1m2s", "1h", "1", "0.25", "0.8"],
        ["bob", "10", "0.5", "-", "-", "0", "0", "0.8"],
    ]
    assert notes == f"note: from {THIS} to {AT}\n"


def test_of_quotas_what_they_borrowed_and_lent_is_shown() -> None:
    quotas = [
        row("", names={"quota": "a"}, borrowed={"cpu": "4"}, lent={}),
        row("", names={"quota": "b"}, borrowed=None, lent={"nvidia.com/gpu": "2"}),
    ]
    lines, _ = asked(PAGE | {"by": ["quota"], "items": quotas}, by=("quota",), form="csv")
    assert lines == [
        "QUOTA,cpu,nvidia.com/gpu,BORROWED-cpu,LENT-nvidia.com/gpu,EVICTIONS",
        "a,10,0.5,4,0,0",
        "b,10,0.5,?,2,0",
    ]


def test_of_quotas_what_is_left_of_their_budgets_is_shown() -> None:
    quotas = [
        row("", names={"quota": "a"}, borrowed={}, lent={}, budgetLeft={"cpu": "-2.5"}),
        row("", names={"quota": "b"}, borrowed={}, lent={}, budgetLeft={}),
        row("", names={"quota": "c"}, borrowed={}, lent={}, budgetLeft=None),
    ]
    lines, _ = asked(PAGE | {"by": ["quota"], "items": quotas}, by=("quota",), form="csv")
    assert lines == [
        "QUOTA,cpu,nvidia.com/gpu,BUDGET-LEFT-cpu,EVICTIONS",
        "a,10,0.5,-2.5,0",
        "b,10,0.5,,0",
        "c,10,0.5,,0",
    ]


def test_no_name_is_read_as_a_formula() -> None:
    names = ("=1+1", "+cmd", "-2+3", "@SUM(A1)", "-5")
    page = PAGE | {"items": [row(name) for name in names]}
    lines, _ = asked(page, form="csv")
    assert [each.partition(",")[0] for each in lines[1:]] == [
        "'=1+1",
        "'+cmd",
        "'-2+3",
        "'@SUM(A1)",
        "-5",
    ]


def test_jain_is_that_of_the_quota_of_a_row() -> None:
    jain = [
        {"quota": "a", "rows": 2, "index": {"cpu": 0.75}},
        {"quota": "b", "rows": 1, "index": {"cpu": 1.0}},
        {"quota": "c", "rows": 2, "index": None},
    ]
    items = [row("ann", quota="a"), row('x,"y', quota="b"), row("ann", quota="c")]
    page = PAGE | {"by": ["quota", "user"], "items": items, "jain": jain}
    lines, _ = asked(page, by=("quota", "user"), form="csv")
    assert lines == [
        "QUOTA,USER,cpu,nvidia.com/gpu,EVICTIONS,JAIN-cpu",
        "a,ann,10,0.5,0,0.75",
        'b,"x,""y",10,0.5,0,',
        "c,ann,10,0.5,0,?",
    ]


def test_times_and_fields_are_passed_on() -> None:
    session = session_with({"/debug/report": PAGE})
    run(report, session, start="2h", end="1h", by=("quota", "kind"))
    assert isinstance(session.source, PlayedAnswers)
    ((path, query),) = session.source.asked
    assert (path, dict(query)) == (
        "/debug/report",
        {
            "from": "2026-11-01T08:00:00Z",
            "to": "2026-11-01T09:00:00Z",
            "by": "quota,kind",
            "offset": "0",
            "limit": "1000",
        },
    )
    with pytest.raises(click.UsageError, match="is not a moment"):
        asked(PAGE, start="soon")


def test_one_namespace_is_asked_for_by_its_name() -> None:
    session = session_with({"/debug/report": PAGE})
    session.choice = session.choice._replace(namespace="team-a")
    run(report, session, start=None, end=None, by=("user",))
    assert isinstance(session.source, PlayedAnswers)
    assert ("namespace", "team-a") in session.source.asked[0][1]


def test_use_that_may_not_be_read_is_told_as_such() -> None:
    others: list[dict[str, Any]] = [
        {"quota": "a", "used": {"cpu": "7"}},
        {"quota": "b", "used": None},
    ]
    page = PAGE | {"by": ["quota", "user"], "items": [row("ann", quota="a")], "others": others}
    lines, _ = asked(page, by=("quota", "user"))
    assert [line.split() for line in lines[2:]] == [
        ["a", "(not-readable)", "7", "0", "-"],
        ["b", "(not-readable)", "?", "?", "-"],
    ]
    lines, _ = asked(PAGE | {"items": [row("ann")], "others": others})
    assert lines[2].split() == ["(not-readable)", "?", "?", "-"]
    others[1]["used"] = {"cpu": "0.5"}
    lines, _ = asked(PAGE | {"items": [row("ann")], "others": others})
    assert lines[2].split() == ["(not-readable)", "7.5", "0", "-"]


def test_all_pages_are_asked_for() -> None:
    def page(query: dict[str, str]) -> dict[str, Any]:
        count = 500 if query["offset"] == "2000" else 1000
        return PAGE | {"total": 2500, "items": [row(f"u{query['offset']}")] * count}

    lines, _ = asked(page, form="json")
    assert len(json.loads("\n".join(lines))["items"]) == 2500


def test_json_has_all_of_it() -> None:
    jain = [{"quota": "", "rows": 1, "index": {"cpu": 1.0}}]
    lines, _ = asked(PAGE | {"items": [row("ann")], "jain": jain, "total": 1}, form="json")
    found = json.loads("\n".join(lines))
    assert (found["from"], found["to"], found["source"]) == (THIS, AT, "record")
    assert found["jain"] == jain
    assert found["items"] == [
        {
            "user": "ann",
            "hours": {"cpu": "10", "nvidia.com/gpu": "0.5"},
            "borrowed": None,
            "lent": None,
            "budgetLeft": None,
            "admitted": 0,
            "waitP50": None,
            "waitP90": None,
            "evictions": 0,
            "lost": {},
        }
    ]


def test_without_a_record_the_totals_of_the_ledger_are_named_as_such() -> None:
    page = PAGE | {"source": "ledger", "note": "no hours are recorded", "fromTime": None}
    lines, notes = asked(page | {"items": [row("ann")]})
    assert lines[0].split() == ["USER", "cpu", "nvidia.com/gpu"]
    assert "note: no hours are recorded" in notes
    assert "use before 2026-09-15T00:00:00Z is not complete" in notes


def test_gaps_are_told() -> None:
    page = PAGE | {"items": [row("ann")], "missingSeconds": 5400}
    assert "of this time were not counted" in asked(page)[1]
    late = page | {"completeFrom": "2026-11-01T05:00:00Z"}
    assert "use before 2026-11-01T05:00:00Z is not complete" in asked(late)[1]


def test_nothing_was_used() -> None:
    assert asked(PAGE | {"total": 0})[1].startswith("note: nothing was used")
