"""What a user is told who waits behind others' accounts, or behind another queue."""

from __future__ import annotations

import pytest

from queue_insight.insight.explain import explain
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.fair_questions import AccountShare, find_shares
from queue_scheduler.refusal_texts import full_message, stable_message
from queue_scheduler.tenants import fair_use
from queue_scheduler.tenants.ledger import Ledger
from shared_api.objects.queue import FairShare, FairWeight
from shared_api.objects.quota_policy import UserLimit
from shared_api.submitters import namespace_submitter
from shared_api.well_known_labels import STOP_POLICY
from tests.fair_team import HOUR, FairTeam
from tests.properties.engine_kit import WALL, build_policy, build_queue, build_quota, wall_time
from tests.queue_scheduler.tenants.test_quota_use import HALF_LIFE, Teams, build_teams


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


def shares(team: FairTeam, most: int = 9) -> dict[str, AccountShare]:
    found = find_shares(team.engine, "q", most)
    assert found is not None
    return {"/".join(each.path): each for each in found.shares}


def test_share_used_of_all_accounts() -> None:
    team = FairTeam(FairShare(minimum_charge="0s"))
    team.use("ann", 90, HOUR)
    team.use("bob", 20, HOUR)
    blocker = team.ask("ann", 100)
    assert team.rest() == [blocker]
    team.ask("eve", namespace="red")
    team.ask("bob")
    team.ask("bob", namespace="blue")
    found = shares(team)
    assert list(found) == ["ann", "bob", "eve"]
    assert [each.hundredths for each in found.values()] == [164, 36, 0]
    assert [each.pending for each in found.values()] == [0, 2, 1]
    assert [each.running for each in found.values()] == [1, 0, 0]
    assert [each.namespaces for each in found.values()] == [("ns",), ("blue", "ns"), ("red",)]


@pytest.mark.parametrize("half_life", ["1s", "168h", "87600h"])
def test_all_shares_at_once_are_those_of_single_accounts(half_life: str) -> None:
    weights = (FairWeight(users=("bob",), weight=7), FairWeight(users=("zoe",), weight=0))
    team = FairTeam(FairShare(half_life=half_life, weights=weights), cpu=10)
    for user, cpu, seconds in (("ann", 1, 1), ("bob", 9, HOUR), ("eve", 3, 77), ("zoe", 9, 500)):
        team.use(user, cpu, seconds)
    team.ask("eve")
    team.rest()
    team.pass_time(90)
    accounts = team.engine.usage.fair.of_queue("q")
    assert accounts is not None
    second = team.engine.usage.fair.second
    found = shares(team)
    for each in found.values():
        if not each.weight:
            assert each.hundredths is None
            continue
        want = 100 * accounts.share_used(each.path, second)
        assert each.hundredths is not None
        assert abs(each.hundredths - want) <= 0.5, each


def test_groups_and_their_users_have_shares_among_each_other() -> None:
    weights = (FairWeight(groups=("vision",), weight=3),)
    share = FairShare(levels=("group", "user"), weights=weights, half_life="87600h")
    team = FairTeam(share, cpu=10)
    team.use("ann", 10, HOUR, group="vision")
    team.use("bob", 5, HOUR, group="vision", namespace="red")
    team.use("eve", 5, HOUR, group="speech")
    found = shares(team)
    assert {name: each.hundredths for name, each in found.items()} == {
        "vision/ann": 133,
        "speech": 100,
        "speech/eve": 100,
        "vision": 100,
        "vision/bob": 67,
    }
    assert (found["vision"].level, found["vision"].weight) == ("group", 3)
    assert (found["vision/bob"].level, found["vision/bob"].weight) == ("user", 1)
    assert found["vision"].namespaces == ("ns", "red")


def test_of_many_accounts_the_most_and_the_least_are_shown() -> None:
    team = FairTeam(cpu=10)
    for cpu, user in enumerate(("ann", "bob", "eve", "joe", "zoe"), start=1):
        team.use(user, cpu, HOUR)
    found = find_shares(team.engine, "q", 3)
    assert found is not None
    assert found.total == 5
    assert [each.path for each in found.shares] == [("zoe",), ("joe",), ("ann",)]


def test_units_on_hold_are_pending() -> None:
    team = FairTeam(cpu=10)
    policy = build_policy("p", ["top"], UserLimit(users=("*",), pending=1))
    team.engine.on_quota_policy(policy)
    team.ask("ann")
    team.ask("ann", namespace="red")
    assert len(team.order()) == 1
    assert shares(team)["ann"].pending == 2
    assert shares(team)["ann"].namespaces == ("ns", "red")


def test_use_goes_on_where_the_engine_is_not_told_the_time() -> None:
    team = FairTeam(cpu=10)
    team.use("bob", 10, HOUR)
    team.ask("ann")
    team.rest()
    before = shares(team)["ann"].hundredths
    found = find_shares(team.engine, "q", 9, team.engine.usage.fair.second + 40 * HOUR)
    assert found is not None
    (now,) = (each.hundredths for each in found.shares if each.path == ("ann",))
    assert before is not None
    assert now is not None
    assert now > before
    team.engine.validate()


