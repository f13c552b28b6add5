"""What fair order, limits and budgets cost: decisions per second with them, beside without.

All times are CPU times of this process, and the engines that are compared take turns, since the
machine's speed drifts.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Final

from msgspec.structs import replace

from queue_scheduler.decision import Dequeue
from queue_scheduler.tenants.ledger import Ledger, StoredAccounts
from queue_scheduler.tenants.periods import find_calendars
from shared_api.objects.quota_policy import Budget, QuotaPolicy, UserLimit
from shared_api.well_known_labels import USER
from tests.benchmarks.engine_load import EngineLoad, flat_load
from tests.benchmarks.figures import Figure
from tests.fair_team import FairTeam
from tests.properties.engine_kit import (
    WALL,
    admitted,
    build_policy,
    build_quota,
    build_unit,
    changed,
    declaring,
    wall_time,
)

SECOND: Final = 1_800_000_000
TURNS: Final = 12
"""A figure is the median of the ratios of so many slices."""
LIVES: Final = 500
"""Lives in a slice."""
AT_MOST_SECONDS: Final = 30.0
QUEUES: Final = 100
USERS: Final = 100
SHAPES: Final = 50
ENDS_IN_SECOND: Final = 10

WAITING: Final = 2_000
"""Classes that wait for a budget; 499 of them fit once it has room again."""

PLENTY: Final = 10**9
BUDGETS: Final = (Budget(resource="cpu", hours=PLENTY, period="Month"),)
LIMITS: Final = (UserLimit(users=("*",), max={"cpu": str(PLENTY)}),)


def run(*, quick: bool = False) -> list[Figure]:
    """Return all figures; `quick` has a tenth of the units."""
    pending, turns = (500, 3) if quick else (5_000, TURNS)
    waiting = 200 if quick else WAITING
    return [
        _fair_figure(pending, turns),
        *_policy_figures(2 * pending, turns),
        _release_figure(waiting, turns),
    ]


# --- fair order ---------------------------------------------------------------------------------


@dataclass
class TeamLoad:
    """One queue with 100 users and units of 50 sizes, of which one ends and one is made in turn."""

    policy: str
    starts: int = 0
    _team: FairTeam = field(init=False)
    _made: int = 0
    _version: int = 10**6
    _running: list[str] = field(default_factory=list)
    _chance: random.Random = field(default_factory=lambda: random.Random(1))

    def __post_init__(self) -> None:
        """Start with an empty queue."""
        self._team = FairTeam(cpu=1000, policy=self.policy, validates=False)

    def fill(self, pending: int) -> None:
        """Add so many units, and start those that fit."""
        for _ in range(pending):
            self._ask()
        self._decide()
        self.starts = 0

    def seconds(self, ends: int) -> float:
        """End so many units, each followed by a new one; return the CPU seconds of a start."""
        self.starts, began = 0, time.process_time()
        for number in range(ends):
            if number % ENDS_IN_SECOND == 0:
                self._team.pass_time(1)
            self._end()
            self._ask()
            self._decide()
        return (time.process_time() - began) / self.starts

    def _ask(self) -> None:
        self._made += 1
        user = f"user-{self._chance.randrange(USERS)}"
        cpu = 1 + self._chance.randrange(SHAPES)
        self._team.put(
            build_unit(
                f"u{self._made}",
                "vision",
                queue="q",
                created=self._made,
                labels={USER: user},
                cpu=cpu,
            )
        )

    def _end(self) -> None:
        engine, running = self._team.engine, self._running
        place = self._chance.randrange(len(running))
        running[place], running[-1] = running[-1], running[place]
        record = engine.record(running.pop())
        assert record is not None
        self._version += 1
        ended = changed(record.unit, self._version, "Succeed", admissions=())
        self._team.put(ended)
        self._team.workers.wake(engine.on_queue_unit_gone(ended))

    def _decide(self) -> None:
        engine, workers = self._team.engine, self._team.workers
        while not workers.is_quiet():
            decision = workers.step()
            if isinstance(decision, Dequeue):
                record = engine.record(decision.unit)
                assert record is not None
                self._version += 1
                written = admitted(record.unit, self._version, grants=decision.grants)
                workers.wake(engine.on_written(decision, written))
                self._running.append(decision.unit)
                self.starts += 1


def _fair_figure(pending: int, turns: int) -> Figure:
    """Return starts per second with the policy Fair; the control has Priority."""
    fair, plain = TeamLoad("Fair"), TeamLoad("Priority")
    for load in (fair, plain):
        load.fill(pending)
        load.seconds(LIVES // 5)
    gc.collect()
    gc.freeze()
    pairs = [(fair.seconds(LIVES), plain.seconds(LIVES)) for _ in range(turns)]
    return _figure(
        "fair_starts",
        pairs,
        f"{USERS} users, {SHAPES} sizes, {pending} pending; control: Priority",
    )


# --- limits and budgets -------------------------------------------------------------------------


def _policy_figures(pending: int, turns: int) -> list[Figure]:
    """Return decisions per second with policies for other quotas, and for all."""
    worlds = {
        "plain": ("accounts; control: without accounts", _load(pending, keeps=False)),
        "elsewhere": ("limits and budgets of other quotas", _load(pending, "elsewhere")),
        "limits": ("limits of users on every quota", _load(pending, limits=LIMITS)),
        "budgets": ("budgets on every quota", _load(pending, budgets=BUDGETS)),
        "both": ("both on every quota", _load(pending, limits=LIMITS, budgets=BUDGETS)),
    }
    accounts = _load(pending)
    loads = [accounts, *(load for _, load in worlds.values())]
    for load in loads:
        load.run(LIVES, at_most_seconds=AT_MOST_SECONDS)
    gc.collect()
    gc.freeze()
    slices = [[_slice_seconds(load) for load in loads] for _ in range(turns)]
    figures: list[Figure] = []
    for place, (name, (says, _)) in enumerate(worlds.items(), start=1):
        pairs = [(each[place], each[0]) for each in slices]
        if name == "plain":
            pairs = [(with_accounts, without) for without, with_accounts in pairs]
        note = says if name == "plain" else f"{says}; control: accounts alone"
        figures.append(_figure(f"tenants_{name}_decisions", pairs, note))
    return figures


def _load(
    pending: int,
    where: str = "everywhere",
    *,
    keeps: bool = True,
    limits: Sequence[UserLimit] = (),
    budgets: Sequence[Budget] = (),
) -> EngineLoad:
    load = flat_load(pending, QUEUES, has_room=True)
    engine = load.engine
    if keeps:
        engine.usage.ledger = Ledger()
        engine.on_time(datetime.fromtimestamp(SECOND, UTC))
        engine.on_accounts(StoredAccounts())  # what the load has started is charged now
    quotas = load.queues
    if where == "elsewhere":
        quotas, limits, budgets = ["elsewhere"], LIMITS, BUDGETS
        engine.on_quota(build_quota("elsewhere", cpu=10))
    if limits or budgets:
        engine.on_calendars(find_calendars(tuple(budgets), SECOND))
        for number in range(0, len(quotas), 50):
            engine.on_quota_policy(_policy(number, quotas[number : number + 50], limits, budgets))
    load.forget_figures()
    return load


def _policy(
    number: int, quotas: Sequence[str], limits: Sequence[UserLimit], budgets: Sequence[Budget]
) -> QuotaPolicy:
    policy = build_policy(f"policy-{number}", quotas)
    spec = replace(policy.spec, user_limits=tuple(limits), budgets=tuple(budgets))
    return replace(policy, spec=spec)


def _release_figure(waiting: int, turns: int) -> Figure:
    """Return how long a release takes that lets some of many classes pass a budget."""
    team = FairTeam(cpu=PLENTY, policy="Priority", validates=False)
    engine, workers = team.engine, team.workers
    engine.usage.ledger = Ledger()
    engine.on_time(wall_time(WALL + 1))
    # The one that runs is promised 2,500 hours, and the others ask for 501 and more.
    budgets = (Budget(resource="cpu", hours=3_000, period="Month"),)
    engine.on_calendars(find_calendars(budgets, WALL))
    engine.on_quota_policy(_policy(0, ["vision"], (), budgets))
    team.put(declaring(build_unit("big", "vision", queue="q", cpu=500), 5 * 3600))
    team.rest()
    for number in range(waiting):
        unit = build_unit(f"u{number}", "vision", queue="q", created=number + 1, cpu=501 + number)
        team.put(declaring(unit, 3 * 3600))
    workers.run()
    record = engine.record("ns/big")
    assert record is not None
    ended = changed(record.unit, 10**6, "Succeed", admissions=())
    gc.collect()
    gc.freeze()
    longest = 0.0
    for _ in range(turns):
        twin = engine.fork()
        # The first change of a copy takes containers of its own.
        twin.on_queue_unit(build_unit("last", "vision", queue="q", created=waiting + 1))
        began = time.process_time()
        twin.on_queue_unit(ended)
        longest = max(longest, time.process_time() - began)
    gc.unfreeze()
    return Figure(
        name="budget_release_ms",
        value=1e3 * longest,
        unit="ms",
        note=f"one release, {waiting} classes wait for the budget; the longest hold of the lock",
    )


def _slice_seconds(load: EngineLoad) -> float:
    """Play a slice; return the CPU seconds of a life."""
    load.forget_figures()
    load.run(LIVES, at_most_seconds=AT_MOST_SECONDS)
    return load.seconds / load.lives


def _figure(name: str, pairs: Sequence[tuple[float, float]], note: str) -> Figure:
    """Return a figure of pairs of seconds, whose ratio is the median of the pairs' ratios."""
    control = 1 / median(plain for _, plain in pairs)
    ratio = median(plain / seconds for seconds, plain in pairs)
    return Figure(
        name=f"{name}_per_second", value=ratio * control, unit="1/s", control=control, note=note
    )
