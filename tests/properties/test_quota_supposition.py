"""A supposition gets the answer that the real change would, and leaves no trace."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_scheduler.decision import Refusal
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.what_if import Added
from tests.properties.quota_cases import random_amounts
from tests.properties.test_quota_waking import CrumbStory, Story

pytestmark = pytest.mark.properties

SEEDS = st.integers(0, 2**32)
KINDS = st.sampled_from([Story, Story, CrumbStory])


class Question:
    """What to ask of a story's quota cache."""

    def __init__(self, story: Story) -> None:
        rng = story.rng
        owners = sorted({*story.running, *(f"adopted-{number}" for number in range(4)), "nobody"})
        self.released = rng.choices(owners, k=rng.randint(0, len(owners)))
        self.added: list[Added] = [
            (rng.choice(story.charged), story.demand()) for _ in range(rng.choice([0, 0, 1, 3]))
        ]
        self.quota = rng.choice(story.charged)
        self.demand = story.demand()

    def suppose(self, quotas: QuotaCache) -> Refusal | None:
        return quotas.check_without(self.quota, self.demand, self.released, self.added)

    def carry_out(self, quotas: QuotaCache) -> Refusal | None:
        for owner in self.released:
            quotas.release(owner)
        for number, (quota, demand) in enumerate(self.added):
            quotas.charge(f"added-{number}", quota, demand)
        return quotas.check(self.quota, self.demand)


def without_basis(refusal: Refusal | None) -> Refusal | None:
    """Drop the basis of a refusal, which matters only to the units it makes wait."""
    return None if refusal is None else msgspec.structs.replace(refusal, basis=None)


@settings(max_examples=100, deadline=None)
@given(SEEDS, KINDS)
def test_a_supposition_is_answered_as_if_it_were_true(seed: int, kind: type[Story]) -> None:
    story = kind(seed)
    for _ in range(40):
        story.turn()
        story.wake()
        question = Question(story)
        got = question.suppose(story.quotas)
        want = question.carry_out(story.quotas.fork())
        # Resources are walked in the order in which they were first charged.
        assert (got is None) == (want is None), (question.__dict__, got, want)
    question = Question(story)
    got = question.suppose(story.quotas)
    want = question.carry_out(story.quotas)
    assert without_basis(got) == without_basis(want), question.__dict__


@settings(max_examples=100, deadline=None)
@given(SEEDS, KINDS)
def test_a_supposition_leaves_no_trace(seed: int, kind: type[Story]) -> None:
    asked, left_alone = kind(seed), kind(seed)
    for number in range(40):
        asked.turn()
        left_alone.turn()
        chance = random.Random(number)
        if chance.random() < 0.7:
            state = asked.rng.getstate()
            for _ in range(chance.randint(1, 3)):
                Question(asked).suppose(asked.quotas)
            asked.rng.setstate(state)
        asked.quotas.validate()
        assert asked.waiting == left_alone.waiting
        asked.wake()
        left_alone.wake()
        assert asked.waiting == left_alone.waiting
        assert asked.running == left_alone.running
    names = [*asked.names, "unknown"]
    assert [asked.quotas.view(name) for name in names] == [
        left_alone.quotas.view(name) for name in names
    ]


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_a_question_between_check_and_charge_changes_neither(seed: int) -> None:
    story = CrumbStory(seed)
    for number in range(30):
        quota, demand = story.rng.choice(story.charged), story.demand()
        fits = story.quotas.check(quota, demand) is None
        Question(story).suppose(story.quotas)
        if fits:
            story.quotas.charge(f"one-{number}", quota, demand)
            story.running.append(f"one-{number}")
        fresh = story.quotas.fork()
        for name in story.names:
            asked = Demand(random_amounts(story.rng, 8))
            got, want = story.quotas.check(name, asked), fresh.check(name, asked)
            # Of several broken guarantees, which one is named depends on earlier questions.
            assert (got is None) == (want is None), (name, asked, got, want)
        if story.rng.random() < 0.3:
            story.end_one()
