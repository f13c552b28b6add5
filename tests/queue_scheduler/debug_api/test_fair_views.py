"""Who has used how much of a queue with the policy Fair: to whom which rows are shown."""

from __future__ import annotations

import pytest

from queue_scheduler.debug_api import fair_views
from queue_scheduler.debug_api.app import build_app
from queue_scheduler.debug_api.fair_views import FairAccountsView, view_fair_accounts
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.access import open_access
from shared_api.objects.queue import FairShare, FairWeight
from tests.fair_team import HOUR, FairTeam
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served


@pytest.fixture
def team() -> FairTeam:
    """Return a queue that ann has used from two namespaces, and bob from one."""
    team = FairTeam(FairShare(minimum_charge="0s"))
    team.use("ann", 45, HOUR, namespace="red")
    team.use("ann", 45, HOUR, namespace="blue")
    team.use("bob", 20, HOUR, namespace="red")
    return team


def accounts(team: FairTeam) -> FairAccountsView:
    found = view_fair_accounts(team.engine, "q", 0)
    assert found is not None
    return found


def test_rows_are_shown_to_whoever_may_read_all_that_is_in_them(team: FairTeam) -> None:
    def names(*readable: str) -> tuple[list[str], int, int]:
        shown = hide(accounts(team), readable.__contains__)
        return [each.name for each in shown.items], shown.others, shown.total

    assert names("red", "blue") == (["ann", "bob"], 0, 2)
    assert names("red") == (["bob"], 1, 2)
    assert names("blue") == ([], 2, 2)


def test_a_row_says_how_much_of_which_share_is_used(team: FairTeam) -> None:
    weights = (FairWeight(users=("bob",), weight=0),)
    team.put_queue("Fair", FairShare(minimum_charge="0s", weights=weights))
    bob, ann = accounts(team).items
    assert (bob.level, bob.name, bob.group, bob.weight, bob.times_share) == (
        "user", "bob", "", 0, None,
    )  # fmt: skip
    assert (ann.weight, ann.pending, ann.running) == (1, 0, 0)
    assert ann.times_share is not None


def test_what_is_beyond_the_bound_is_counted(
    team: FairTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_views, "MOST_ACCOUNTS", 1)
    found = accounts(team)
    assert ([each.name for each in found.items], found.others, found.total) == (["ann"], 1, 2)
    assert hide(found, lambda _: False).others == 2


def test_the_answer_about_a_queue_has_them(kit: ShellKit) -> None:
    state = StateAnswers(kit.shared, lambda: True, kit.clock.now)
    kit.add_queue("fair", "Fair")
    with served(build_app(state, open_access, (), "0.0.0")) as client:
        fair, other = (client.get(f"/debug/queues/{name}").json() for name in ("fair", "team"))
    assert fair["accounts"] == {"total": 0, "items": [], "others": 0}
    assert other["accounts"] is None
