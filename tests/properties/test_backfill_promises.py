"""Backfill against a simulation: a head starts no later than it was first promised.

Units declare how long they may run at most, and run no longer; some declare nothing, and then no
unit that waits for them is promised a start. Later units queue behind, and no quota changes.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_scheduler.framework.queue_unit_info import at_least
from queue_scheduler.quota.quota_settings import QuotaMode
from shared_api.objects.queue_unit import QueueUnit
from tests.properties.backfill_world import BackfillWorld

pytestmark = pytest.mark.properties

SEEDS = st.integers(0, 2**32)
modes = pytest.mark.parametrize("mode", list(QuotaMode), ids=lambda mode: mode.value)
policies = st.sampled_from(["Priority", "Block", "FIFO"])


class Simulation:
    """Units arrive at random, and every start is judged."""

    def __init__(
        self, seed: int, policy: str, mode: QuotaMode, *, says_all: bool, backfills: bool = True
    ) -> None:
        self.rng = random.Random(seed)
        self.world = BackfillWorld(policy, mode, cpu=6, backfills=backfills)
        self.says_all = says_all
        self._backfills = backfills
        self.promises: dict[str, int] = {}
        self.kept = 0
        self.passed = 0
        # In mode `min` guarantees of two quotas that do not fit together precede any promise.
        self._quotas = ["a"] if mode is QuotaMode.MIN else ["a", "b"]
        self._count = 0

    def second(self) -> None:
        """Let some units arrive, and a second pass."""
        rng = self.rng
        for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
            says = rng.randint(1, 30) if self.says_all or rng.random() < 0.8 else None
            self._count += 1
            cpu = rng.choice([1, 1, 1, 2, 3, 6])
            lasts = rng.randint(1, 30) if rng.random() < 0.5 else None
            least = rng.randint(1, cpu) if rng.random() < 0.3 else None
            self.world.add(
                f"u{self._count:03}",
                rng.choice(self._quotas),
                cpu=cpu,
                says=says,
                lasts=lasts,
                least=least,
            )
        line = self.world.waiting()
        started = self.world.go_on(1)
        self._judge(line, started)
        for name in self.world.waiting():
            if self._backfills:
                self._check_that_it_must_wait(name)
            promise = self.world.promise(name)
            if promise is not None:
                before = self.promises.setdefault(name, promise)
                assert promise <= before, f"{name} was promised {before}, and now {promise}"
                assert promise == self._brute_force(name), f"of {name}"

    def _judge(self, line: list[str], started: list[str]) -> None:
        for name in started:
            if name in self.promises:
                self.kept += 1
                at, promised = self.world.started[name], self.promises[name]
                assert at <= promised, f"{name} starts at {at}, was promised {promised}"
        waits = self.world.waiting()
        for name in started:
            ahead = [other for other in waits if other in line and other < name]
            if not ahead:
                continue
            self.passed += 1
            assert self.world.says[name] is not None, f"{name} declares nothing and passes {ahead}"

    def _check_that_it_must_wait(self, name: str) -> None:
        """Check that no waiting unit could start: time alone only makes it harder to pass."""
        world = self.world
        reason, head = world.reason(name)
        if world.plugin.check(at_least(world.info(name))) is not None:
            return
        assert reason in {"WouldDelayHead", "NoMaximumExecutionTime"}, f"{name} is lost"
        says, promise = world.says[name], world.promise(head)
        if says is not None and promise is not None:
            assert world.second + says > promise, f"{name} could pass {head}"

    def _brute_force(self, name: str) -> int | None:
        """Ask a copy of the engine at every declared end, the earliest first."""
        world = self.world
        info = world.info(name)
        ends: dict[int, list[str]] = {}
        for run in world.runs.values():
            says = run.unit.spec.maximum_execution_time_seconds
            if says is not None:
                start = world.started[run.unit.metadata.name]
                ends.setdefault(max(start + says, world.second), []).append(run.unit.metadata.uid)
        quotas = world.plugin.fork()
        for end in sorted(ends):
            for uid in ends[end]:
                quotas.quotas.release(uid)
            if quotas.check(at_least(info)) is None:
                return end
        return None


def admitted_pods(unit: QueueUnit) -> int:
    """Return the cores: a pod of a reducible set has one."""
    pods = sum(each.replicas for each in unit.status.admissions if unit.spec.pod_set)
    return pods or int(unit.spec.request["cpu"])


@modes
@settings(max_examples=60)
@given(seed=SEEDS, policy=policies, says_all=st.booleans())
def test_a_head_starts_no_later_than_it_was_first_promised(
    mode: QuotaMode, seed: int, policy: str, *, says_all: bool
) -> None:
    simulation = Simulation(seed, policy, mode, says_all=says_all)
    for _ in range(60):
        simulation.second()


@modes
def test_the_simulation_has_something_to_judge(mode: QuotaMode) -> None:
    kept = passed = seed = 0
    while kept <= 20 or passed <= 20:
        assert seed < 20, (kept, passed)
        simulation = Simulation(seed, "FIFO", mode, says_all=True)
        for _ in range(60):
            simulation.second()
        kept += simulation.kept
        passed += simulation.passed
        seed += 1


def test_more_runs_with_backfill_than_behind_blocking_heads() -> None:
    work: dict[bool, int] = {}
    for backfills in (False, True):
        work[backfills] = 0
        for seed in range(10):
            simulation = Simulation(seed, "FIFO", QuotaMode.MAX, says_all=True, backfills=backfills)
            for _ in range(60):
                simulation.second()
                runs = simulation.world.runs.values()
                work[backfills] += sum(admitted_pods(run.unit) for run in runs)
    assert work[True] > work[False]
