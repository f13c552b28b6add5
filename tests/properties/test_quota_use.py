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
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from queue_insight.record.digest import digest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import view_all_quotas
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.fair_use import IDLE_HALF_LIVES, RENEW_SECONDS, StoredUses
from queue_scheduler.tenants.ledger import StoredAccounts
from queue_scheduler.tenants.quota_use import ADVANCE_SECONDS
from shared_api.well_known_labels import USER
from tests.properties.engine_checks import Quotas
from tests.properties.engine_kit import WALL, wall_time
from tests.properties.engine_world import Story
from tests.properties.quota_rates import QuotaRates, family_of, use_of
from tests.properties.real_quotas import RealQuotas, new_engine
from tests.properties.recorded_engine import RecordedEngine
from tests.properties.test_engine_properties import EVERYTHING, ROOT, fill, stories
from tests.properties.test_partial_starts import GROWTHS, NODES, PartialWorld

pytestmark = pytest.mark.properties

HALF_LIFE = 600

ACTS = (*EVERYTHING, *NODES, *GROWTHS, "tick", "tick", "tick", "tick", "name_user", "restart")


class Judge:
    """Sums up what the quotas of an engine use."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.use = use_of(engine)
        self.rates = QuotaRates(engine)
        self.past: dict[str, dict[int, Fraction]] = defaultdict(dict)

    @property
    def second(self) -> int:
        return self.rates.second

    def pass_time(self, second: int) -> None:
        """Count the seconds until now, by what was used and what was counted in advance."""
        for name in self.rates.names():
            for each in range(self.second, second):
                self.past[name][each] = self.rates.in_second(name, each)
        self.rates.pass_time(second)

    # --- what it expects --------------------------------------------------------------------------

    def used(self, name: str) -> float:
        """Return what is left of the use of a quota, without what is counted in advance."""
        return sum(float(each) * self._left(at) for at, each in self.past[name].items())

    def used_in_all(self, name: str) -> float:
        """Return the same with what is counted in advance."""
        seconds = range(self.second, self.second + ADVANCE_SECONDS)
        ahead = ((self.rates.in_advance(name, each), each) for each in seconds)
        return self.used(name) + sum(float(each) * self._left(at) for each, at in ahead)

    def _left(self, second: int) -> float:
        """Return what is left of a use of 1 in a second."""
        last, first = (math.exp2((at - self.second) / HALF_LIFE) for at in (second + 1, second))
        return HALF_LIFE / math.log(2) * (last - first)

    def check_use(self) -> None:
        """Check that what would be kept of each quota is what it has used."""
        stored = self.use.stored(self.second)
        got = {each.path[0]: scaled(each.use.decayed(self.second, HALF_LIFE)) for each in stored}
        views = {view.name for view in view_all_quotas(self.engine.plugins)}
        for name in got.keys() | self.past.keys():
            last = max((at for at, each in self.past[name].items() if each), default=0)
            is_idle = self.second - last >= IDLE_HALF_LIVES * HALF_LIFE
            if is_idle and name not in got.keys() | views:
                continue  # deleted, and forgotten
            want = self.used(name)
            assert math.isclose(got.get(name, 0.0), want, rel_tol=1e-9, abs_tol=1e-9), name

    def check_shares(self) -> None:
        """Check the order of siblings, and how they share; all ranks are of the present second."""
        views = {view.name: view for view in view_all_quotas(self.engine.plugins)}
        for view in views.values():
            family = [each.name for each in family_of(views, view.name)]
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
        self.workers.wake(self.engine.on_accounts(StoredAccounts(uses=stored)))

    def resync(self, a: int, b: int) -> None:
        self._renew_entries()
        super().resync(a, b)

    def repeat_old_unit(self, a: int, b: int) -> None:
        self._renew_entries()
        super().repeat_old_unit(a, b)

    def _renew_entries(self) -> None:
        """Let each queue stand where its quotas' present use puts it.

        Whatever looks at a queue does that, old news as well, and wakes the first of its domain.
        """
        for (what, _), thing in sorted(self._applied.items(), key=lambda each: each[0]):
            if what == "queue":
                self.workers.wake(self._apply_fact(what, thing))

    def check(self) -> None:
        self.engine.validate()
        self.judge.check_use()


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
