"""Queues with the policy Fair, in virtual time: who is next, and how much each gets."""

from __future__ import annotations

from collections import Counter

import pytest

from queue_scheduler.decision import Dequeue, WriteFailure
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.queueing.class_queue import SLACK
from shared_api.objects.queue import FairShare, FairWeight
from shared_api.objects.quota_policy import UserLimit
from shared_api.well_known_labels import BACKFILL
from tests.fair_team import HOUR, FairTeam
from tests.properties.engine_kit import build_policy, build_quota, started

WEEK = 168 * HOUR


def weight(of: int, *, users: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> FairWeight:
    return FairWeight(users=users, groups=groups, weight=of)


def hours_each(
    users: list[str], jobs: int, fair_share: FairShare | None = None, *, backlog: int = 2
) -> tuple[Counter[str], str]:
    """Let hour-long jobs that take all run one after the other; return hours, and the sequence."""
    team, running = FairTeam(fair_share, cpu=8, validates=False), ""
    for user in users * backlog:
        team.ask(user, 8)
    hours, sequence = Counter[str](), ""
    for _ in range(jobs):
        (running,) = team.rest()
        user = running.rstrip("0123456789")
        hours[user] += 1
        sequence += user[0]
        team.ask(user, 8)
        team.pass_time(HOUR)
        team.end(running)
    return hours, sequence


class TestHowMuchEachGets:
    def test_two_users_alternate(self) -> None:
        hours, sequence = hours_each(["ann", "bob"], 720)
        assert hours == {"ann": 360, "bob": 360}
        assert sequence == "ab" * 360

    def test_by_weight(self) -> None:
        fair_share = FairShare(weights=(weight(3, users=("ann",)),))
        hours, _ = hours_each(["ann", "bob"], 720, fair_share)
        assert abs(hours["ann"] - 540) <= 540 * 0.05
        assert abs(hours["bob"] - 180) <= 180 * 0.05

    def test_fifty_users(self) -> None:
        users = [f"{letter}{other}" for letter in "abcdefghij" for other in "vwxyz"]
        hours, _ = hours_each(users, 720)
        assert len(hours) == 50
        assert max(hours.values()) - min(hours.values()) <= 1

    def test_weight_zero_is_last(self) -> None:
        fair_share = FairShare(weights=(weight(0, users=("ann",)),))
        team = FairTeam(fair_share, cpu=1)
        ann, bob = team.ask("ann"), team.ask("bob")
        assert team.rest() == [bob]
        team.pass_time(WEEK)
        more = team.ask("bob")
        team.end(bob)
        assert team.rest() == [more]
        team.end(more)
        assert team.rest() == [ann]


class TestOrder:
    def test_half_life(self) -> None:
        """Ann has 8 for a week, then Bob 4 for the next: both count the same, but for a second."""
        for more, want in ((-1, ["bob", "ann"]), (1, ["ann", "bob"])):
            team = FairTeam(FairShare(minimum_charge="0s"), cpu=8)
            team.use("ann", 8, WEEK)
            team.use("bob", 4, WEEK + more)
            blocker = team.ask("eve", 8)
            assert team.rest() == [blocker]
            ann, bob = team.ask("ann", 8), team.ask("bob", 8)
            names = {"ann": ann, "bob": bob}
            assert team.order() == [names[user] for user in want]

    @pytest.mark.parametrize(
        ("levels", "weights", "want"),
        [
            pytest.param((), (), ["bob", "eve", "ann"], id="flat"),
            pytest.param(("group", "user"), (), ["eve", "bob", "ann"], id="groups"),
            pytest.param(
                ("group", "user"),
                (weight(2, groups=("vision",)),),
                ["bob", "ann", "eve"],
                id="vision weighs 2",
            ),
        ],
    )
    def test_fair_tree(
        self, levels: tuple[str, ...], weights: tuple[FairWeight, ...], want: list[str]
    ) -> None:
        team = FairTeam(FairShare(levels=levels, weights=weights))
        team.use("ann", 60, HOUR, group="vision")
        team.use("eve", 50, HOUR, quota="speech", group="speech")
        team.ask("zoe", 100)
        team.rest()
        team.ask("ann", name="ann", group="vision")
        team.ask("bob", name="bob", group="vision")
        team.ask("eve", name="eve", quota="speech", group="speech")
        assert team.order() == want

    def test_priority_counts_within_an_account(self) -> None:
        team = FairTeam(cpu=1)
        team.use("ann", 1, HOUR)
        team.ask("eve")
        team.rest()
        low, high = team.ask("ann"), team.ask("ann", priority=9)
        bob = team.ask("bob")
        assert team.order() == [bob, high, low]

    def test_priority_may_come_first(self) -> None:
        team = FairTeam(FairShare(priority="First"), cpu=1)
        team.use("ann", 1, HOUR)
        team.ask("eve")
        team.rest()
        low, high = team.ask("ann"), team.ask("ann", priority=9)
        bob, urgent = team.ask("bob"), team.ask("bob", priority=9)
        assert team.order() == [urgent, high, bob, low]

    def test_accounts_without_use_are_in_order_of_creation(self) -> None:
        team = FairTeam(cpu=1)
        team.ask("eve")
        team.rest()
        asked = [team.ask(user) for user in ("bob", "ann", "bob", "ann")]
        assert team.order() == asked

    def test_namespaces(self) -> None:
        team = FairTeam(FairShare(levels=("namespace",)), cpu=1)
        team.use("ann", 1, HOUR)
        team.ask("eve")
        team.rest()
        here = team.ask("bob")
        there = team.ask("ann", namespace="other")
        assert team.order() == [there, here]


class TestBursts:
    def test_a_start_counts_at_once(self) -> None:
        team = FairTeam(cpu=4)
        for user in ("ann", "ann", "ann", "ann", "bob", "bob"):
            team.ask(user)
        assert team.rest() == ["ann1", "bob5", "ann2", "bob6"]

    def test_short_jobs(self) -> None:
        """A thousand jobs of a second count a minute each: as one of 60,000 seconds."""
        team = FairTeam(FairShare(half_life="87600h"), cpu=2, validates=False)
        for _ in range(1_000):
            team.use("ann", 1, 1)
        accounts = team.engine.usage.fair.of_queue("q")
        assert accounts is not None
        used = accounts.use_of(("ann",), 0)
        team.use("bob", 1, 60_000)
        other = accounts.use_of(("bob",), 0)
        assert abs(used.decayed(0, 1) / other.decayed(0, 1) - 1) < 0.01

    def test_a_start_that_is_not_written_does_not_count(self) -> None:
        team = FairTeam(cpu=1)
        team.ask("ann")
        team.ask("ann")
        (decision,) = (d for d in team.workers.run() if isinstance(d, Dequeue))
        bob = team.ask("bob")
        assert team.order() == [bob, "ann2"]
        team.workers.wake(team.engine.on_write_failed(decision, WriteFailure.REJECTED))
        team.engine.validate()
        assert started(team.workers.run()) == ["ann1"]

    def test_places_before_and_after_it_are_not_compared(self) -> None:
        """Use becomes smaller, and indexes of waiters rely on places that grow."""
        team = FairTeam(cpu=1)
        team.ask("ann")
        team.ask("ann")
        (decision,) = (d for d in team.workers.run() if isinstance(d, Dequeue))
        generation = team.engine.turns.standing_of("q")[1]
        team.workers.wake(team.engine.on_write_failed(decision, WriteFailure.REJECTED))
        assert team.engine.turns.standing_of("q")[1] > generation
        queue = team.engine.queues.find("q")
        assert queue is not None
        assert not queue.pending.refused_in_order(), "all are asked anew"

    def test_an_idle_user_returns(self) -> None:
        team = FairTeam(cpu=8)
        team.use("ann", 8, WEEK)
        running = [team.ask("ann") for _ in range(8)]
        assert team.rest() == running
        later = [team.ask("bob") for _ in range(8)]
        more = [team.ask("ann") for _ in range(8)]
        team.end(running)
        assert team.rest() == later
        team.end(later)
        assert team.rest() == more


def test_a_wide_job_starts_beside_a_stream_of_small_ones() -> None:
    """With backfill it is promised a start; Bob's small jobs, of which he always has some, wait."""
    team = FairTeam(cpu=8, annotations={BACKFILL: "true"})
    running = [team.ask("bob") for _ in range(8)]
    assert team.rest() == running
    wide = team.ask("ann", 8)
    for _ in range(8):
        team.ask("bob")
        team.pass_time(60)
        team.end(running.pop(0))
        assert not running or team.rest() == []
    assert team.rest() == [wide]


class TestSettings:
    def test_other_weights_keep_the_use(self) -> None:
        team = FairTeam(cpu=1)
        team.use("ann", 1, 2 * HOUR)
        team.use("bob", 1, HOUR)
        team.ask("eve")
        team.rest()
        ann, bob = team.ask("ann"), team.ask("bob")
        assert team.order() == [bob, ann]
        team.put_queue("Fair", FairShare(weights=(weight(3, users=("ann",)),)))
        team.rest()
        assert team.order() == [ann, bob]
        team.put_queue("Fair", FairShare(half_life="1h"))
        team.rest()
        assert team.order() == [bob, ann]

    def test_what_runs_counts_once_the_policy_is_fair(self) -> None:
        team = FairTeam(cpu=2, policy="FIFO")
        ann = team.ask("ann")
        assert team.rest() == [ann]
        team.pass_time(HOUR)
        eve = team.ask("eve")
        team.rest()
        more, bob = team.ask("ann"), team.ask("bob")
        assert team.order() == [more, bob]
        team.put_queue("Fair", None)
        team.pass_time(1)
        team.rest()
        assert team.order() == [bob, more]
        team.put_queue("FIFO", None)
        team.rest()
        assert team.order() == [more, bob]
        team.end([ann, eve])
        assert team.rest() == [more, bob]


class TestResources:
    def test_what_weighs_nothing_does_not_count(self) -> None:
        team = FairTeam(FairShare(resource_weights={"example.com/gpu": 1}), cpu=9)
        team.use("ann", 8, HOUR)
        blocker = team.ask("eve", 9)
        assert team.rest() == [blocker]
        assert team.order() == []
        ann, bob = team.ask("ann"), team.ask("bob")
        assert team.order() == [ann, bob]


def test_a_class_that_leaves_while_it_stands_aside_is_forgotten() -> None:
    team = FairTeam(cpu=10)
    policy = build_policy("p", ["vision"], UserLimit(users=("ann",), running=1))
    team.workers.wake(team.engine.on_quota_policy(policy))
    first, second, wide = team.ask("ann"), team.ask("ann", 2), team.ask("bob", 11)
    assert team.rest() == [first]
    team.end(second)
    team.engine.validate()
    assert team.order() == [wide]


def test_units_of_an_account_have_one_lane_as_their_object() -> None:
    team = FairTeam()
    first, second = (team.engine.record(f"ns/{team.ask('ann')}") for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.info is not None
    assert second.info is not None
    assert first.info.order_key[0] is second.info.order_key[0]


def test_lanes_without_units_are_forgotten() -> None:
    """Priorities are what users write, and one account has a lane for each of them."""
    team = FairTeam(FairShare(priority="First"))
    for priority in range(3 * SLACK):
        team.end(team.ask("ann", priority=priority))
    queue = team.engine.queues.find("q")
    assert queue is not None
    assert queue.fair is not None
    assert len(queue.fair.ranks) <= SLACK + 1


def test_a_group_that_is_woken_with_one_of_its_classes_waits_no_more() -> None:
    """A user's limit has room again, and the group of equal demands is asleep for the quota."""
    team = FairTeam(cpu=2)
    team.workers.wake(team.engine.on_quota(build_quota("vision", cpu=1, parent="top")))
    team.use("bob", 1, HOUR)
    policy = build_policy("p", ["top"], UserLimit(users=("ann",), running=1))
    team.workers.wake(team.engine.on_quota_policy(policy))
    runs = team.ask("ann", quota="speech")
    assert team.rest() == [runs]
    limited, eve, bob = team.ask("ann"), team.ask("eve"), team.ask("bob")
    assert team.rest() == [eve]
    assert waiters(team) == 1
    team.end(runs)
    assert waiters(team) == 0
    assert team.rest() == []
    assert team.order() == [limited, bob]


def waiters(team: FairTeam) -> int:
    """Return how many classes and groups the quotas would wake."""
    plugin = team.engine.plugins.waking.waking_in_turn[0]
    assert isinstance(plugin, ElasticQuotaPlugin)
    return len(vars(plugin.quotas)["_waiting"].waiting())
