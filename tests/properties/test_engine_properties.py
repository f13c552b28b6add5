"""The engine under any order of facts, decisions, failed writes and restarts.

The invariants are those of the architecture: never over, never lost, never twice, order,
determinism, restart. `World.ask` checks limits and order at every decision, `Workers` validates the
engine after every step, and `World.deliver` delivers many facts twice.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from queue_scheduler.decision import Decision, Dequeue
from queue_scheduler.engine.engine import Engine
from tests.properties.engine_checks import (
    check_heads,
    check_objects_are_not_over,
    check_waiters,
)
from tests.properties.engine_kit import Workers
from tests.properties.engine_world import Story, World

pytestmark = pytest.mark.properties

UNITS = ("create_unit", "create_unit", "create_unit", "delete_unit", "edit_unit", "touch_unit")
LIVES = ("run_unit", "finish_unit", "finish_unit", "evict_unit", "requeue_unit", "reclaim_unit")
RULES = ("put_queue", "delete_queue", "put_quota", "put_quota", "delete_quota")
PODS = ("put_pod", "put_pod", "delete_pod")
TALK = ("deliver", "deliver", "deliver", "deliver_all", "deliver_all", "repeat_old_unit", "resync")
WORK = ("ask", "ask", "ask_all", "write", "write", "write", "answer", "answer", "ring")
EVERYTHING = (*UNITS, *LIVES, *RULES, *PODS, *TALK, *WORK)

numbers = st.integers(0, 999)


def stories(*acts: str, least: int = 0, most: int = 100) -> st.SearchStrategy[Story]:
    act = st.tuples(st.sampled_from(acts), numbers, numbers)
    return st.lists(act, min_size=least, max_size=most)


def prepared() -> World:
    """Return a world in which stories soon come to the point."""
    world = World()
    fill(world)
    return world


def fill(world: World, units: int = 8) -> None:
    """Make quotas, queues and some units."""
    world.put_quota(3, 4)
    for n in range(3):
        world.put_quota(n, 5 + n)
    for n, settings in enumerate((0, 4, 2, 205)):
        world.put_queue(n, settings)
    for n in range(units):
        world.create_unit(n, 3 * n + 1)
    with world.judged_at_the_end():
        world.deliver_all()


def check_rest(world: World) -> None:
    world.check_rest()
    check_heads(world.engine, world.plugin)
    check_waiters(world.engine, world.plugin)


def check_objects(world: World) -> None:
    check_objects_are_not_over(world.units.values(), world.quotas.values(), world.plugin)


@given(stories(*EVERYTHING, least=40))
def test_a_unit_that_could_start_starts(story: Story) -> None:
    world = prepared()
    world.play(story)
    check_rest(world)


@given(stories(*EVERYTHING))
def test_facts_may_come_in_any_order_from_the_beginning(story: Story) -> None:
    world = World()
    world.play(story)
    check_rest(world)


@given(stories(*UNITS, *LIVES, "put_queue", "delete_queue", *TALK, *WORK, least=40))
def test_objects_never_exceed_a_quota_that_nothing_but_decisions_fills(story: Story) -> None:
    world = prepared()
    # Relabeled, grown and adopted units are facts that may exceed a quota; what a unit gives
    # back is not in the sum.
    facts = {"edit_unit", "reclaim_unit"}
    tame = [(name, a - a % 17, b) for name, a, b in story if name not in facts]
    for act in tame:
        world.play([act])
        check_objects(world)
    check_rest(world)
    check_objects(world)


@given(stories(*EVERYTHING, least=20), st.randoms(use_true_random=False))
def test_an_engine_rebuilt_from_the_objects_has_the_same_state(
    story: Story, rng: random.Random
) -> None:
    world = prepared()
    world.play(story)
    check_rest(world)
    # The one thing that no object shows: which quota a namespace had before.
    assume(not world.remembers_a_quota_that_no_object_tells())
    twin = world.rebuilt(rng.shuffle)
    twin.ask_all()
    assert twin.log == [], "a restart starts no unit that was refused before"
    got, want = twin.digest(), world.digest()
    for part in ("units", "booked", "counts"):
        assert got[part] == want[part], part
    assert orders_without_use(twin) == orders_without_use(world)
    assert twin.plugin.foreign == world.plugin.foreign
    check_heads(twin.engine, twin.plugin)


def orders_without_use(world: World) -> dict[str, list[str]]:
    """Return the pending units by queue; in order where no use counts, which no object shows."""
    fair = world.engine.usage.fair
    orders = world.digest()["order"]
    return {
        queue: keys if fair.of_queue(queue) is None else sorted(keys)
        for queue, keys in orders.items()
    }


@given(stories(*EVERYTHING, least=20))
def test_a_fork_decides_the_same_and_changes_nothing(story: Story) -> None:
    world = prepared()
    world.play(story)
    for n in range(12):
        world.create_unit(n, n)
    world.deliver_all()
    before = world.digest()
    first, second = world.engine.fork(), world.engine.fork()
    first.validate()
    foreseen = decide_all(first, world.workers.now)
    assert world.digest() == before, "the fork's decisions reached the original"
    world.engine.validate()
    assert decide_all(world.engine, world.workers.now) == foreseen
    second.validate()
    assert decide_all(second, world.workers.now) == foreseen, "the original's reached the fork"


def decide_all(engine: Engine, now: float) -> list[Decision]:
    workers = Workers(engine)
    workers.now = now
    workers.wake(line.name for line in engine.queues)
    return workers.run()


@given(stories(*EVERYTHING, least=20))
def test_the_same_facts_in_the_same_order_give_the_same_decisions(story: Story) -> None:
    first, second = prepared(), prepared()
    first.play(story)
    second.play(story)
    assert first.workers.decided == second.workers.decided


@given(stories(*EVERYTHING, least=40))
def test_no_unit_is_started_twice_without_having_been_free(story: Story) -> None:
    world = prepared()
    world.play(story)
    world.come_to_rest()
    starts = Counter(d.uid for d in world.workers.decided if isinstance(d, Dequeue))
    for uid, count in starts.items():
        assert count <= 1 + world.freed[uid], f"{uid} was started {count} times"


# --- other processes ----------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]


def describe_decisions(seed: int) -> None:
    """Print the decisions of a seed's story; run by the test below."""
    rng = random.Random(seed)
    for _ in range(20):
        world = prepared()
        acts = (
            (rng.choice(EVERYTHING), rng.randrange(1000), rng.randrange(1000)) for _ in range(150)
        )
        world.play(list(acts))
        world.come_to_rest()
        print(world.workers.decided, list(world.digest()["order"].items()))


@pytest.mark.parametrize("seed", range(2))
def test_decisions_do_not_depend_on_the_hash_seed(seed: int) -> None:
    reported = set()
    for hash_seed in ("0", "1", "4711"):
        program = (
            f"from tests.properties.test_engine_properties import *; describe_decisions({seed})"
        )
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        assert "Dequeue" in run.stdout
        reported.add(run.stdout)
    assert len(reported) == 1
