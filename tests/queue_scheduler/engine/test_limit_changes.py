"""Limits of users and groups in an engine: who starts, who waits for what, and who is not held."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Dequeue, Growth, Reason, Refusal, Refused
from queue_scheduler.engine import limit_changes
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import AccountKey
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.queueing.queue_questions import refusals_by_order
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.refusal_texts import full_message
from queue_scheduler.tenants.limit_rules import LimitRule
from shared_api.well_known_labels import GROUP, USER
from tests.properties.engine_kit import (
    Workers,
    admitted,
    build_queue,
    build_quota,
    build_unit,
    changed,
    started,
)


def rule(who: str, cpu: int | None = None, **fields: Any) -> LimitRule:
    """Return the rule of a user, "*" for all others, or "group NAME", in whole cores."""
    kind, _, name = who.rpartition(" ")
    named = frozenset[str]() if name == "*" else frozenset({name})
    most = {} if cpu is None else {"cpu": 1000 * cpu}
    whose: dict[str, Any] = {"groups" if kind else "users": named}
    return LimitRule(**whose, max=most, policy="teams", **fields)


class Team:
    """A queue for two quotas below one, and the units of their users."""

    def __init__(self, policy: str = "Priority", cpu: int = 100) -> None:
        quotas = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX))
        self.engine = Engine(PluginRunner([quotas, Priority()]), BUILT_IN_POLICIES)
        self.workers = Workers(self.engine)
        self.engine.on_quota(build_quota("top", cpu=cpu))
        for name in ("vision", "speech"):
            self.engine.on_quota(build_quota(name, cpu=1000, parent="top"))
        self.workers.wake(self.engine.on_queue(build_queue("q", policy, takes="*")))
        self.count = 0
        self.running: dict[str, Dequeue] = {}

    def limit(self, quota: str, *rules: LimitRule) -> list[str]:
        self.workers.wake(self.engine.limit_rules.set_rules({quota: rules}))
        return self.rest()

    def go_on(self, slices: int) -> None:
        """Do so many slices of a change."""
        for _ in range(slices):
            self.workers.wake(self.engine.go_on_with_limits())
            self.engine.validate()

    def ask(self, user: str, cpu: int, quota: str = "vision", **fields: Any) -> str:
        """Create a unit; return its name."""
        self.count += 1
        name = f"{user}{self.count}"
        labels = {USER: user, **fields.pop("labels", {})}
        unit = build_unit(
            name, quota, queue="q", created=self.count, labels=labels, cpu=cpu, **fields
        )
        self.workers.wake(self.engine.on_queue_unit(unit))
        return name

    def rest(self) -> list[str]:
        """Return which units start now."""
        self.workers.decided.clear()
        decided = self.workers.run()
        for each in decided:
            if isinstance(each, Dequeue):
                record = self.engine.record(each.unit)
                assert record is not None
                written = admitted(record.unit, self.next_version(), grants=each.grants)
                self.engine.on_written(each, written)
        return started(decided)

    def next_version(self) -> int:
        self.count += 1
        return self.count

    def end(self, name: str) -> list[str]:
        record = self.engine.record(f"ns/{name}")
        assert record is not None
        ended = changed(record.unit, self.next_version(), "Succeed", admissions=())
        self.workers.wake(self.engine.on_queue_unit(ended))
        return self.rest()

    def why(self, name: str) -> Refusal:
        refusal = refusal_of_unit(self.engine, f"ns/{name}")
        assert refusal is not None, name
        return refusal


def numbers(refusal: Refusal) -> tuple[str, str, int, int, int, int]:
    amounts = (refusal.limit, refusal.used, refusal.requested, refusal.missing)
    whole = [amount // 1000 for amount in amounts]
    return (refusal.reason.value, refusal.quota, whole[0], whole[1], whole[2], whole[3])


def test_user_limits() -> None:
    team = Team()
    team.limit("top", rule("ann", 8), rule("*", 4))
    team.ask("ann", 6)
    team.ask("bob", 3)
    team.ask("bob", 1, "speech")
    assert team.rest() == ["ann1", "bob2", "bob3"]
    ann, bob = team.ask("ann", 3), team.ask("bob", 1)
    assert team.rest() == []
    assert numbers(team.why(ann)) == ("UserLimit", "top", 8, 6, 3, 1)
    assert numbers(team.why(bob)) == ("UserLimit", "top", 4, 4, 1, 1)
    assert full_message(team.why(bob)) == (
        "needs more cpu than user bob may have in quota top (QuotaPolicy teams, userLimits 0): "
        "missing 1 (limit 4, used 4, requested 1)"
    )
    assert team.end("bob3") == [bob]


class TestWhatCounts:
    def test_the_members_of_a_group_together(self) -> None:
        team, interns = Team(), {GROUP: "interns"}
        team.limit("vision", rule("group interns", 4))
        team.ask("ann", 3, labels=interns)
        bob = team.ask("bob", 2, labels=interns)
        team.ask("bob", 2)
        assert team.rest() == ["ann1", "bob3"]
        assert team.why(bob).other == "group interns"
        assert team.end("ann1") == [bob]

    def test_running_units(self) -> None:
        team = Team()
        team.limit("vision", rule("*", running=1))
        team.ask("ann", 1)
        waits = team.ask("ann", 1)
        team.ask("bob", 1)
        assert team.rest() == ["ann1", "bob3"]
        assert (team.why(waits).limit, team.why(waits).resource) == (1, "running units")
        assert team.end("ann1") == [waits]

    def test_nothing_that_is_not_asked_for(self) -> None:
        team = Team()
        team.ask("ann", 5)
        assert team.rest() == ["ann1"]
        team.limit("vision", rule("ann", 2))
        name = team.ask("ann", 0)
        assert team.rest() == [name]

    def test_every_level_of_the_chain(self) -> None:
        team = Team()
        team.limit("top", rule("ann", 4))
        team.limit("vision", rule("ann", 3))
        first, second = team.ask("ann", 4), team.ask("ann", 2, "speech")
        assert team.rest() == [second]
        assert team.why(first).quota == "vision"
        (found,) = team.engine.plugins.own
        record = team.engine.record(f"ns/{first}")
        assert record is not None
        assert record.info is not None
        assert [each.quota for each in found.every_refusal(record.info)] == ["vision", "top"]


@pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
class TestItHoldsBackNobody:
    def test_behind_it(self, policy: str) -> None:
        team = Team(policy)
        team.limit("vision", rule("ann", 2))
        over, bob = team.ask("ann", 3), team.ask("bob", 3)
        assert team.rest() == [bob]
        assert team.why(over).reason is Reason.USER_LIMIT
        assert "never starts as it is" in full_message(team.why(over))

    def test_once_it_is_over_while_it_waits_for_the_quota(self, policy: str) -> None:
        team = Team(policy)
        team.limit("top", rule("ann", 4))
        team.engine.on_quota(build_quota("vision", cpu=4, parent="top"))
        assert [team.ask("eve", 2), *team.rest()] == ["eve1", "eve1"]
        ann, bob = team.ask("ann", 3), team.ask("bob", 1)
        team.rest()
        assert team.why(ann).reason is Reason.OVER_QUOTA_MAX
        other = team.ask("ann", 2, "speech")
        team.rest()
        assert team.why(ann).reason is Reason.USER_LIMIT, "by her other unit"
        for name in (bob, other):
            assert team.engine.units.records[f"ns/{name}"].occupies, name


class TestPending:
    def on_hold(self, team: Team, *names: str) -> list[str]:
        records = team.engine.units.records
        return [name for name in names if records[f"ns/{name}"].hold is not None]

    def test_beyond_the_limit_the_oldest_come_in_first(self) -> None:
        team = Team(cpu=1)
        team.limit("top", rule("ann", pending=1))
        names = [team.ask("ann", 1) for _ in range(4)]
        team.ask("bob", 1)
        assert team.rest() == [names[0]]
        assert self.on_hold(team, *names) == names[2:]
        hold = team.engine.units.records[f"ns/{names[2]}"].hold
        assert hold is not None
        assert full_message(hold) == (
            "is on hold until fewer units of user ann are pending in quota top "
            "(QuotaPolicy teams, userLimits 0): missing 1 (limit 1, used 1, requested 1)"
        )
        assert team.end(names[0]) == [names[1]]
        assert self.on_hold(team, *names) == names[3:]

    def test_an_older_one_takes_the_place_of_a_younger(self) -> None:
        team = Team(cpu=1)
        team.limit("top", rule("*", pending=1))
        first = team.ask("ann", 1)
        assert team.rest() == [first]
        young = team.ask("ann", 1)
        old = build_unit("old", "speech", queue="q", created=0, labels={USER: "ann"})
        team.engine.on_queue_unit(old)
        assert self.on_hold(team, young, "old") == [young]
        team.limit("top")
        assert self.on_hold(team, young, "old") == []

    def test_a_seat_that_one_level_denies_is_free_at_the_other(self) -> None:
        team = Team(cpu=1)
        team.limit("top", rule("ann", pending=2))
        team.limit("vision", rule("ann", pending=1))
        assert [team.ask("eve", 1), *team.rest()] == ["eve1", "eve1"]
        first, second, third = team.ask("ann", 1), team.ask("ann", 1), team.ask("ann", 1, "speech")
        assert self.on_hold(team, first, second, third) == [second]


class TestPartialAdmission:
    def test_as_many_pods_start_as_the_limit_lets_in(self) -> None:
        team = Team()
        team.limit("vision", rule("ann", 5))
        name = team.ask("ann", 0, pods=(("main", 8, 1, 2),))
        assert team.rest() == [name]
        charge = team.engine.usage.charge_of(team.engine.units.records[f"ns/{name}"].uid)
        assert charge is not None
        assert charge.amounts == {"cpu": 5000}

    def test_it_waits_for_the_room_of_its_least(self) -> None:
        team = Team()
        team.limit("vision", rule("ann", 5))
        first = team.ask("ann", 4)
        assert team.rest() == [first]
        name = team.ask("ann", 0, pods=(("main", 8, 1, 2),))
        assert team.rest() == []
        assert team.why(name).is_least
        assert team.end(first) == [name]


def test_a_running_unit_grows_within_the_limit() -> None:
    team = Team()
    team.limit("vision", rule("ann", 3))
    name = team.ask("ann", 0, pods=(("main", 2, 1),))
    assert team.rest() == [name]
    record = team.engine.units.records[f"ns/{name}"]
    (pod_set,) = record.unit.spec.pod_set

    def wants(count: int) -> Growth | Refusal | None:
        spec = replace(record.unit.spec, pod_set=(replace(pod_set, count=count),))
        grown = changed(replace(record.unit, spec=spec), team.next_version())
        team.engine.on_queue_unit(grown)
        return team.engine.grow(record.key)

    refusal = wants(5)
    assert isinstance(refusal, Refusal)
    assert numbers(refusal) == ("UserLimit", "vision", 3, 0, 5, 2)
    assert isinstance(wants(3), Growth)
    team.engine.validate()


class TestSharedRefusals:
    """A refusal by a filter stands for all accounts."""

    USERS = tuple(f"u{n:02}-" for n in range(30))

    def full(self, *rules: LimitRule) -> Team:
        team = Team(cpu=2)
        team.limit("top", *rules)
        first = team.ask("eve", 2)
        assert team.rest() == [first]
        for user in self.USERS:
            team.ask(user, 2)
        return team

    def test_many_users_of_one_shape_are_asked_once(self) -> None:
        team = self.full(rule("*", 50))
        team.rest()
        assert [type(each) for each in team.workers.decided] == [Refused]
        assert {team.why(f"{user}{n + 3}").reason for n, user in enumerate(self.USERS)} == {
            Reason.OVER_PARENT_MAX
        }

    def test_one_wake_asks_one_of_them_and_starts_one(self) -> None:
        team = self.full(rule("*", 50))
        team.rest()
        assert team.end("eve1") == ["u00-3"]
        kinds = [type(each).__name__ for each in team.workers.decided]
        assert kinds == ["Dequeue", "Refused"]

    def test_who_is_over_a_limit_sleeps_alone(self) -> None:
        team = self.full(rule("u00-", 1), rule("*", 50))
        team.rest()
        reasons = [team.why(f"{user}{n + 3}").reason for n, user in enumerate(self.USERS)]
        assert reasons == [Reason.USER_LIMIT, *[Reason.OVER_PARENT_MAX] * 29]
        assert team.end("eve1") == ["u01-4"]


class TestRules:
    def test_an_account_is_in_the_key_only_where_a_rule_concerns_it(self) -> None:
        team = Team()
        names = [team.ask("ann", 200), team.ask("bob", 200), team.ask("ann", 200, "speech")]

        def with_account() -> list[bool]:
            infos = [team.engine.units.records[f"ns/{name}"].info for name in names]
            return [isinstance(each and each.class_key, AccountKey) for each in infos]

        assert with_account() == [False, False, False]
        team.limit("vision", rule("ann", 8))
        assert with_account() == [True, False, False]
        team.limit("top", rule("*", 8))
        assert with_account() == [True, True, True]
        team.limit("top")
        team.limit("vision")
        assert with_account() == [False, False, False]
        assert team.engine.plugins.own == ()

    def test_a_rule_that_goes_lets_those_start_who_waited_for_it(self) -> None:
        team = Team()
        team.limit("vision", rule("ann", 1))
        ann = team.ask("ann", 2)
        assert team.rest() == []
        assert team.limit("vision", rule("ann", 1)) == [], "the same rule again"
        assert team.limit("vision") == [ann]

    def test_it_counts_again_when_a_quota_moves(self) -> None:
        team = Team()
        team.limit("top", rule("ann", 4))
        team.ask("ann", 4, "speech")
        assert team.rest() == ["ann1"]
        ann = team.ask("ann", 1)
        assert team.rest() == []
        team.workers.wake(team.engine.on_quota(build_quota("speech", cpu=100)))
        assert team.rest() == [ann]

    def test_a_fork_has_its_own_sums(self) -> None:
        team = Team()
        team.limit("vision", rule("ann", 2))
        first, second = team.ask("ann", 2), team.ask("ann", 2)
        assert team.rest() == [first]
        twin = team.engine.fork()
        record = twin.record(f"ns/{first}")
        assert record is not None
        woken = twin.on_queue_unit(changed(record.unit, 99, "Succeed", admissions=()))
        workers = Workers(twin)
        workers.wake(woken)
        assert started(workers.run()) == [second]
        twin.validate()
        team.engine.validate()
        assert team.why(second).reason is Reason.USER_LIMIT


class TestAChangeInSlices:
    def test_the_rules_before_count_until_all_charges_are_counted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limit_changes, "COUNTED", 1)
        team = Team()
        team.limit("top", rule("ann", 2))
        team.ask("ann", 1)
        team.ask("bob", 1)
        assert team.rest() == ["ann1", "bob2"]
        changes = team.engine.limit_rules
        team.workers.wake(changes.set_rules({"top": (rule("*", 1),)}, in_slices=True))
        team.go_on(2)  # begin, and count one of two
        refused, starts = team.ask("ann", 2), team.ask("bob", 1)
        assert team.rest() == [starts], "as by the rules before"
        assert numbers(team.why(refused)) == ("UserLimit", "top", 2, 1, 2, 1)
        team.go_on(1)
        late = team.ask("eve", 2)
        assert team.rest() == []
        assert numbers(team.why(late)) == ("UserLimit", "top", 1, 0, 2, 1)

    def test_a_unit_is_placed_by_the_new_rules_before_it_is_decided(self) -> None:
        team = Team(cpu=4)
        team.ask("eve", 4)
        assert team.rest() == ["eve1"]
        names = [team.ask("ann", 3), team.ask("ann", 3), team.ask("bob", 1)]
        team.rest()
        changes = team.engine.limit_rules
        team.workers.wake(changes.set_rules({"top": (rule("ann", 2),)}, in_slices=True))
        team.go_on(2)
        assert team.end("eve1") == [names[2]], "ann may have 2"
        assert team.why(names[0]).reason is Reason.USER_LIMIT
        states = [changes.is_behind]
        team.go_on(9)
        assert [*states, changes.is_behind] == [True, False], "slices that change nothing more"
        assert team.rest() == []

    def test_a_fork_goes_on_by_itself(self) -> None:
        team = Team()
        team.ask("ann", 3)
        changes = team.engine.limit_rules
        changes.set_rules({"top": (rule("ann", 2),)}, in_slices=True)
        twin = team.engine.fork()
        while twin.limit_rules.is_behind:
            twin.go_on_with_limits()
        twin.validate()
        assert twin.usage.limits.rules
        assert not team.engine.usage.limits.rules


def test_questions_do_not_change_what_a_change_of_quotas_does() -> None:
    """An engine that is told the same calls, and asked nothing, decides the same."""
    team = Team()
    team.ask("ann", 1)
    team.ask("bob", 1)
    assert team.rest() == ["ann1", "bob2"]
    changes = team.engine.limit_rules
    changes.set_rules({"top": (rule("*", 9),)}, in_slices=True)
    twin = team.engine.fork()
    team.engine.validate()
    for charge in list(team.engine.usage.charges.values()):
        team.engine.usage.limits.why_not_grow(charge, {"cpu": 99_000})
    for engine in (team.engine, twin):
        engine.go_on_with_limits()
        engine.on_quota(build_quota("vision", cpu=1000))
    assert changes.is_behind == twin.limit_rules.is_behind
    assert changes.is_behind


def test_a_chain_that_changes_right_after_numbers_did_is_followed() -> None:
    team = Team()
    team.limit("top", rule("ann", 8))
    team.ask("ann", 6)
    assert team.rest() == ["ann1"]
    team.limit("top", rule("ann", 9))
    team.engine.on_quota(build_quota("vision", cpu=1000))
    team.engine.validate()
    assert list(team.engine.usage.limits.sums.in_quota("top")) == []


def test_a_quota_far_above_that_gets_limits_later_is_noticed() -> None:
    team = Team()
    team.engine.on_quota(build_quota("org", cpu=1000))
    name = team.ask("ann", 500)
    team.limit("org", rule("ann", 2))
    team.engine.on_quota(build_quota("top", cpu=900, parent="org"))
    team.engine.validate()
    team.workers.wake(["q"])
    team.rest()
    assert team.why(name).reason is Reason.USER_LIMIT


def test_a_unit_of_a_later_band_is_behind_nobody_where_all_stand_aside() -> None:
    team = Team("Intelligent")
    team.limit("top", rule("ann", 1))
    name = team.ask("ann", 3, priority=0)
    assert team.rest() == []
    record = team.engine.record(f"ns/{name}")
    assert record is not None
    assert record.info is not None
    queue = team.engine.queues.find("q")
    assert queue is not None
    assert list(refusals_by_order(queue, record.info)) == []
    assert team.why(name).reason is Reason.USER_LIMIT
