"""What a user is told who waits behind others' accounts."""

from __future__ import annotations

from queue_insight.insight.explain import explain
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.refusal_texts import full_message, stable_message
from shared_api.objects.queue import FairShare
from tests.fair_team import HOUR, FairTeam


def behind(team: FairTeam, name: str) -> Refusal | None:
    found = explain(team.engine, f"ns/{name}", team.wall_after(0))
    assert found is not None
    return next((each for each in found.blockers if each.reason is Reason.BEHIND_ACCOUNT), None)


def test_how_much_both_have_used() -> None:
    team = FairTeam(FairShare(minimum_charge="0s"))
    team.use("ann", 90, HOUR)
    team.use("bob", 40, HOUR // 2)
    blocker = team.ask("ann", 100)
    assert team.rest() == [blocker]
    ann, bob, later = team.ask("ann"), team.ask("bob"), team.ask("bob")
    assert team.order() == [bob, later, ann]
    refusal = behind(team, ann)
    assert refusal is not None
    assert refusal.other == f"ns/{bob}"
    assert full_message(refusal) == (
        "waits behind units of others, who have used less of its queue: its user has used 1.64"
        f" times the share, the first user 0.36 times (ns/{bob} is first)"
    )
    assert "bob" not in stable_message(refusal)
    assert behind(team, bob) is None
    assert behind(team, later) is None


def test_the_order_follows_what_runs_within_a_minute() -> None:
    team = FairTeam(FairShare(minimum_charge="0s"))
    team.ask("ann", 60)
    team.ask("bob", 40)
    team.rest()
    ann, bob = team.ask("ann", 80), team.ask("bob", 80)
    team.pass_time(10)
    assert team.order() == [ann, bob]
    refusal = behind(team, bob)
    assert refusal is not None
    assert refusal.detail == (
        "its user has used 0.80 times the share, the first user 1.20 times; the order follows"
        " within a minute"
    )
    team.pass_time(50)
    assert team.order() == [bob, ann]
    refusal = behind(team, ann)
    assert refusal is not None
    assert refusal.detail.endswith("the first user 0.80 times")


def test_a_group_is_named_where_groups_differ() -> None:
    team = FairTeam(FairShare(levels=("group", "user")), cpu=10)
    team.use("ann", 5, HOUR, group="vision")
    blocker = team.ask("zoe", 10, group="rest")
    assert team.rest() == [blocker]
    ann = team.ask("ann", group="vision")
    team.ask("bob", group="speech")
    refusal = behind(team, ann)
    assert refusal is not None
    assert refusal.detail.startswith("its group has used")


def test_higher_priority_that_comes_first_is_no_matter_of_accounts() -> None:
    team = FairTeam(FairShare(priority="First"), cpu=1)
    team.ask("zoe")
    team.rest()
    low = team.ask("ann")
    team.ask("bob", priority=1)
    assert behind(team, low) is None


def test_other_policies_have_no_accounts() -> None:
    team = FairTeam(policy="FIFO", cpu=1)
    team.ask("zoe")
    team.rest()
    team.ask("ann")
    assert behind(team, team.ask("bob")) is None