def test_namespaces_are_unknown_of_use_that_was_kept() -> None:
    team = FairTeam(cpu=10)
    team.engine.usage.ledger = Ledger()
    team.pass_time(1)
    team.use("ann", 5, HOUR, namespace="red")
    team.use("bob", 5, HOUR, namespace="blue")
    ledger = team.engine.usage.ledger
    stored = team.engine.usage.fair.stored(team.engine.usage.fair.second)
    assert shares(team)["ann"].namespaces == ("red",)
    kept = fair_use.StoredUses(team.engine.usage.fair.second, stored)
    team.engine.usage.fair.restart((), kept)
    assert shares(team)["ann"].namespaces == ("red",), "the ledger has them"
    ledger.folds = 1
    assert shares(team)["ann"].namespaces == ("",), "some of hers may be in no account of hers"
    team.engine.usage.ledger = None
    assert shares(team)["ann"].namespaces == ("",)


def test_too_many_namespaces_are_not_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_use, "MAX_NAMESPACES", 1)
    team = FairTeam(cpu=10)
    for namespace in ("red", "blue", "green"):
        team.use("ann", 1, HOUR, namespace=namespace)
    assert shares(team)["ann"].namespaces == ("", "red")


def test_the_namespace_of_an_account_that_is_one_is_known() -> None:
    team = FairTeam(FairShare(levels=("namespace",)), cpu=10)
    team.use("ann", 5, HOUR, namespace="red")
    stored = team.engine.usage.fair.stored(team.engine.usage.fair.second)
    team.engine.usage.fair.restart((), fair_use.StoredUses(team.engine.usage.fair.second, stored))
    assert shares(team)["red"].namespaces == ("red",)
    name = namespace_submitter("blue").user
    other = FairTeam(cpu=10)
    other.use("", 5, HOUR, namespace="blue")
    stored = other.engine.usage.fair.stored(other.engine.usage.fair.second)
    other.engine.usage.fair.restart((), fair_use.StoredUses(other.engine.usage.fair.second, stored))
    assert shares(other)[name].namespaces == ("blue",)


def test_another_policy_has_no_shares() -> None:
    assert find_shares(FairTeam(policy="FIFO").engine, "q", 9) is None
    assert find_shares(FairTeam().engine, "other", 9) is None


def behind_queue(teams: Teams, key: str) -> Refusal | None:
    found = explain(teams.engine, key, wall_time(WALL + teams.second))
    assert found is not None
    return next((each for each in found.blockers if each.reason is Reason.BEHIND_QUEUE), None)


def waiting_teams(*, half_life: int | None = HALF_LIFE) -> tuple[Teams, str, str]:
    """Return teams of which a has used 4 cores for an hour and b 1, and what waits of both."""
    teams = Teams(*build_teams(), cpu=5, half_life=half_life)
    teams.ask("a", 4)
    teams.ask("b", 1)
    teams.run()
    teams.pass_time(HOUR)
    waiting = teams.ask("a"), teams.ask("b")
    assert not teams.run()
    return teams, *waiting


def test_how_much_the_quotas_of_both_queues_have_used() -> None:
    teams, of_a, of_b = waiting_teams()
    refusal = behind_queue(teams, of_a)
    assert refusal is not None
    assert full_message(refusal) == (
        "waits behind another queue, whose quota has used less: queue b goes first: its quota has"
        f" used 0.40 times its share, yours 1.60 times ({of_b} is first)"
    )
    assert stable_message(refusal) == full_message(refusal).partition(":")[0]
    assert behind_queue(teams, of_b) is None


def test_without_turns_by_use_no_queue_is_ahead() -> None:
    teams, of_a, _ = waiting_teams(half_life=None)
    assert behind_queue(teams, of_a) is None


@pytest.mark.parametrize(
    ("annotations", "priority"),
    [
        pytest.param({STOP_POLICY: "Hold"}, 0, id="it is stopped"),
        pytest.param({}, -1, id="it comes after whatever has been used"),
        pytest.param({}, 1, id="it comes before whatever has been used"),
    ],
)
def test_which_queue_is_not_ahead_by_use(annotations: dict[str, str], priority: int) -> None:
    teams, of_a, _ = waiting_teams()
    queue = build_queue("b", priority=priority, annotations=annotations)
    teams.workers.wake(teams.engine.on_queue(queue))
    assert behind_queue(teams, of_a) is None


def test_a_queue_without_pending_units_is_not_ahead() -> None:
    teams = Teams(*build_teams(), cpu=1)
    teams.ask("a")
    teams.run()
    assert behind_queue(teams, teams.ask("a")) is None


def test_a_queue_that_competes_for_nothing_is_not_ahead() -> None:
    teams = Teams(*build_teams(), build_quota("alone", cpu=0), cpu=1)
    teams.ask("a")
    teams.run()
    teams.ask("alone")
    assert behind_queue(teams, teams.ask("a")) is None


def test_the_level_that_decides_is_named() -> None:
    above = [build_quota(name, cpu=9, parent="top") for name in ("x", "y")]
    below = [build_quota(name, cpu=9, parent=of) for name, of in (("a", "x"), ("b", "y"))]
    teams = Teams(*above, *below)
    teams.ask("a", 3)
    teams.ask("b", 1)
    teams.run()
    teams.pass_time(HOUR)
    teams.ask("b")
    of_a = teams.ask("a")
    teams.run()
    refusal = behind_queue(teams, of_a)
    assert refusal is not None
    assert refusal.detail == (
        "queue b goes first: quota y has used 0.50 times its share, quota x 1.50 times"
    )
