"""The command top: what it counts, and how it draws."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from koord_queue.cli.top import top
from tests.koord_queue.cli.played_answers import run, session_with

QUOTA: Final = {"name": "team", "max": {"cpu": "4"}, "used": {"cpu": "3"}}
QUEUES: Final = [
    {"name": "team", "quotas": ["team"], "pending": 3, "admitted": 1},
    {"name": "both", "quotas": ["other", "third"], "pending": 9},
]


def test_counts_of_units_are_shown_where_a_quota_has_its_queue_alone() -> None:
    quotas = [QUOTA, QUOTA | {"name": "other"}]
    routes = {"/debug/quotas": {"items": quotas}, "/debug/queues": {"items": QUEUES}}
    got = run(top, session_with(routes), what="quotas", resource=None, watch=False)
    assert [line.split() for line in got[1:]] == [
        ["other", "75%", "cpu", "3", "4", "-", "-"],
        ["team", "75%", "cpu", "3", "4", "3", "1"],
    ]
    session = session_with(routes)
    run(top, session, what="quotas", resource=None, watch=False, form="json")
    found = json.loads(session.out_text.getvalue())["quotas"]
    assert [(each["quota"], each.get("pending", "?")) for each in found] == [
        ("other", "?"),
        ("team", 3),
    ]


def test_all_pages_of_queues_are_counted() -> None:
    def page(query: dict[str, str]) -> dict[str, Any]:
        first = query["offset"] == "0"
        return {"items": [{"quotas": ["team"], "pending": 1}] * (1000 if first else 1)}

    routes = {"/debug/quotas": {"items": [QUOTA]}, "/debug/queues": page}
    got = run(top, session_with(routes), what="quotas", resource=None, watch=False)
    assert got[1].split()[5] == "1001"


def test_top_is_drawn_again_until_it_is_interrupted() -> None:
    session = session_with({"/debug/quotas": {"items": [QUOTA]}}, is_terminal=True)
    rests = iter([None, KeyboardInterrupt()])

    def meanwhile() -> None:
        error = next(rests)
        if error is not None:
            raise error

    session.clock.meanwhile = meanwhile
    with pytest.raises(KeyboardInterrupt):
        run(top, session, what="quotas", resource=None, watch=True)
    assert session.out_text.getvalue().count("\x1b[H\x1b[J") == 2
