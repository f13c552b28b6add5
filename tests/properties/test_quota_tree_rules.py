"""An ElasticQuotaTree in the quota cache: it admits what the rules do, and wakes all that fit.

Against a model that adds up everything from scratch (`naive_tree`).
"""

from __future__ import annotations

import random
from collections.abc import Hashable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaKind, QuotaMode, QuotaSettings
from queue_scheduler.quota.quota_tree_spec import parse_tree
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.well_known_labels import MAX_JOBS, MAX_PREEMPTIBLE_JOBS
from tests.properties.naive_tree import Booking, NaiveTree, random_tree
from tests.properties.quota_cases import random_amounts, take_woken

pytestmark = pytest.mark.properties


class TreeStory:
    """Random facts, and what an engine would do with the answers."""

    def __init__(self, seed: int, *, guards: bool) -> None:
        self.rng = random.Random(seed)
        self.guards = guards
        self.rate = self.rng.choice([Fraction(1), Fraction(1), Fraction(3, 2)])
        self.quotas = QuotaCache(
            QuotaSettings(
                mode=QuotaMode.MAX,
                kind=QuotaKind.TREE,
                oversell_numerator=self.rate.numerator,
                oversell_denominator=self.rate.denominator,
            )
        )
        self.naive: NaiveTree
        self.running: dict[str, Booking] = {}
        self.waiting: dict[Hashable, Booking] = {}
        self.next = 0
        self.grow()

    def turn(self) -> None:
        happen = self.rng.choices(
            [self.ask, self.end_one, self.adopt, self.protect, self.grow, self.fork, self.suppose],
            weights=[55, 30, 5, 5 if self.guards else 0, 2, 3, 5],
        )[0]
        happen()

    def fork(self) -> None:
        self.quotas = self.quotas.fork()

    def suppose(self) -> None:
        """Ask without some bookings, and with another: as if it were so, and without a trace."""
        asked, besides = self.some_job(), self.some_job()
        gone = [owner for owner in sorted(self.running) if self.rng.random() < 0.3]
        added = [(besides.path, demand_of(besides))]
        got = self.quotas.check_without(asked.path, demand_of(asked), gone, added)
        fork = self.quotas.fork()
        for owner in gone:
            fork.release(owner)
        fork.charge("besides", besides.path, demand_of(besides))
        assert got == fork.check(asked.path, demand_of(asked))

    def grow(self) -> None:
        tree = random_tree(self.rng)
        if self.rng.random() < 0.1:
            # Deleted and created again, as it may be: bookings stay.
            self.quotas.put_specs([])
        self.take(tree)

    def take(self, tree: ElasticQuotaTree) -> None:
        self.quotas.put_specs(parse_tree(tree))
        self.naive = NaiveTree(tree, self.rate)

    def some_job(self) -> Booking:
        np = self.rng.random() < 0.25
        counts = {MAX_JOBS: 1} if np else {MAX_JOBS: 1, MAX_PREEMPTIBLE_JOBS: 1}
        path = self.rng.choice([*self.naive.nodes, "root/gone"])
        return Booking(path, {**random_amounts(self.rng, 5), **counts}, np)

    def ask(self) -> None:
        self.next += 1
        asked = self.some_job()
        self.try_to_start(f"w{self.next}", asked)
        if self.guards and self.rng.random() < 0.5:
            self.quotas.protect(asked.path, demand_of(asked))

    def try_to_start(self, waiter: Hashable, asked: Booking) -> None:
        refusal = self.quotas.check(asked.path, demand_of(asked))
        fits = asked.path in self.naive.nodes and self.naive.fits(
            asked, list(self.running.values())
        )
        if refusal is None:
            assert fits, (asked, self.running)
            self.quotas.charge(str(waiter), asked.path, demand_of(asked))
            self.running[str(waiter)] = asked
            return
        assert self.guards or not fits, (asked, refusal, self.running)
        if refusal.resource:
            assert refusal.used + refusal.requested > refusal.limit
        self.quotas.wait(waiter, asked.path, demand_of(asked), refusal, (self.rng.randint(0, 2),))
        self.waiting[waiter] = asked

    def end_one(self) -> None:
        if self.running:
            owner = self.rng.choice(sorted(self.running))
            del self.running[owner]
            self.quotas.release(owner)

    def adopt(self) -> None:
        owner, job = f"adopted-{self.rng.randint(0, 3)}", self.some_job()
        self.quotas.charge(owner, job.path, demand_of(job))
        self.running[owner] = job

    def protect(self) -> None:
        job = self.some_job()
        self.quotas.protect(job.path, demand_of(job) if self.rng.random() < 0.5 else None)

    def wake(self) -> None:
        most = self.rng.choice([None, 1, 2])
        while woken := take_woken(self.quotas, most):
            for waiter in woken:
                asked = self.waiting.pop(waiter)
                if self.rng.random() < 0.8:
                    self.try_to_start(waiter, asked)


def demand_of(booking: Booking) -> Demand:
    return Demand(booking.amounts, booking.non_preemptible)


@pytest.mark.parametrize("guards", [False, True], ids=["plain", "hungry quotas are guarded"])
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_fits_starts_and_no_unit_waits_that_could(seed: int, guards: bool) -> None:
    story = TreeStory(seed, guards=guards)
    for _ in range(50):
        story.turn()
        if story.rng.random() < 0.7:
            story.wake()
            for waiter, asked in story.waiting.items():
                refusal = story.quotas.check(asked.path, demand_of(asked))
                assert refusal is not None, (waiter, asked)
        story.quotas.validate()
