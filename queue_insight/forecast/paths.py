"""Plays one possible future of an engine: a path. Pure.

The engine that decides also decides here (``insight.virtual_cluster``); drawn are only how long
runs last, and what arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from math import exp, inf, sqrt
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from queue_insight.forecast.draws import normal, uniform
from queue_insight.forecast.run_times import Running, RunTimes
from queue_insight.forecast.traits import Traits, traits_of_record
from queue_insight.insight.agenda import Agenda
from queue_insight.insight.trials import SpentError, never_late
from queue_insight.insight.virtual_cluster import (
    Arrival,
    Event,
    EventKind,
    Outside,
    RunSeconds,
    VirtualCluster,
)
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.budgets_in_chains import BudgetKey
from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import PODS_READY, Phase
from shared_api.timestamps import read_past

SLICE_SECONDS: Final = (10.0, 1800.0)
"""Virtual time until the first look at whether all watched units have started, and the most between
two looks: each slice is twice as long as the one before. Where units wait for seconds, thousands
may arrive within half an hour. The longest is a third of a thousandth of a week."""

DRIFT: Final = 0.25
"""Standard deviation of the logarithm of the factor by which a model may be wrong for all runs of a
tenant at once. Of 0.25 and 0.5, the one whose paths were less too wide on the first six weeks of
the public Philly trace; calibration does the rest."""
SHARED: Final = 0.5
"""The part of its variance that all tenants have in common."""


class Extent(NamedTuple):
    """How far a path is played.

    Attributes:
        seconds: For how long at most.
        with_budgets: Whether it is played for as long in any case, to see when budgets are spent.
    """

    seconds: float
    with_budgets: bool = False


class Path(msgspec.Struct, frozen=True, gc=False):
    """When units start and end on one path, in seconds of the monotonic clock, by uid.

    What is missing does not happen until the horizon.

    Attributes:
        starts: When units start.
        ends: When they end.
        spent: When nothing is left of a budget for the first time; None: it was not played until
            the horizon.
    """

    starts: dict[str, float]
    ends: dict[str, float]
    spent: dict[BudgetKey, float] | None = None


def waiting_uids(engine: Engine) -> set[str]:
    """Return the units that wait in a queue."""
    states = {UnitState.WAITING, UnitState.CONFLICT}
    return {record.uid for record in engine.units if record.state in states}


def find_running(engine: Engine, moment: Moment) -> list[Running]:
    """Return the units whose pods run."""
    found = []
    for record in engine.units:
        if record.unit.status.phase == Phase.RUNNING:
            ran = ran_seconds(record.unit, moment.wall)
            found.append(Running(traits_of_record(record), ran))
    return found


def ran_seconds(unit: QueueUnit, wall: datetime) -> float:
    """Return for how many seconds the pods of a unit have run; 0 if it does not say."""
    ready = find_condition(unit.status.conditions, PODS_READY)
    since = read_past(ready.last_transition_time if ready else None, wall)
    return 0.0 if since is None else (wall - since).total_seconds()


def play(
    engine: Engine,
    moment: Moment,
    run_seconds: RunSeconds,
    arrivals: Iterable[Arrival],
    *,
    watched: set[str],
    extent: Extent,
    is_over: Callable[[], bool] = never_late,
) -> Path:
    """Play until the watched units have started, or the time is over.

    Args:
        engine: Is changed: a fork.
        moment: The time of its state.
        run_seconds: How long runs last.
        arrivals: What arrives, in order of time.
        watched: Uids of the units that are of interest.
        extent: How far it is played.
        is_over: Returns whether the path is no longer wanted; the units have their times if it is
            said after they have started.

    Raises:
        SpentError: `is_over` says so.
    """
    played = _Play(engine, moment, run_seconds, arrivals, watched)
    path = played.run(extent.seconds, is_over)
    if not extent.with_budgets:
        return path
    try:
        return replace(path, spent=played.find_spent(extent.seconds, is_over))
    except SpentError:
        return path


class _Play:
    def __init__(
        self,
        engine: Engine,
        moment: Moment,
        run_seconds: RunSeconds,
        arrivals: Iterable[Arrival],
        watched: set[str],
    ) -> None:
        self._run_seconds = run_seconds
        self._left = set(watched)
        self._watched = watched
        self._starts: dict[str, float] = {}
        self._ends: dict[str, float] = {}
        self._begin = moment.now
        outside = Outside(run_seconds=self._draw)
        # While it is built, the ends of what runs are drawn: at the beginning.
        self._agenda: Agenda | None = None
        self._cluster = VirtualCluster(engine, moment, outside, arrivals, self._on_event)
        self._agenda = self._cluster.agenda

    def run(self, seconds: float, is_over: Callable[[], bool]) -> Path:
        last = self._begin + seconds
        until = self._begin
        slice_seconds, longest = SLICE_SECONDS
        # What starts at once does so even if nothing else is to happen.
        self._cluster.run(until, is_over)
        while self._left and until < last and self._cluster.agenda.next_at < inf:
            until = min(last, max(until + slice_seconds, self._cluster.agenda.next_at))
            slice_seconds = min(2 * slice_seconds, longest)
            self._cluster.run(until, is_over)
        return Path(self._starts, self._ends)

    def find_spent(self, seconds: float, is_over: Callable[[], bool]) -> dict[BudgetKey, float]:
        """Play on until the horizon; return when budgets were spent."""
        self._cluster.run(self._begin + seconds, is_over)
        return self._cluster.budgets.spent_at

    def _draw(self, unit: QueueUnit, ran: float) -> float:
        uid = unit.metadata.uid
        left = self._run_seconds(unit, ran)
        if uid in self._watched:
            now = self._begin if self._agenda is None else self._agenda.now
            self._ends[uid] = now + left
        return left

    def _on_event(self, event: Event) -> None:
        uid = event.unit.metadata.uid
        if event.kind is EventKind.STARTED and uid in self._left:
            self._left.remove(uid)
            self._starts[uid] = event.now


class DrawnRuns:
    """Draws how long runs last on one path.

    All runs of a tenant on a path are longer or shorter by one factor: what a model does not know
    of a tenant is wrong for all of its runs at once, and draws that are independent of each other
    would hide that.

    Args:
        engine: The engine of the path; for reading.
        beliefs: What the model believes.
        seed: The seed of all that is drawn.
        path: The number of the path.
        traits: What is known of units, by uid; others are read from the engine, and added.
    """

    def __init__(
        self,
        engine: Engine,
        beliefs: RunTimes,
        seed: int,
        path: int,
        traits: dict[str, Traits] | None = None,
    ) -> None:
        self._engine = engine
        self._beliefs = beliefs
        self._seed, self._path = seed, path
        self._common = normal(seed, path, "drift")
        self._factors: dict[str, float] = {}
        self._traits: dict[str, Traits] = {} if traits is None else traits

    def __call__(self, unit: QueueUnit, ran: float) -> float:
        """Return how much longer a run lasts; see `RunSeconds`."""
        traits = self._traits_of(unit)
        luck = uniform(self._seed, self._path, unit.metadata.uid)
        return self._beliefs.seconds(traits, ran, luck) * self._factor(traits.tenant)

    def _traits_of(self, unit: QueueUnit) -> Traits:
        uid = unit.metadata.uid
        found = self._traits.get(uid)
        if found is None:
            record = self._engine.record(unit.metadata.key)
            assert record is not None, f"{unit.metadata.key} runs, and is not known"
            found = self._traits[uid] = traits_of_record(record)
        return found

    def _factor(self, tenant: str) -> float:
        factor = self._factors.get(tenant)
        if factor is None:
            own = normal(self._seed, self._path, f"drift of {tenant}")
            shift = sqrt(SHARED) * self._common + sqrt(1 - SHARED) * own
            factor = self._factors[tenant] = exp(DRIFT * shift)
        return factor
