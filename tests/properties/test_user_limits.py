"""Limits of users and groups in any story: never over by a decision, and nobody waits in vain."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from queue_scheduler.engine import limit_changes
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import ClassKey, without_account
from queue_scheduler.queueing import pending_classes
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from tests.properties.engine_world import Story
from tests.properties.limited_world import LimitedWorld
from tests.properties.real_quotas import RealQuotas, new_engine
from tests.properties.test_engine_properties import EVERYTHING, ROOT, fill, stories

pytestmark = pytest.mark.properties

LIMITS = ("put_rules", "put_rules", "edit_account")
SLICES = ("put_rules_in_slices", "put_rules_in_slices", "go_on", "go_on", "go_on", "ask", "ask")


@contextmanager
def tiny_slices() -> Iterator[None]:
    """Let a slice do one thing, so that much happens between two of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("COUNTED", "WOKEN", "PLACED", "LOOKED_AT"):
            patch.setattr(limit_changes, name, 1)
        yield


def prepared() -> LimitedWorld:
    world = LimitedWorld()
    for n, b in enumerate((1, 7, 3, 2)):
        world.put_rules(n, b)
    fill(world)
    return world


def prepared_for_real() -> LimitedWorld:
    def build() -> tuple[Engine, RealQuotas]:
        engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
        return engine, RealQuotas(engine)

    world = LimitedWorld(build)
    for n, b in enumerate((1, 7, 3, 2)):
        world.put_rules(n, b)
    fill(world)
    return world


@given(stories(*EVERYTHING, *LIMITS, least=30))
def test_nobody_is_over_and_nobody_waits_in_vain(story: Story) -> None:
    world = prepared()
    world.play(story)
    world.check_rest()


@given(stories(*EVERYTHING, *LIMITS, least=30))
def test_the_same_with_the_real_quotas(story: Story) -> None:
    world = prepared_for_real()
    world.play(story)
    world.check_rest()


SOME = ("create_unit", "create_unit", "finish_unit", "finish_unit", "requeue_unit", "write")


@given(stories(*SOME, *SLICES, least=30, most=60))
def test_nobody_is_over_between_two_slices_of_a_change(story: Story) -> None:
    with tiny_slices():
        world = LimitedWorld()
        fill(world)
        world.play(story)
        world.check_rest()


@given(stories(*EVERYTHING, *LIMITS, *SLICES, least=30))
def test_the_same_between_slices_with_everything_else(story: Story) -> None:
    with tiny_slices():
        world = prepared_for_real()
        world.play(story)
        world.check_rest()


@given(stories(*EVERYTHING, *LIMITS, *SLICES, least=20), st.randoms(use_true_random=False))
def test_a_restart_gives_the_same_state(story: Story, rng: random.Random) -> None:
    world = prepared()
    world.play(story)
    world.check_rest()
    assume(not world.remembers_a_quota_that_no_object_tells())
    twin = world.rebuilt(rng.shuffle)
    twin.ask_all()
    assert twin.log == [], "a restart starts no unit that was refused before"
    got, want = twin.digest(), world.digest()
    for part in ("units", "order", "booked", "counts"):
        assert got[part] == want[part], part


FACTS = ("create_unit", "create_unit", "create_unit", "finish_unit", "finish_unit", "evict_unit")
MORE = ("requeue_unit", "delete_unit", "edit_unit", "put_quota", "put_queue", "put_rules")


def started_in(story: Story) -> list[str]:
    """Return what starts, in order, if every fact is followed until all rest."""
    world = prepared()
    for act in story:
        world.play([act])
        world.come_to_rest()
    return world.log


@given(stories(*FACTS, *MORE, "edit_account", "run_unit", least=30, most=60))
def test_refusals_that_accounts_share_decide_as_if_each_were_asked(story: Story) -> None:
    shared = started_in(story)
    with pytest.MonkeyPatch.context() as patch:
        # Each class with an account is alone in its group.
        patch.setattr(pending_classes, "without_account", _alone)
        assert started_in(story) == shared


def _alone(key: ClassKey) -> ClassKey | None:
    return None if without_account(key) is None else key


def describe_decisions(seed: int) -> None:
    """Print what a story of facts and rules decides; for another process."""
    chance = random.Random(seed)
    world = prepared()
    acts = (*EVERYTHING, *LIMITS)
    world.play(
        [(chance.choice(acts), chance.randrange(999), chance.randrange(999)) for _ in range(300)]
    )
    world.come_to_rest()
    print(world.workers.decided, list(world.digest()["order"].items()))


def test_decisions_do_not_depend_on_the_hash_seed() -> None:
    reported = set()
    for hash_seed in ("0", "4711"):
        program = "from tests.properties.test_user_limits import *; describe_decisions(1)"
        run = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        )
        assert "UserLimit" in run.stdout
        reported.add(run.stdout)
    assert len(reported) == 1
