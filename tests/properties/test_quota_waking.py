"""No unit waits that could start, whatever happened and in whatever order."""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import QuotaSettings, Rounding
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.objects.meta import NO_UID, Uid
from shared_api.well_known_labels import DEFAULT_QUOTA
from tests.properties.quota_cases import (
    KEYS,
    NAMES,
    build_quota,
    random_amounts,
    random_quota,
    random_settings,
    take_woken,
)

pytestmark = pytest.mark.properties


JOBS = (NO_UID, Uid("one"), Uid("two"))
"""Of demands, and of pods at the queue's gate."""


class Story:
    """Random facts for a quota cache, and what an engine would do with the answers."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.scale = self.rng.choice([1, 1, 1000])
        self.names: tuple[str, ...] = ()
        self.charged: list[str] = []
        self.quotas = self.new_quotas()
        self.waiting: dict[Hashable, tuple[str, Demand, Demand | None]] = {}
        self.running: list[str] = []
        self.next = 0

    def new_quotas(self) -> QuotaCache:
        self.quotas = QuotaCache(random_settings(self.rng))
        self.names = NAMES[: self.rng.randint(1, len(NAMES))]
        for number in range(len(self.names)):
            self.edit_quota(number)
        self.change_capacity()
        self.charged = [*self.names, DEFAULT_QUOTA, "unknown"]
        return self.quotas

    def turn(self) -> None:
        """Let one thing happen."""
        happen = self.rng.choices(
            [
                self.ask, self.end_one, self.adopt, self.change_pod, self.protect,
                self.edit_quota, self.remove_quota, self.change_capacity, self.give_up,
            ],
            weights=[45, 25, 5, 8, 5, 2, 1, 2, 2],
        )[0]  # fmt: skip
        happen()
        if self.rng.random() < 0.1:
            self.quotas = self.quotas.fork()

    def demand(self) -> Demand:
        amounts = random_amounts(self.rng, 8 * self.scale)
        return Demand(amounts, self.rng.random() < 0.2, self.rng.choice(JOBS))

    def ask(self) -> None:
        self.next += 1
        waiter, quota, demand = f"w{self.next}", self.rng.choice(self.charged), self.demand()
        whole = None
        if self.rng.random() < 0.3:
            amounts = {key: self.rng.randint(1, 3) * n for key, n in demand.amounts.items()}
            whole = Demand(amounts, demand.non_preemptible, demand.job)
        self.try_to_start(waiter, quota, demand, whole)
        if self.rng.random() < 0.5:
            self.quotas.protect(quota, demand)

    def try_to_start(
        self, waiter: Hashable, quota: str, demand: Demand, whole: Demand | None
    ) -> None:
        """Ask for the whole, then for no more than the demand."""
        asked = demand
        refusal = self.quotas.check(quota, asked)
        if whole is not None and self.quotas.check(quota, whole) is None:
            asked, refusal = whole, None
        if refusal is None:
            self.quotas.charge(str(waiter), quota, asked)
            self.running.append(str(waiter))
            return
        rank = (self.rng.randint(0, 2),)
        self.quotas.wait(waiter, quota, demand, refusal, rank, whole=whole)
        self.waiting[waiter] = (quota, demand, whole)

    def check(self) -> None:
        """Check that no unit waits that could start, even with more than it waits for."""
        for waiter, (quota, demand, whole) in self.waiting.items():
            assert self.quotas.check(quota, demand) is not None, (waiter, quota, demand)
            if whole is not None:
                assert self.quotas.check(quota, whole) is not None, (waiter, quota, whole)

    def end_one(self) -> None:
        if self.running:
            self.quotas.release(self.running.pop(self.rng.randrange(len(self.running))))

    def adopt(self) -> None:
        self.quotas.charge(f"adopted-{self.rng.randint(0, 3)}", self.names[0], self.demand())

    def change_pod(self) -> None:
        amounts = random_amounts(self.rng, 6 * self.scale) if self.rng.random() < 0.7 else None
        key, quota = f"pod-{self.rng.randint(0, 4)}", self.rng.choice(self.charged)
        stage = self.rng.choice(tuple(PodStage))
        job = self.rng.choice(JOBS) if stage is PodStage.HELD else NO_UID
        self.quotas.on_foreign(key, quota, amounts, stage=stage, job=job)

    def protect(self) -> None:
        demand = self.demand() if self.rng.random() < 0.5 else None
        self.quotas.protect(self.rng.choice(self.charged), demand)

    def edit_quota(self, number: int | None = None) -> None:
        if number is None:
            number = self.rng.randrange(len(self.names))
        self.quotas.on_quota(random_quota(self.rng, self.names, number, self.scale))

    def remove_quota(self) -> None:
        self.quotas.on_quota_gone("ns", self.rng.choice(self.names))

    def change_capacity(self) -> None:
        total = {key: self.rng.randint(10, 60) * self.scale for key in KEYS}
        self.quotas.on_capacity(None if self.rng.random() < 0.1 else total)

    def give_up(self) -> None:
        if self.waiting:
            waiter = self.rng.choice(sorted(self.waiting, key=str))
            self.quotas.stop_waiting(waiter)
            del self.waiting[waiter]

    def wake(self) -> None:
        """Take all woken units, one, two or all at a time, and let each try."""
        most = self.rng.choice([None, 1, 2])
        while woken := take_woken(self.quotas, most):
            for waiter in woken:
                quota, demand, whole = self.waiting.pop(waiter)
                if self.rng.random() < 0.8:
                    self.try_to_start(waiter, quota, demand, whole)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_no_unit_waits_that_could_start(seed: int) -> None:
    story = Story(seed)
    for _ in range(50):
        story.turn()
        if story.rng.random() < 0.7:
            story.wake()
            story.check()
        story.quotas.validate()


class CrumbStory(Story):
    """Three levels that round half up and are nearly full: one unit more or less decides."""

    def new_quotas(self) -> QuotaCache:
        rng = self.rng
        self.quotas = QuotaCache(
            QuotaSettings(
                rounding_override=Rounding.HALF_UP,
                check_parent=rng.random() < 0.2,
                scale_min=rng.random() < 0.8,
                cap_by_total=rng.random() < 0.5,
            )
        )
        # Of one what rounding loses is tolerated where mins are scaled, of the other it is not.
        self.scarce = scarce = rng.choice(["memory", "x"])
        self.total = rng.choice([150, 300, 2000])
        self.charged = ["aaa", "aab", "aac", "aba", "abb", "baa", "bb"]
        self.names = tuple(self.charged)
        weight = rng.choice([None, {scarce: 1, "y": 1}])
        for path in ("a", "b", "aa", "ab", "ba", *self.charged):
            low = rng.choice([0, 0, rng.randint(0, 20)])
            quota = build_quota(
                path,
                minimum={scarce: low, "y": low},
                maximum={scarce: rng.choice([900, 1000]), "y": 1000},
                weight=weight,
                parent=path[:-1],
                is_parent=path not in self.charged,
                lends=rng.random() < 0.95,
            )
            self.quotas.on_quota(quota)
        self.change_capacity()
        return self.quotas

    def turn(self) -> None:
        happen = self.rng.choices(
            [self.ask, self.end_one, self.adopt, self.change_pod, self.change_capacity],
            weights=[60, 30, 5, 5, 1],
        )[0]
        happen()
        if self.rng.random() < 0.03:
            self.quotas = self.quotas.fork()

    def demand(self) -> Demand:
        few = {"y": self.rng.randint(0, 9)}
        if self.rng.random() < 0.1:
            return Demand(few)
        return Demand({self.scarce: self.rng.choice([1, 2, 5, 7, 20]), **few})

    def change_capacity(self) -> None:
        self.quotas.on_capacity({self.scarce: self.total + self.rng.randint(-9, 9), "y": 3000})


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
@example(3495866)
def test_no_unit_waits_for_a_crumb_that_is_free(seed: int) -> None:
    story = CrumbStory(seed)
    for _ in range(60):
        story.turn()
        if story.rng.random() < 0.7:
            story.wake()
            fresh = story.quotas.fork()
            story.check()
            for waiter, (quota, demand, _) in story.waiting.items():
                assert fresh.check(quota, demand) is not None, (waiter, quota, demand)
    story.quotas.validate()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_forks_are_independent_and_equal(seed: int) -> None:
    story = Story(seed)
    for _ in range(20):
        story.turn()
    fork = story.quotas.fork()
    for name in story.names:
        assert fork.view(name) == story.quotas.view(name)
    assert sorted(map(str, take_woken(fork))) == sorted(map(str, take_woken(story.quotas)))
    before = [story.quotas.view(name) for name in story.names]
    fork.on_capacity({"memory": 1})
    fork.charge("new", story.names[0], Demand({"memory": 1}))
    assert [story.quotas.view(name) for name in story.names] == before
