"""What quotas have used above their min, under any order of facts, decisions and restarts.

It is compared with the integral, which is summed up here second by second, in fractions, from what
is charged and what quotas may have. The judge knows of no scaled use, chain, rank or renewal.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from queue_insight.record.digest import digest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import view_all_quotas
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.quota.quota_view import QuotaView
from queue_scheduler.tenants.fair_use import RENEW_SECONDS, StoredUses
from queue_scheduler.tenants.ledger import StoredAccounts
from queue_scheduler.tenants.quota_use import ADVANCE_SECONDS, Charged, QuotaUse
from shared_api.well_known_labels import USER
from tests.properties.engine_checks import Quotas
from tests.properties.engine_kit import WALL, wall_time
from tests.properties.engine_world import Story
from tests.properties.real_quotas import RealQuotas, new_engine
from tests.properties.recorded_engine import RecordedEngine
from tests.properties.test_engine_properties import EVERYTHING, ROOT, fill, stories
from tests.properties.test_partial_starts import GROWTHS, NODES, PartialWorld

pytestmark = pytest.mark.properties

HALF_LIFE = 600

ACTS = (*EVERYTHING, *NODES, *GROWTHS, "tick", "tick", "tick", "tick", "name_user", "restart")


class Judge:
    """Sums up what the quotas of an engine use; it is told the charges as `QuotaUse` is."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.use = use_of(engine)
        self.second = self.use.second
        self.is_stale = False
        self.past: dict[str, dict[int, Fraction]] = defaultdict(dict)
        self._forget()
        tell = self.use.on_charge
        changed = self.use.on_quotas_changed

        def on_charge(before: Charged | None, after: Charged | None) -> None:
            tell(before, after)
            self.on_charge(before, after)

        def on_quotas_changed() -> None:
            changed()
            self.is_stale = True

        self.use.on_charge = on_charge  # type: ignore[method-assign]  # a spy
        self.use.on_quotas_changed = on_quotas_changed  # type: ignore[method-assign]  # a spy

    def _forget(self) -> None:
        self.charged: dict[str, Counter[str]] = defaultdict(Counter)
        self.rates: dict[str, Fraction] = {}
        self.rises: dict[str, list[tuple[int, Fraction]]] = defaultdict(list)

    def on_charge(self, before: Charged | None, after: Charged | None) -> None:
        quotas = [None if each is None else each.account.quota for each in (before, after)]
        for sign, each in ((-1, before), (1, after)):
            if each is not None:
                for name, amount in each.amounts.items():
                    self.charged[each.account.quota][name] += sign * amount
            if not self.is_stale and (sign > 0 or quotas[0] != quotas[1]):
                self._take_rates()

    def pass_time(self, second: int) -> None:
        """Count the seconds until now, by what was used and what was counted in advance."""
        if second <= self.second:
            return
        for name in {*self.rates, *self.rises}:
            for each in range(self.second, second):
                rate = self.rates.get(name, Fraction(0))
                self.past[name][each] = max(rate, self._in_advance(name, each))
        self.second = second
        if self.is_stale:
            self.is_stale = False
            self._take_rates()

    def restart(self) -> None:
        """Begin anew with what was counted; what runs is charged anew."""
        self._forget()
        self.is_stale = False

    def _in_advance(self, name: str, second: int) -> Fraction:
        rises = self.rises[name]
        return sum((more for at, more in rises if at <= second < at + ADVANCE_SECONDS), Fraction(0))

    def _take_rates(self) -> None:
        views = {view.name: view for view in view_all_quotas(self.engine.plugins)}
        for name in views.keys() | self.rates.keys():
            rate = self._rate(views, name) if name in views else Fraction(0)
            before = self.rates.get(name, Fraction(0))
            more = rate - max(before, self._in_advance(name, self.second))
            if rate > before and more > 0:
                self.rises[name].append((self.second, more))
            self.rates[name] = rate

    def _rate(self, views: dict[str, QuotaView], name: str) -> Fraction:
        view, below = views[name], _below(views, name)
        beside = [each for each in views.values() if _family(each) == _family(view)]
        rate = Fraction(0)
        for resource, own in view.max.items():
            used = sum(self.charged[each][resource] for each in below)
            above = used - _least(views, name, resource)
            weight, weights = _weight(view, resource), 0
            for each in beside:
                if resource in each.max:
                    weights += _weight(each, resource)
            most = sum(each.max.get(resource, 0) for each in beside)
            if above > 0 and most:
                assert own <= most
                rate = max(rate, Fraction(above * weights, most * weight))
        return rate

    # --- what it expects --------------------------------------------------------------------------

    def used(self, name: str) -> float:
        """Return what is left of the use of a quota, without what is counted in advance."""
        return sum(float(each) * self._left(at) for at, each in self.past[name].items())

    def used_in_all(self, name: str) -> float:
        """Return the same with what is counted in advance."""
        seconds = range(self.second, self.second + ADVANCE_SECONDS)
        ahead = ((self._in_advance(name, each), each) for each in seconds)
        return self.used(name) + sum(float(each) * self._left(at) for each, at in ahead)

    def _left(self, second: int) -> float:
        """Return what is left of a use of 1 in a second."""
        last, first = (math.exp2((at - self.second) / HALF_LIFE) for at in (second + 1, second))
        return HALF_LIFE / math.log(2) * (last - first)

    def check_use(self) -> None:
        """Check that what would be kept of each quota is what it has used."""
        stored = self.use.stored(self.second)
        got = {each.path[0]: scaled(each.use.decayed(self.second, HALF_LIFE)) for each in stored}
        names = got.keys() | self.past.keys()
        for name in names:
            want = self.used(name)
            assert math.isclose(got.get(name, 0.0), want, rel_tol=1e-9, abs_tol=1e-9), name

    def check_shares(self) -> None:
        """Check the order of siblings, and how they share; all ranks are of the present second."""
        for view in view_all_quotas(self.engine.plugins):
            family = [
                each.name
                for each in view_all_quotas(self.engine.plugins)
                if _family(each) == _family(view)
            ]
            uses = {name: self.used_in_all(name) for name in family}
            total = sum(uses.values())
            want = uses[view.name] * len(family) / total if total else 0.0
            got = float(self.use.share_used(view.name))
            assert math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-9), view.name
            for other in family:
                if uses[other] > uses[view.name] * (1 + 1e-9) + 1e-9:
                    assert self.use.ranks(other) > self.use.ranks(view.name), (view.name, other)


