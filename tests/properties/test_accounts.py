"""Accounts under any order of facts, decisions, failed writes, growth and clock steps.

What the accounts say is compared with the integral of what is charged, which is summed up here
second by second, from nothing but the charges.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_insight.record.digest import digest
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.ledger import Ledger
from shared_api.well_known_labels import USER
from tests.properties import test_dumps as dumps
from tests.properties.engine_checks import Quotas
from tests.properties.engine_kit import WALL
from tests.properties.engine_world import Story
from tests.properties.real_quotas import RealQuotas
from tests.properties.recorded_engine import RecordedEngine
from tests.properties.test_engine_properties import EVERYTHING, fill, stories
from tests.properties.test_partial_starts import GROWTHS, NODES, PartialWorld

pytestmark = pytest.mark.properties

TIMES = ("tick", "tick", "tick", "tick", "pass_edge")
RUNS = ("start_units", "start_units", "start_units", "reclaim_unit", "grow_units", "hold_queue")
ACTS = (*EVERYTHING, *NODES, *GROWTHS, *TIMES, *RUNS, "name_user")


class Accounted(PartialWorld):
    """A world with a clock, and with the integral of what is charged.

    Attributes:
        want: by account and resource, in base units times seconds.
        time: what the clock says.
        latest: the last second that it has said.
    """

    def __init__(self, build: Callable[[], tuple[Engine, Quotas]]) -> None:
        super().__init__(build)
        self.want: dict[Account, Counter[str]] = defaultdict(Counter)
        self.at_edge: dict[Account, Counter[str]] = {}
        self.edge = 0
        self.time = Fraction(WALL)
        self.latest = WALL
        self.engine.on_time(wall_of(self.time))

    def tick(self, a: int, b: int) -> None:
        """Let time pass, or set the clock back; most seconds have several facts."""
        self.go_to(self.time + (Fraction(-a % 7) if b % 7 == 0 else Fraction(a % 4000, 1000)))

    def go_to(self, time: Fraction) -> None:
        self.time = time
        second = floor(time)
        passed = second - self.latest
        if passed > 0:
            self.latest = second
            for uid in self.engine.usage:
                charge = self.engine.usage.charge_of(uid)
                assert charge is not None
                for name, amount in charge.amounts.items():
                    self.want[charge.account][name] += amount * passed
        self.workers.wall = second
        self.workers.wake(self.engine.on_time(wall_of(time)))

    def name_user(self, a: int, b: int) -> None:
        """Give a unit to another user."""
        unit = self.some_unit(a)
        if unit is not None:
            labels = {**unit.metadata.labels, USER: ("ann", "bob")[b % 2]}
            self.put_unit(replace(unit, metadata=replace(unit.metadata, labels=labels)))

    def start_units(self, a: int, b: int) -> None:
        """Let units start and run, as they do where no write fails."""
        self.deliver_all()
        self.ask_all()
        while self._sent:
            self.write(0, 7)
        while self._answers:
            self.answer(0, 0)
        for _ in range(a % 4):
            self.run_unit(b, 0)
        self.deliver_all()

    def hold_queue(self, a: int, b: int) -> None:
        """Stop a queue, of which the units that run go on."""
        self.put_queue(a, 3)
        self.deliver_all()

    def grow_units(self, a: int, b: int) -> None:
        """Let units have the pods that they lack, after a while in which another one may end."""
        if a % 2:
            self.empty_lines(0, 0)
            self.finish_unit(b, 0)
            self.deliver_all()
        for n in range(len(self.units)):
            self.grow(n, 0)
            self.answer_growth(0, 0)
        self.deliver_all()

    def pass_edge(self, a: int, b: int) -> None:
        """Let a period end; nothing is told while it does."""
        edge = self.latest + 1 + a % 5
        self.workers.wake(self.engine.on_edges((self.edge, edge)))
        self.go_to(Fraction(edge))
        self.at_edge = {account: Counter(used) for account, used in self.want.items()}
        self.edge = edge
        self.go_to(Fraction(edge + b % 5))

    def check_accounts(self) -> None:
        """Check that every account has used the integral, now and at the last edge."""
        ledger = self.engine.usage.ledger
        assert ledger is not None
        self.engine.validate()
        assert used_of(ledger) == without_zeros(self.want)
        if self.edge:
            at_edge = {account: line.used_at_edge(self.edge) for account, line in ledger}
            assert without_zeros(at_edge) == without_zeros(self.at_edge)


def wall_of(time: Fraction) -> datetime:
    microseconds = floor(time * 1_000_000)
    moment = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    return moment.replace(microsecond=microseconds % 1_000_000)


def used_of(ledger: Ledger) -> dict[Account, dict[str, int]]:
    """Return what accounts have used, without zeros."""
    return without_zeros({account: line.used(ledger.second) for account, line in ledger})


def without_zeros(used: Mapping[Account, Mapping[str, int]]) -> dict[Account, dict[str, int]]:
    found = {
        account: {name: each for name, each in amounts.items() if each}
        for account, amounts in used.items()
    }
    return {account: amounts for account, amounts in found.items() if amounts}


def build_engine() -> Engine:
    plugins = PluginRunner([ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX)), Priority()])
    return Engine(plugins, BUILT_IN_POLICIES, ledger=Ledger())


def prepared() -> Accounted:
    """Return a world with quotas, queues and units."""

    def build() -> tuple[Engine, Quotas]:
        engine = build_engine()
        return engine, RealQuotas(engine)

    world = Accounted(build)
    for n in range(3):
        world.put_node(n, 3)
    fill(world)
    return world


@given(story=stories(*ACTS, least=40))
def test_charges_are_the_integral(story: Story) -> None:
    world = prepared()
    for act in story:
        world.play([act])
        world.check_accounts()
    world.come_to_rest()
    world.tick(3999, 1)
    world.check_accounts()


def test_stories_have_what_charges_depend_on() -> None:
    """Stories like those that are drawn: each of these is charged in some of the first."""
    left = {"growth", "Hold", "partial release", "late pods"}
    for seed in range(100):
        rng = random.Random(seed)
        world = prepared()
        for _ in range(100):
            world.play([(rng.choice(ACTS), rng.randrange(1000), rng.randrange(1000))])
            left.difference_update(circumstances_of(world.engine))
        left -= {"growth"} if world.grown else set()
        if not left:
            return
    raise AssertionError(f"no story has {', '.join(sorted(left))}")


def circumstances_of(engine: Engine) -> Iterator[str]:
    """Yield under which circumstances units are charged now."""
    for record in engine.units:
        charge = engine.usage.charge_of(record.uid)
        if charge is None or not any(charge.amounts.values()):
            continue
        if record.state is UnitState.ENDED:
            yield "late pods"
        if any(each.count for each in record.unit.status.reclaimable_pods):
            yield "partial release"
        queue = None if record.info is None else engine.queues.find(record.info.queue)
        if queue is not None and queue.rules.is_stopped:
            yield "Hold"


def test_stories_charge_and_release() -> None:
    world = prepared()
    world.ask_all()
    for n in range(8):
        world.write(0, 7)
        world.answer(0, 0)
        world.tick(3000, 1)
        world.finish_unit(n, 0)
        world.deliver_all()
    world.check_accounts()
    assert len(world.want) > 1
    assert sum(sum(used.values()) for used in world.want.values()) > 50


@settings(max_examples=25)
@given(story=stories(*ACTS, least=40))
def test_recorded_calls_give_the_same_accounts(story: Story) -> None:
    world = prepared()
    record = RecordedEngine(world.engine)
    world.play(story)
    record.stop()
    twin = record.check_replay()
    ledgers = twin.usage.ledger, world.engine.usage.ledger
    assert ledgers[0] is not None
    assert ledgers[1] is not None
    assert ledgers[0].state() == ledgers[1].state()


@settings(max_examples=25)
@given(story=stories(*ACTS, least=40))
def test_a_fork_and_the_original_count_on_by_themselves(story: Story) -> None:
    world = prepared()
    world.play(story)
    before = digest(world.engine)
    twin = world.engine.fork()
    twin.on_time(wall_of(Fraction(WALL + 10**6)))
    for uid in list(twin.usage):
        twin.usage.void(uid)
    assert digest(world.engine) == before
    world.tick(3000, 1)
    world.check_accounts()


@settings(max_examples=25)
@given(story=stories(*ACTS, least=40), later=st.integers(0, 3999))
def test_a_dump_has_the_accounts(story: Story, later: int) -> None:
    world = prepared()
    world.play(story)
    world.come_to_rest()
    world.check_accounts()
    world.tick(later, 1)
    at = Moment(1000.0, wall_of(max(world.time, Fraction(world.latest))))
    got = dumps.check(world.engine, build_engine(), at)
    ledger = got.usage.ledger
    assert ledger is not None
    assert used_of(ledger) == without_zeros(world.want)
