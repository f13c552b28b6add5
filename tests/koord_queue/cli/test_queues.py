"""The command queues: the shares of one queue."""

from __future__ import annotations

from typing import Any, Final

import pytest

from koord_queue.cli.queues import queues
from koord_queue.errors import CommandError
from tests.koord_queue.cli.played_answers import run, session_with

ANN: Final = {
    "level": "user",
    "name": "ann",
    "group": "vision",
    "weight": 3,
    "timesShare": 1.64,
    "pending": 2,
    "running": 1,
}
SHARES: Final = {"at": None, "dump": None, "of": "team"}


def answered(*items: dict[str, Any], others: int = 0) -> dict[str, Any]:
    accounts = {"total": len(items) + others, "items": items, "others": others}
    return {"/debug/queues/team": {"accounts": accounts}}


def test_shares_of_a_queue() -> None:
    session = session_with(answered(ANN, ANN | {"timesShare": None, "group": ""}, others=3))
    lines = run(queues, session, **SHARES)
    assert [line.split() for line in lines[1:]] == [
        ["user", "ann", "vision", "3", "1.64", "2", "1"],
        ["user", "ann", "-", "3", "-", "2", "1"],
    ]
    said = "note: 3 more that you may not read, or that are in the middle\n"
    assert session.err_text.getvalue() == said


def test_shares_of_another_time_as_a_document() -> None:
    session = session_with(answered(ANN))
    (asked := session.source.asked).clear()
    lines = run(queues, session, **{**SHARES, "at": "2026-11-01T10:00:00Z"}, form="json")
    assert '"timesShare": 1.64,' in "".join(lines)
    assert asked == [("/debug/queues/team", (("limit", "1"), ("at", "2026-11-01T10:00:00Z")))]


def test_without_accounts_it_says_so() -> None:
    session = session_with(answered())
    assert run(queues, session, **SHARES) == []
    said = "note: no account has used anything that you may read\n"
    assert session.err_text.getvalue() == said


def test_a_queue_with_another_policy_has_no_shares() -> None:
    session = session_with({"/debug/queues/team": {"accounts": None}})
    with pytest.raises(CommandError, match="queue team has no shares"):
        run(queues, session, **SHARES)


@pytest.mark.parametrize("more", [{"dump": "a.json.gz"}, {"form": "name"}])
def test_what_shares_cannot_be_asked_with(more: dict[str, str]) -> None:
    with pytest.raises(CommandError, match="do not go together"):
        run(queues, session_with({}), **{**SHARES, **more})