def scaled(use: Fraction) -> float:
    return float(use / (1 << 64))


def _family(view: QuotaView) -> tuple[str, str]:
    return view.tree_id, view.parent


def _weight(view: QuotaView, resource: str) -> int:
    return max(1, view.weight.get(resource, 0))


def _below(views: dict[str, QuotaView], name: str) -> list[str]:
    """Return a quota and all that are below it."""
    found = [name]
    for each in found:
        found += [view.name for view in views.values() if view.parent == each]
    return found


def _least(views: dict[str, QuotaView], name: str, resource: str) -> int:
    """Return what of a quota does not count: its min, or more if those below have it."""
    children = [view.name for view in views.values() if view.parent == name]
    below = sum(_least(views, child, resource) for child in children)
    return max(views[name].min.get(resource, 0), below)


class JudgedWorld(PartialWorld):
    """A world with a clock, whose queues take turns by use."""

    def __init__(self, build: Callable[[], tuple[Engine, Quotas]]) -> None:
        super().__init__(build)
        self.second = WALL
        self.engine.on_time(wall_time(WALL))
        self.judge = Judge(self.engine)

    def tick(self, a: int, b: int) -> None:
        """Let time pass, or set the clock back; most seconds have several facts."""
        self.go_to(self.second + (-(a % 7) if b % 7 == 0 else a % 4 if b % 3 else a % 150))

    def go_to(self, second: int) -> None:
        self.second = second
        self.judge.pass_time(second)
        self.workers.wall = second
        self.workers.wake(self.engine.on_time(wall_time(second)))

    def name_user(self, a: int, b: int) -> None:
        """Give a unit to another user: quotas use what they used before."""
        unit = self.some_unit(a)
        if unit is not None:
            labels = {**unit.metadata.labels, USER: ("ann", "bob")[b % 2]}
            self.put_unit(replace(unit, metadata=replace(unit.metadata, labels=labels)))

    def restart(self, _a: int, _b: int) -> None:
        """Begin with what is kept, as a process does that has read all objects."""
        use = use_of(self.engine)
        stored = StoredUses(use.second, use.stored(use.second))
        self.judge.restart()
        self.workers.wake(self.engine.on_accounts(StoredAccounts(uses=stored)))

    def check(self) -> None:
        self.engine.validate()
        self.judge.check_use()


def use_of(engine: Engine) -> QuotaUse:
    use = engine.usage.quota_use
    assert use is not None
    return use


def prepared() -> JudgedWorld:
    """Return a world with quotas, queues and units."""

    def build() -> tuple[Engine, Quotas]:
        engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
        engine.queue_state.take_turns_by_use(HALF_LIFE)
        return engine, RealQuotas(engine)

    world = JudgedWorld(build)
    for n in range(3):
        world.put_node(n, 3)
    fill(world)
    return world


@settings(max_examples=25)
@given(story=stories(*ACTS, least=40))
def test_use_is_the_integral_of_what_is_above_min(story: Story) -> None:
    world = prepared()
    for act in story:
        world.play([act])
        world.check()
    last = max(world.second, world.judge.second)
    world.go_to(last + RENEW_SECONDS - last % RENEW_SECONDS)
    world.check()
    world.judge.check_shares()


def test_stories_use_more_than_min() -> None:
    world = prepared()
    for n in range(8):
        world.ask_all()
        world.write(0, 7)
        world.answer(0, 0)
        world.tick(3 * n + 40, 3)
        world.finish_unit(n, 0)
        world.deliver_all()
        world.check()
    used = [name for name in world.judge.past if world.judge.used(name) > 1]
    assert len(used) > 1


@settings(max_examples=10)
@given(before=stories(*ACTS, most=40), story=stories(*ACTS, least=40))
def test_what_is_recorded_is_decided_again(before: Story, story: Story) -> None:
    world = prepared()
    world.play(before)
    recorded = RecordedEngine(world.engine)
    world.play(story)
    world.come_to_rest()
    recorded.stop()
    twin = recorded.check_replay()
    assert use_of(twin).state() == use_of(world.engine).state()


def describe(seed: int) -> None:
    """Print what a story decides, and the state after it; for another process."""
    chance = random.Random(seed)
    world = prepared()
    for _ in range(300):
        world.play([(chance.choice(ACTS), chance.randrange(999), chance.randrange(999))])
    names = [view.name for view in view_all_quotas(world.engine.plugins)]
    print(world.log, digest(world.engine), [use_of(world.engine).ranks(name) for name in names])


def test_decisions_and_digests_do_not_depend_on_the_hash_seed() -> None:
    reported = set()
    for hash_seed in ("0", "4711"):
        program = "from tests.properties.test_quota_use import *; describe(1)"
        run = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        reported.add(run.stdout)
    assert len(reported) == 1
    assert "ns/" in reported.pop()
