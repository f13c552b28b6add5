"""One run of the simulation: it takes a seed, and returns the rule that was broken, if any.

A step is one random action (`action_table.py`) and some turns for all threads; now and then the
troubles end for a while, to check that everything comes to rest. After each step:

- every write was judged when it was made (`account_judge.py`);
- each decision was judged when it was made (`decision_judge.py`);
- the engines' derived values are recomputed;
- no step raised, and none logged an error that its loop had handled.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import structlog

from queue_controllers.decision.pending import SILENT_SECONDS
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.engine.deadlines import Timer, unit_timers
from shared_api.client.errors import ApiFailure
from tests.properties.real_quotas import RealQuotas
from tests.simulation import (
    budget_actions,
    guard_actions,
    hand_made_actions,
    job_actions,
    limit_actions,
    node_actions,
    queue_actions,
    share_actions,
    trouble_actions,
    unit_actions,
)
from tests.simulation.account_judge import Broken
from tests.simulation.action_table import draw
from tests.simulation.budget_judge import PATIENCE_SECONDS
from tests.simulation.decision_judge import DecisionJudge
from tests.simulation.rest_checks import LONGEST_REST, check_end, check_quiet, deciding
from tests.simulation.world import World

MODULES: Final = (
    job_actions,
    queue_actions,
    unit_actions,
    hand_made_actions,
    node_actions,
    trouble_actions,
    limit_actions,
    budget_actions,
    guard_actions,
    share_actions,
)
"""Modules whose actions are in the table."""

TURNS: Final = (0, 3, 10, 40, 150, 600)
SECONDS: Final = (0.0, 0.02, 0.3, 2.0, 12.0)
CALM_CHANCE: Final = 0.03
"""Share of steps that are followed by a time without troubles."""
CALM_SECONDS: Final = 40
END_SECONDS: Final = 20_000.0
"""By then everything must have ended: four and a half of the longest backoffs in a row, of 15
minutes and a tenth, and the waits before them."""
SILENCE_SECONDS: Final = 1.5 * SILENT_SECONDS
"""Time without a write, while no unit backs off, after which a run is over. A process that has just
started waits for an operator's status for most of it."""
ANY_TURNS: Final = 1_000_000
"""More than fit into the time."""

