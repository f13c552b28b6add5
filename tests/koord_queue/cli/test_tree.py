"""The command tree: what it says where quotas are missing or wrong."""

from __future__ import annotations

from typing import Final

import pytest

from koord_queue.cli.tree import tree
from koord_queue.errors import CommandError
from koord_queue.reach.errors import NotServed, Refused
from tests.koord_queue.cli.played_answers import run, session_with

QUOTA: Final = {"name": "team", "max": {"cpu": "4"}, "used": {"cpu": "3"}}
ALL: Final = {"quota": None, "resource": None}


def test_a_tree_without_quotas_says_so() -> None:
    session = session_with({"/debug/quotas": {"items": []}})
    assert run(tree, session, **ALL) == []
    assert session.err_text.getvalue() == "note: there is no quota\n"
    session = session_with({"/debug/quotas": {"items": [QUOTA]}})
    assert run(tree, session, quota=None, resource="gpu") == []
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
