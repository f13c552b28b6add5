"""Queues with the policy Fair in any story: the order is that of use, computed anew by a judge.

The judge knows when each unit started and ended, and adds up what is left of that in floating-point
numbers. It knows of no rank, lane, group or heap.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_insight.record.digest import digest
from queue_scheduler.decision import Dequeue, WriteFailure
from queue_scheduler.tenants.fair_use import RENEW_SECONDS, StoredUses
from queue_scheduler.tenants.ledger import StoredAccounts
from shared_api.objects.queue import FairShare, FairWeight
from shared_api.well_known_labels import BACKFILL, MAX_DEPTH
from tests.fair_team import FairTeam
from tests.properties.engine_kit import WALL
from tests.properties.limited_world import some_rules
from tests.properties.recorded_engine import RecordedEngine
from tests.properties.test_engine_properties import ROOT

pytestmark = pytest.mark.properties

USERS = ("ann", "bob", "eve", "zoe")
HALF_LIFE = 600
MINIMUM = 60
CORES = 12

Act = tuple[str, int, int]


class Run(NamedTuple):
    """A unit that was started: whose it is, what it uses, from when until when."""

    group: str
    user: str
    cores: int
    begin: int
    end: int | None = None


class Judged(FairTeam):
    """A queue, and the runs of its units."""

    def __init__(self, fair_share: FairShare, **queue: Any) -> None:
        super().__init__(fair_share, cpu=CORES, **queue)
        self.runs: dict[str, Run] = {}
        self.whose: dict[str, tuple[str, str]] = {}
        self.has_groups = len(fair_share.levels) > 1
        self.weights = {name: each.weight for each in fair_share.weights for name in each.users}

    def create(self, a: int, b: int) -> None:
        user, group = USERS[a % len(USERS)], ("x", "y")[b % 2]
        quota = ("vision", "speech")[a % 2]
        name = self.ask(user, 1 + b % 4, quota, group=group, priority=a % 3)
        self.whose[name] = group, user

    def finish(self, a: int, _b: int) -> None:
        if self.runs_now():
            name = self.runs_now()[a % len(self.runs_now())]
            self.runs[name] = self.runs[name]._replace(end=self.second)
            self.end(name)

    def start(self, _a: int, b: int) -> None:
        """Let one unit start; some are not written."""
        for decision in self.workers.run():
            if not isinstance(decision, Dequeue):
                continue
            if b % 4 == 0:
                b += 1
                failed = self.engine.on_write_failed(decision, WriteFailure.REJECTED)
                self.workers.wake(failed)
                continue
            self._write(decision)
        self.engine.validate()

    def _write(self, decision: Dequeue) -> None:
        name = decision.unit.partition("/")[2]
        group, user = self.whose[name]
        cores = decision.grants[0].amounts["cpu"] // 1000
        self.written(decision)
        self.runs[name] = Run(group, user, cores, self.second)

    def wait(self, a: int, _b: int) -> None:
        self.pass_time(a % 200)

    def drop(self, a: int, _b: int) -> None:
        names = self.order()
        if names:
            record = self.engine.record(f"ns/{names[a % len(names)]}")
            assert record is not None
            self.workers.wake(self.engine.on_queue_unit_gone(record.unit))

    def limit(self, a: int, b: int) -> None:
        rules = some_rules(a, b)
        self.workers.wake(self.engine.limit_rules.set_rules({"vision": rules}))

    def weigh(self, a: int, b: int) -> None:
        user = USERS[a % len(USERS)]
        self.weights = {user: b % 4}
        weights = (FairWeight(users=(user,), weight=b % 4),)
        queue = self.engine.queues.queue("q")
        assert queue is not None
        assert queue.spec.fair_share is not None
        levels = queue.spec.fair_share.levels
        self.put_queue("Fair", fair(levels, weights))

    def look_in_a_fork(self, a: int, b: int) -> None:
        """Let a copy go its own way; the original stays as it is."""
        before = digest(self.engine)
        fork = self.engine.fork()
        assert digest(fork) == before
        fork.on_time(self.wall_after(60 * (a % 3)))
        while isinstance(decision := fork.decide_next("q", self.workers.now), Dequeue):
            fork.on_write_failed(decision, WriteFailure.GONE)
        fork.validate()
        assert digest(self.engine) == before

    def runs_now(self) -> list[str]:
        return [name for name, run in self.runs.items() if run.end is None]

    def play(self, story: list[Act]) -> None:
        for name, a, b in story:
            getattr(self, name)(a, b)
            self.engine.validate()

    # --- the judge --------------------------------------------------------------------------------

    def used(self, group: str | None, user: str | None) -> float:
        return sum(
            _left(run, self.second)
            for run in self.runs.values()
            if (group is None or run.group == group) and (user is None or run.user == user)
        )

    def account(self, name: str) -> tuple[str, ...]:
        return self.whose[name] if self.has_groups else self.whose[name][1:]

    def place(self, name: str) -> tuple[tuple[bool, float], ...]:
        """Return where the account of a unit stands: last without a weight, then by its use."""
        group, user = self.whose[name]
        of_group = self.used(group, None) if self.has_groups else 0.0
        of_user = self.used(group if self.has_groups else None, user)
        weight = self.weights.get(user, 1)
        return (False, of_group), (not weight, of_user / (weight or 1))

    def check_order(self) -> None:
        """At the beginning of a minute all ranks are new."""
        self.pass_time(-(WALL + self.second) % RENEW_SECONDS or RENEW_SECONDS)
        self.engine.validate()
        names = self.order()
        for before, after in pairwise(names):
            one, other = self.place(before), self.place(after)
            assert one <= other or _are_near(one, other), f"{before} {one} before {after} {other}"
            if self.account(before) == self.account(after):
                keys = [self._key(name) for name in (before, after)]
                assert keys == sorted(keys)

    def _key(self, name: str) -> tuple[object, ...]:
        record = self.engine.record(f"ns/{name}")
        assert record is not None
        assert record.info is not None
        return tuple(record.info.order_key[1:])


def _left(run: Run, now: int) -> float:
    """Return what is left of a run, times the half-life."""
    end = max(run.begin + MINIMUM, now if run.end is None else run.end)
    end = min(end, max(now, run.begin + MINIMUM))
    last, first = (math.exp2((at - now) / HALF_LIFE) for at in (end, run.begin))
    return run.cores * (last - first)


def _are_near(one: tuple[tuple[bool, float], ...], other: tuple[tuple[bool, float], ...]) -> bool:
    for (is_last, use), (is_other_last, other_use) in zip(one, other, strict=True):
        if is_last != is_other_last:
            return False
        if abs(use - other_use) > 1e-9 * (use + other_use):
            return use < other_use
    return True


def fair(levels: tuple[str, ...] = (), weights: tuple[FairWeight, ...] = ()) -> FairShare:
    return FairShare(
        levels=levels, weights=weights, half_life=f"{HALF_LIFE}s", minimum_charge=f"{MINIMUM}s"
    )


ACTS = ("create",) * 4 + ("start",) * 3 + ("finish", "finish", "wait", "wait", "drop", "weigh")
STORIES = st.lists(
    st.tuples(st.sampled_from((*ACTS, "look_in_a_fork")), st.integers(0, 999), st.integers(0, 999)),
    min_size=20,
    max_size=60,
)


@given(STORIES, st.sampled_from([("user",), ("group", "user")]))
def test_the_order_is_that_of_use(story: list[Act], levels: tuple[str, ...]) -> None:
    team = Judged(fair(levels))
    team.play(story)
    team.check_order()


@given(
    st.lists(
        st.tuples(
            st.sampled_from((*ACTS, "limit", "limit", "look_in_a_fork")),
            st.integers(0, 999),
            st.integers(0, 999),
        ),
        min_size=20,
        max_size=60,
    ),
    st.sampled_from([{}, {MAX_DEPTH: "3"}, {BACKFILL: "true"}]),
)
def test_it_holds_with_limits_depth_and_backfill(
    story: list[Act], annotations: dict[str, str]
) -> None:
    team = Judged(fair(), annotations=annotations)
    team.play(story)
    team.check_order()


@given(STORIES, STORIES)
def test_what_is_recorded_is_decided_again(before: list[Act], story: list[Act]) -> None:
    """From a checkpoint on, with the use of accounts told by a leader before."""
    team = Judged(fair(("group", "user")))
    team.play(before)
    recorded = RecordedEngine(team.engine)
    fair_use = team.engine.usage.fair
    uses = StoredUses(fair_use.second, fair_use.stored(fair_use.second))
    team.engine.on_accounts(StoredAccounts(uses=uses))
    team.play(story)
    recorded.stop()
    recorded.check_replay()


def describe(seed: int) -> None:
    """Print what a story decides, and the state after it; for another process."""
    import random  # noqa: PLC0415 - of that process

    chance = random.Random(seed)
    team = Judged(fair(("group", "user")))
    for _ in range(200):
        team.play([(chance.choice(ACTS), chance.randrange(999), chance.randrange(999))])
    print(list(team.runs), digest(team.engine))


def test_decisions_and_digests_do_not_depend_on_the_hash_seed() -> None:
    reported = set()
    for hash_seed in ("0", "4711"):
        program = "from tests.properties.test_fair_order import *; describe(1)"
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
    assert "ann" in reported.pop()
