"""The command tree: what it says where quotas are missing or wrong."""

from __future__ import annotations

from typing import Final

import pytest

from koord_queue.cli.tree import tree
from koord_queue.errors import CommandError
from koord_queue.reach.errors import NotServed, Refused
from tests.koord_queue.cli.played_answers import run, session_with

QUOTA: Final = {"name": "team", "max": {"cpu": "4"}, "used": {"cpu": "3"}}
ALL: Final = {"quota": None, "resource": None, "users": False}
USERS: Final = {**ALL, "users": True}
ANN: Final = {
    "quota": "team",
    "name": "ann",
    "policy": "p",
    "max": {"cpu": "8"},
    "used": {"cpu": "6"},
}


def test_a_tree_without_quotas_says_so() -> None:
    session = session_with({"/debug/quotas": {"items": []}})
    assert run(tree, session, **ALL) == []
    assert session.err_text.getvalue() == "note: there is no quota\n"
    session = session_with({"/debug/quotas": {"items": [QUOTA]}})
    assert run(tree, session, quota=None, resource="gpu", users=False) == []
    assert session.err_text.getvalue() == "note: there is no quota of gpu\n"


def test_what_is_wrong_with_a_quota_is_told_on_a_terminal() -> None:
    bad = QUOTA | {"problems": ["MinOverMax: min is more than max"]}
    session = session_with({"/debug/quotas": {"items": [bad]}}, is_terminal=True)
    run(tree, session, **ALL)
    assert session.err_text.getvalue() == "note: team: MinOverMax: min is more than max\n"


@pytest.mark.parametrize("error", [NotServed("nobody answers"), Refused("you may not")])
def test_without_quotas_of_the_scheduler_those_of_the_objects_are_missed(error: Exception) -> None:
    session = session_with({"/debug/quotas": error})
    with pytest.raises(CommandError, match=f"^{error}; and there are no ElasticQuotas"):
        run(tree, session, **ALL)


def test_limits_of_users_are_of_all_pages() -> None:
    page = {"total": 2, "items": [ANN, ANN | {"quota": "org"}], "others": 3}
    session = session_with({"/debug/user-limits": page})
    lines = run(tree, session, **USERS)
    assert [line.split() for line in lines[1:]] == [
        ["team", "ann", "-", "cpu", "6", "8", "p[0]"],
        ["org", "ann", "-", "cpu", "6", "8", "p[0]"],
    ]
    assert session.err_text.getvalue() == "note: 3 more that you may not read\n"


def test_without_limits_of_users_it_says_so() -> None:
    session = session_with({"/debug/user-limits": {"total": 0, "items": []}})
    assert run(tree, session, **USERS) == []
    said = "note: no user or group has anything that is limited\n"
    assert session.err_text.getvalue() == said
