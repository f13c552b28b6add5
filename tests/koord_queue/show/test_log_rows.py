from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from koord_queue.answers.decoding import decode
from koord_queue.answers.log import Log, LogEntry
from koord_queue.show.log_rows import cells_of

NOW = datetime(2026, 11, 26, 10, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Berlin")


def entry(time: str = "2026-11-26T08:15:30.5Z", **more: object) -> LogEntry:
    return LogEntry(time=time, kind="Refused", unit="a/b", queue="q", **more)  # type: ignore[arg-type] # a table's columns


@pytest.mark.parametrize(
    ("time", "is_terminal", "want"),
    [
        pytest.param("2026-11-26T08:15:30.5Z", True, "09:15:30", id="today"),
        pytest.param("2026-11-24T23:30:00Z", True, "Wed 00:30:00", id="this week"),
        pytest.param("2026-11-19T10:00:00Z", True, "2026-11-19 11:00:00", id="a week ago"),
        pytest.param("2026-11-26T08:15:30.5Z", False, "2026-11-26T09:15:30+01:00", id="in a pipe"),
        pytest.param("soon", True, "soon", id="a time that cannot be read"),
    ],
)
def test_times_are_those_of_the_reader(time: str, is_terminal: bool, want: str) -> None:
    assert cells_of(entry(time), NOW, is_terminal=is_terminal, zone=ZONE)[0] == want


def test_today_is_that_of_the_reader() -> None:
    midnight = datetime(2026, 11, 25, 23, 45, tzinfo=UTC)
    got = cells_of(entry("2026-11-25T23:30:00Z"), midnight, is_terminal=True, zone=ZONE)
    assert got[0] == "00:30:00"


@pytest.mark.parametrize(
    ("got", "want"),
    [
        pytest.param(
            entry(reason="OverQuotaMax", message="needs more"),
            ["OverQuotaMax", "needs more"],
            id="a refusal",
        ),
        pytest.param(
            entry(message="needs more", victims=("a/x", "a/y"), others=2),
            ["", "evicts a/x, a/y and 2 of other namespaces: needs more"],
            id="an eviction",
        ),
        pytest.param(entry(others=1), ["", "evicts 1 of other namespaces"], id="of others alone"),
        pytest.param(entry(), ["", ""], id="an admission"),
    ],
)
def test_a_decision_is_told_in_words(got: LogEntry, want: list[str]) -> None:
    cells = cells_of(got, NOW, is_terminal=False, zone=ZONE)
    assert cells[1:4] == ["a/b", "Refused", "q"]
    assert cells[4:] == want


def test_a_unit_that_may_not_be_seen_has_no_name() -> None:
    page = decode(b'{"items": [{"kind": "Admitted", "unit": "", "number": 3}], "cursor": 3}', Log)
    assert page.cursor == 3
    assert cells_of(page.items[0], NOW, is_terminal=False)[1] == "(another-namespace)"
