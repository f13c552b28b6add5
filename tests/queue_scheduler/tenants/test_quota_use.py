"""What quotas have used above their min, and which queue has its turn by it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.fair_use import StoredUses
from queue_scheduler.tenants.ledger import StoredAccounts
from queue_scheduler.tenants.quota_use import QuotaUse
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.timestamps import rfc3339
from tests.properties.engine_kit import (
    WALL,
    Workers,
    admitted,
    build_queue,
    build_quota,
    build_unit,
    changed,
    started,
    wall_time,
)

HALF_LIFE = 168 * 3600


class Teams:
    """Quotas below one of some cores, each with a queue of its name, in virtual time."""

    def __init__(
        self, *quotas: ElasticQuota, cpu: int = 4, half_life: int | None = HALF_LIFE
    ) -> None:
        plugin = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX))
        self.engine = Engine(PluginRunner([plugin, Priority()]), BUILT_IN_POLICIES)
        if half_life is not None:
            self.engine.queue_state.take_turns_by_use(half_life)
        self.workers = Workers(self.engine)
        self.second = self.count = 0
        self.engine.on_quota(build_quota("top", cpu=cpu))
        for quota in quotas:
            self.engine.on_quota(quota)
            self.workers.wake(self.engine.on_queue(build_queue(quota.metadata.name)))
        self.pass_time(0)

    @property
    def use(self) -> QuotaUse:
        assert self.engine.usage.quota_use is not None
        return self.engine.usage.quota_use

    def pass_time(self, seconds: int) -> None:
        self.second += seconds
        self.workers.wall = WALL + self.second
        self.workers.now += seconds
        self.workers.wake(self.engine.on_time(wall_time(self.workers.wall)))

    def ask(self, quota: str, number: int = 1, cpu: int = 1) -> str:
        """Create units; return the key of the last one."""
        key = ""
        for _ in range(number):
            self.count += 1
            unit = build_unit(f"{quota}-{self.count}", quota, created=self.count, cpu=cpu)
            self.workers.wake(self.engine.on_queue_unit(unit))
            key = unit.metadata.key
        return key

    def run(self) -> list[str]:
        """Return the quotas whose units start now, in order."""
        self.workers.decided.clear()
        decided = self.workers.run()
        for each in decided:
            if isinstance(each, Dequeue):
                record = self.engine.record(each.unit)
                assert record is not None
                self.count += 1
                since = rfc3339(wall_time(WALL + self.second))
                unit = admitted(record.unit, self.count, grants=each.grants)
                unit = changed(unit, self.count, last_allocate_time=since)
                self.workers.wake(self.engine.on_written(each, unit))
        self.engine.validate()
        return [name.partition("-")[0] for name in started(decided)]

    def end(self, quota: str = "", number: int = 99) -> None:
        running = [
            record
            for record in self.engine.units
            if record.state is UnitState.ADMITTED and quota in record.key
        ]
        for record in running[:number]:
            self.count += 1
            unit = changed(record.unit, self.count, "Succeed", admissions=())
            self.workers.wake(self.engine.on_queue_unit(unit))


def build_teams(**least: int) -> list[ElasticQuota]:
    return [
        build_quota(name, cpu=9, guaranteed=least.get(name), parent="top") for name in ("a", "b")
    ]


def test_the_queue_whose_quota_has_used_less_goes_first() -> None:
    teams = Teams(*build_teams())
    teams.ask("a", 4)
    teams.run()
    teams.pass_time(3600)
    teams.end()
    teams.ask("a", 4)
    teams.ask("b", 4)

    assert teams.run() == ["b"] * 4


def test_without_the_setting_they_alternate() -> None:
    teams = Teams(*build_teams(), half_life=None)
    teams.ask("a", 4)
    teams.run()
    teams.pass_time(3600)
    teams.end()
    teams.ask("a", 4)
    teams.ask("b", 4)

    assert sorted(teams.run()) == ["a", "a", "b", "b"]
    assert teams.engine.usage.quota_use is None


def test_many_starts_at_once_are_not_all_of_one_queue() -> None:
    teams = Teams(*build_teams(), cpu=8)
    teams.ask("a", 1)
    teams.run()
    teams.pass_time(1)
    teams.end()
    teams.ask("a", 8)
    teams.ask("b", 8)

    assert sorted(teams.run()) == ["a"] * 4 + ["b"] * 4


def test_what_is_charged_up_to_min_does_not_count() -> None:
    teams = Teams(*build_teams(a=4))
    teams.ask("a", 4)
    teams.run()
    teams.pass_time(3600)

    assert teams.use.ranks("a") == ()


def test_two_teams_of_which_one_was_away_are_level_in_the_end() -> None:
    teams = Teams(*build_teams())
    hours = {"a": 0, "b": 0}
    for hour in range(60):
        teams.ask("a", 4)
        if hour >= 20:
            teams.ask("b", 4)
        for quota in teams.run():
            hours[quota] += 1
        teams.pass_time(3600)
        teams.end()

    second = WALL + teams.second
    uses = [each.use.decayed(second, HALF_LIFE) for each in teams.use.stored(second)]
    a, b, _ = uses  # in the order of their names, "top" comes last
    assert abs(a / b - 1) < Fraction(1, 10)
    assert hours["a"] > hours["b"]  # what was used in the first 20 hours has decayed a little


def test_levels_of_the_tree_are_compared_from_the_top() -> None:
    quotas = [
        build_quota("x", cpu=9, parent="top"),
        build_quota("y", cpu=9, parent="top"),
        *(build_quota(name, cpu=9, parent="x") for name in ("a", "b")),
        build_quota("c", cpu=9, parent="y"),
    ]
    teams = Teams(*quotas, cpu=2)
    teams.ask("a", 2)
    teams.run()
    teams.pass_time(3600)
    teams.end()
    teams.ask("b", 2)
    teams.ask("c", 2)

    # b itself has used nothing, and x, which is above it, more than y.
    assert teams.run() == ["c", "c"]


def test_a_weight_of_three_gets_three_times_as_much() -> None:
    quotas = build_teams()
    spec = quotas[0].spec
    weighted = replace(quotas[0], spec=replace(spec, max=spec.max | {"cpu": 27}))
    teams = Teams(weighted, quotas[1])
    hours = {"a": 0, "b": 0}
    for _ in range(50):
        teams.ask("a", 4)
        teams.ask("b", 4)
        for quota in teams.run():
            hours[quota] += 1
        teams.pass_time(3600)
        teams.end()

    assert abs(hours["a"] - 150) <= 8


def test_a_start_that_is_undone_is_not_counted_twice() -> None:
    use = Teams(*build_teams()).use
    charge = next(iter(running_team().engine.usage.charges.values()))
    use.on_charge(None, charge)
    once = use.ranks("a")
    for _ in range(5):
        use.on_charge(charge, None)
        use.on_charge(None, charge)

    assert use.ranks("a") == once


def running_team() -> Teams:
    teams = Teams(*build_teams())
    teams.ask("a", 4)
    teams.run()
    teams.pass_time(1800)
    return teams


@pytest.mark.parametrize("passed", [0, 30, 1800], ids=["at once", "within a minute", "later"])
def test_what_was_kept_goes_on_after_a_restart(passed: int) -> None:
    teams = running_team()
    teams.ask("b", 1)
    teams.end("a", 1)
    teams.run()
    teams.pass_time(passed)
    second = WALL + teams.second
    want = teams.use.stored(second)
    teams.engine.on_accounts(StoredAccounts(uses=StoredUses(second, want)))

    got = {each.path: each.use.decayed(second, HALF_LIFE) for each in teams.use.stored(second)}
    for each in want:
        use = each.use.decayed(second, HALF_LIFE)
        assert abs(got[each.path] - use) <= use / 10**30


def test_what_started_since_it_was_kept_is_charged_from_its_admission() -> None:
    teams = Teams(*build_teams())
    teams.ask("a", 2)
    teams.run()
    teams.pass_time(1000)
    second = WALL + teams.second
    kept = StoredUses(second, teams.use.stored(second))
    teams.pass_time(50)
    teams.ask("b")
    teams.run()
    teams.pass_time(70)
    second = WALL + teams.second
    want = {each.path: each.use for each in teams.use.stored(second)}
    assert ("b",) in want
    teams.engine.on_accounts(StoredAccounts(uses=kept))

    got = {each.path: each.use for each in teams.use.stored(second)}
    assert got.keys() == want.keys()
    for path, use in want.items():
        assert abs(got[path].part_of(use) - 1) < Fraction(1, 10**30)


def test_another_user_of_a_unit_is_no_rise() -> None:
    teams = running_team()
    before = teams.use.state()
    charge = next(iter(teams.engine.usage.charges.values()))
    other = replace(charge, account=charge.account._replace(user="bob"))
    teams.use.on_charge(charge, other)
    assert teams.use.state() == before


def test_a_unit_that_moves_between_two_quotas_is_no_rise_of_the_one_above() -> None:
    teams = running_team()
    teams.pass_time(120)
    [top, _] = teams.use.ranks("a")
    charge = next(iter(teams.engine.usage.charges.values()))
    teams.use.on_charge(charge, replace(charge, account=charge.account._replace(quota="b")))
    assert teams.use.ranks("b")[0] == top


def test_names_of_quotas_that_do_not_exist_are_forgotten() -> None:
    """Whoever may edit a running unit can name any number of them."""
    teams = running_team()
    charge = next(iter(teams.engine.usage.charges.values()))
    for number in range(9):
        other = replace(charge, account=charge.account._replace(quota=f"made-up-{number}"))
        teams.use.on_charge(charge, other)
        teams.use.on_charge(other, charge)
    known = sorted(teams.use.known())
    assert len(known) > 9
    teams.pass_time(60)
    assert sorted(teams.use.known()) == [each for each in known if not each.startswith("made-up")]


def test_the_use_of_a_deleted_quota_is_forgotten_when_it_has_decayed() -> None:
    teams = running_team()
    teams.pass_time(3600)
    teams.end()
    teams.workers.wake(teams.engine.on_quota_gone(build_quota("a", cpu=9, parent="top")))
    teams.pass_time(9 * HALF_LIFE)
    assert "a" in teams.use.known()
    teams.pass_time(2 * HALF_LIFE)
    assert "a" not in teams.use.known()


def test_a_copy_goes_on_alone() -> None:
    teams = running_team()
    twin = teams.engine.fork()
    state = teams.use.state()
    assert twin.usage.quota_use is not None
    assert twin.usage.quota_use.state() == state
    twin.on_time(wall_time(WALL + teams.second + 7200))

    assert teams.use.state() == state
    assert twin.usage.quota_use.state() != state


def test_a_quota_that_moves_in_the_tree_counts_where_it_is() -> None:
    teams = Teams(*build_teams())
    teams.ask("a", 4)
    teams.run()
    teams.pass_time(3600)
    teams.engine.on_quota(build_quota("other", cpu=9))
    teams.workers.wake(teams.engine.on_quota(build_quota("a", cpu=9, parent="other")))
    teams.pass_time(1)
    teams.pass_time(3600)
    teams.ask("a", 1)
    teams.ask("b", 1)
    teams.run()

    assert len(teams.use.ranks("a")) == 2
    other = next(each for each in teams.use.stored(WALL + teams.second) if each.path == ("other",))
    assert other.use.mantissa
