"""The command log: which pages it reads, and what it says without a record."""

from __future__ import annotations

from typing import Any, Final

import pytest

from koord_queue.cli.log import log
from koord_queue.errors import CommandError
from koord_queue.reach.errors import NotServed, Refused
from tests.koord_queue.cli.played_answers import run, session_with


def entries(numbers: range) -> list[dict[str, Any]]:
    return [{"unit": f"a/{number}", "kind": "Admitted", "time": "2026"} for number in numbers]


def three_pages(query: dict[str, str]) -> dict[str, Any]:
    """Return entries 1200 to 1 in pages, the newest first."""
    newest = int(query.get("cursor", "1200"))
    last = max(newest - int(query["limit"]), 0)
    items = entries(range(newest, last, -1))
    return {"items": items, "cursor": last or None}


ANY: Final = {"about": None, "reason": None, "since": None}


@pytest.mark.parametrize(
    ("limit", "first", "pages", "is_cut"),
    [
        pytest.param(100, "a/1101", 1, True, id="less than a page"),
        pytest.param(700, "a/501", 2, True, id="more than a page"),
        pytest.param(1200, "a/1", 3, False, id="exactly all"),
        pytest.param(5000, "a/1", 3, False, id="more than there are"),
    ],
)
def test_the_newest_entries_are_read_page_by_page(
    limit: int, first: str, pages: int, is_cut: bool
) -> None:
    session = session_with({"/debug/log": three_pages})
    got = run(log, session, **ANY, limit=limit)
    assert (got[1].split()[1], got[-1].split()[1]) == (first, "a/1200")
    assert len(got) - 1 == min(limit, 1200)
    assert len(session.source.asked) == pages
    assert bool(session.err_text.getvalue()) == is_cut


def test_what_is_asked_of_the_record_is_what_was_typed() -> None:
    session = session_with({"/debug/log": {"items": []}})
    run(log, session, about="queue/q", reason="OverQuotaMax", since="2026-11-01T08:00:00Z", limit=7)
    [(_, query)] = session.source.asked
    since = dict(query).pop("since")
    assert query[:2] == (("queue", "q"), ("reason", "OverQuotaMax"))
    assert query[3] == ("limit", "7")
    assert since == "2026-11-01T08:00:00Z"
    assert session.err_text.getvalue() == "note: nothing of this is recorded\n"


@pytest.mark.parametrize(
    ("about", "want"),
    [
        pytest.param("gone", "default/gone", id="a unit that is gone"),
        pytest.param("unit/gone", "default/gone", id="the same with its word"),
    ],
)
def test_a_unit_that_is_gone_is_in_the_record(about: str, want: str) -> None:
    session = session_with({"/debug/log": {"items": []}})
    run(log, session, about=about, reason=None, since=None, limit=7)
    assert dict(session.source.asked[0][1])["unit"] == want


def test_a_job_that_is_gone_has_no_unit_to_ask_for() -> None:
    session = session_with({"/debug/log": {"items": []}})
    with pytest.raises(CommandError, match="belongs to job/gone"):
        run(log, session, about="job/gone", reason=None, since=None, limit=7)


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(
            CommandError("nothing is recorded"),
            "The record is kept where insight.enabled of the chart is on: docs/record.md.",
            id="the record is off",
        ),
        pytest.param(NotServed("nobody answers", "Do this."), "Do this.", id="nobody answers"),
        pytest.param(Refused("you may not"), "", id="no right"),
        pytest.param(CommandError("it is down", "Look."), "Look.", id="another failure"),
    ],
)
def test_without_a_record_the_next_step_is_said(error: CommandError, want: str) -> None:
    with pytest.raises(CommandError) as failure:
        run(log, session_with({"/debug/log": error}), **ANY, limit=7)
    assert (failure.value.message, failure.value.next_step) == (error.message, want)