USAGE: Final = "usage"
NO_ERRORS: Final = "no step fails"
REST: Final = "comes to rest"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a run.

    Attributes:
        broken: the first rule that was broken, or None.
        trace: what happened, one entry per line.
        turns: how many steps of threads were run.
        steps: how many steps of the simulation were run, until that rule was broken.
        asked_steps: how many were requested.
    """

    seed: int
    steps: int
    asked_steps: int
    turns: int
    broken: Broken | None
    trace: tuple[str, ...]

    def story(self) -> list[str]:
        """Return the rule that was broken, what happened to its object, and all actions."""
        if self.broken is None:
            return []
        rule = f"{self.broken.rule}: {self.broken.key}: {self.broken.how}"
        name = self.broken.key.rpartition("/")[2]
        return [rule, *(each for each in self.trace if " [" in each or not name or name in each)]


def simulate(seed: int, steps: int) -> Outcome:
    """Run a world from a seed until a rule is broken, or to its end."""
    with _surfaced_errors() as errors:
        run = _Run(seed, errors)
        broken = run.play(steps)
    return Outcome(
        seed=seed,
        steps=run.step,
        asked_steps=steps,
        turns=run.world.turns,
        broken=broken,
        trace=tuple(run.world.feed.lines),
    )


class _Run:
    """The world of a run, and its observers."""

    def __init__(self, seed: int, errors: list[Broken]) -> None:
        self.step = 0
        self._ended_at = 0.0
        self.world = World(seed)
        decisions = DecisionJudge(self.world)
        self.world.on_turn = decisions.on_turn
        self.world.on_decision = decisions.on_decision
        self._errors = errors

    def play(self, steps: int) -> Broken | None:
        """Return the first rule that was broken, or None."""
        self.world.feed.say(f"seed {self.world.seed}: {self.world.plan}")
        queue_actions.set_up(self.world)
        try:
            for self.step in range(1, steps + 1):
                if found := self._take_step():
                    return found[0]
            found = self._stop_all() or self._end()
        except Exception as error:  # noqa: BLE001 - whatever a step raises, the trace is wanted
            where = traceback.extract_tb(error.__traceback__)[-1]
            how = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
            return Broken(NO_ERRORS, self.world.feed.actor, how)
        return found[0] if found else None

    def _take_step(self) -> list[Broken]:
        world, rng = self.world, self.world.rng
        self._act()
        world.run(rng.choice(TURNS), rng.choice(SECONDS))
        found = self._broken()
        if not found and rng.random() < CALM_CHANCE:
            found = self._calm_down() or self._broken()
        return found

    def _act(self) -> None:
        world = self.world
        chosen = draw(world)
        world.feed.actor = "user"
        try:
            event = chosen.act(world)
        except ApiFailure as refusal:
            event = f"refused: {refusal}"
        world.feed.actor = "user"
        world.feed.say(f"[{self.step}] {chosen.name} {event}")

    def _broken(self) -> list[Broken]:
        found = [*self._errors, *self.world.judge.broken]
        if not found:
            for process in self.world.processes:
                try:
                    process.work.validate()
                    if process.scheduler is not None:
                        RealQuotas(process.scheduler.engine).validate()
                except AssertionError as error:
                    found.append(Broken(USAGE, process.name, str(error)))
        return found

    # --- rest ---------------------------------------------------------------------------------

    def _calm_down(self) -> list[Broken]:
        """End the troubles, and check as soon as there is nothing to do."""
        world = self.world
        trouble_actions.end_troubles(world)
        world.feed.actor = "user"
        world.feed.say(f"[{self.step}] calm")
        # By then whatever a budget stops is evicted.
        least = PATIENCE_SECONDS if world.plan.has_budgets else 0
        for second in range(CALM_SECONDS):
            world.run(ANY_TURNS, 1.0)
            if second >= least and world.is_quiet() and deciding(world) is not None:
                return check_quiet(world)
        return []

    def _stop_all(self) -> list[Broken]:
        """Stop all that runs, where there are budgets, and check that nothing runs on."""
        if not self.world.plan.has_budgets:
            return []
        budget_actions.stop_all(self.world)
        return self._calm_down() or self._broken()

    def _end(self) -> list[Broken]:
        """Let all troubles end, and all jobs that can; then check what is left."""
        world = self.world
        trouble_actions.end_troubles(world)
        world.feed.actor = "user"
        world.feed.say("[end]")
        world.cluster.start_seconds = (0.05, 0.3)
        job_actions.want_pods(world)
        queue_actions.end_stops(world)
        limit_actions.end_policies(world)
        hand_made_actions.give_all_back(world)
        if world.plan.elects:
            world.restart_without_election()
        world.start_all()
        self._ended_at = world.clock.monotonic()
        until = world.clock.monotonic() + END_SECONDS
        while world.clock.monotonic() < until:
            world.run(ANY_TURNS, 10.0)
            if found := self._broken():
                return found
            if self._is_over():
                return check_end(world)
        return [Broken(REST, "", f"there are still writes: {world.feed.lines[-1]}")]

    def _is_over(self) -> bool:
        world = self.world
        scheduler = deciding(world)
        since = max(world.feed.last_write_at, self._ended_at)
        silent = world.clock.monotonic() - since >= SILENCE_SECONDS
        all_decide = all(process.work.is_deciding() for process in world.processes)
        if not silent or scheduler is None or not all_decide or not world.is_quiet():
            return False
        records = scheduler.engine.units.records.values()
        if any(record.state is UnitState.CONFLICT for record in records):
            return False
        if scheduler.engine.nominations.by_key:
            return False  # room is kept for some minutes
        backing_off = [
            due
            for due in unit_timers(scheduler.engine, world.plan.timeouts, world.clock.now())
            if due.timer is Timer.BACKOFF
        ]
        # `check_end` names a unit that is never requeued.
        return all(due.at <= world.clock.now() - LONGEST_REST for due in backing_off)


@contextmanager
def _surfaced_errors() -> Iterator[list[Broken]]:
    """Collect the errors that a loop or a handler logs, and write no log.

    Informers go on when a handler raises, so that the other handlers still see the change.
    """
    errors: list[Broken] = []

    def keep(_logger: Any, _method: str, event: Any) -> Any:
        error = event.get("exc_info")
        if isinstance(error, BaseException):
            errors.append(
                Broken(NO_ERRORS, str(event.get("key", "")), f"{event['event']}: {error!r}")
            )
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[keep],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        cache_logger_on_first_use=False,
    )
    try:
        yield errors
    finally:
        structlog.configure(**before)
