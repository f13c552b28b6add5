"""How long runs last: the model that forecasts use unless another is installed. Pure.

A unit's run is drawn from the survival estimate of the finest group that it belongs to; each group
borrows from the one above it (``survival``):

    all units --> those of the tenant --> of its user --> of this user with this kind of job and
    request --> the newest of these

Without a user the third is left out. The last group is there because jobs are submitted in
campaigns: the next one resembles those of the same day more than those of the month. A fresh
installation believes a log-normal prior.

A declared maximum always ends the run (``insight.virtual_cluster`` does that). It is an estimate,
too, only where the history of that user shows it: if what its runs took of what they declared
spreads less than their run times do, the share is drawn, and else the run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from queue_insight.forecast.survival import Curve, Group, hazards, log_normal_hazards
from queue_insight.forecast.traits import Traits, traits_of_run
from queue_insight.insight.finished_run import FinishedRun

DAY: Final = 86_400.0

BORROWED: Final = 16.0
"""Runs that a group borrows from the one above it. Of 4, 8, 16 and 32, the best mean pinball loss
of the logarithm of the next run time in the first six weeks of the public Philly trace; the others
are worse by less than 3 %."""

SLOW_DAYS: Final = 14.0
"""Age at which a run counts half; the better of 5 and 14, measured in the same way."""

FAST_DAYS: Final = 0.5
"""Age at which a run counts half in the group of the newest: with 0.25 the loss is lower by 1 %,
with 1 higher by 3 %, and without that group by 18 %."""

PRIOR_MEDIAN: Final = 1200.0
PRIOR_SIGMA: Final = 2.0
"""Median in seconds, and standard deviation of the logarithm, of the same six weeks."""

FIRST_SHARE: Final = 0.3
FIRST_SHARE_SIGMA: Final = 1.5
"""What runs take of what they declare, before any is known: about a third, and rather less."""

SHOWN: Final = 10.0
"""Runs with a declared maximum that must have ended before it is taken as an estimate."""

WHOLE: Final = 2.0**20
"""Shares are counted on the grid of the run times; this is a share of 1."""

NEARLY: Final = 0.99
"""A run that took this share of what it declared was ended by it, and might have lasted longer."""

NEWEST: Final = "newest"

MAX_GROUPS: Final = 20_000
"""Groups of runs that are known, a kilobyte each; above that, those that had no run for longest are
forgotten, and their units are believed to run like those of the larger group."""

Key = tuple[str, ...]
_GroupsOf = Callable[[Traits], tuple[Key, ...]]


class Running(msgspec.Struct, frozen=True, gc=False):
    """A unit whose pods run, and for how many seconds."""

    traits: Traits
    ran: float


class RunTimes(Protocol):
    """What a model believes at one moment."""

    def seconds(self, traits: Traits, ran: float, luck: float) -> float:
        """Return how much longer a run lasts.

        Args:
            traits: What is known of the unit.
            ran: For how many seconds its pods have run; 0: it starts.
            luck: From 0 to 1: which share of such runs is shorter. The answer grows with it.
        """


class RunTimeModel(Protocol):
    """Estimates run times from runs that have ended. Used by one thread."""

    def learn(self, run: FinishedRun) -> None:
        """Take a run that has ended. Runs come in the order of their ends."""

    def at(self, epoch: float, running: Iterable[Running]) -> RunTimes:
        """Return what is believed at a time, in seconds since the epoch."""


class SurvivalRunTimes:
    """The model of this module.

    Args:
        borrowed: Runs that a group borrows from the one above it.
    """

    name = "Survival"

    def __init__(self, borrowed: float = BORROWED) -> None:
        self._runs = _Groups(borrowed, groups_of, _PRIOR)
        self._shares = _Groups(borrowed, share_groups_of, _SHARE_PRIOR)

    def learn(self, run: FinishedRun) -> None:
        """Take a run that has ended; one that never started teaches nothing."""
        if run.started is None:
            return
        seconds = max(1.0, run.ended - run.started)
        is_cut = not run.is_whole
        traits = traits_of_run(run)
        declared = traits.declared
        is_killed = declared is not None and seconds >= NEARLY * declared
        self._runs.add(traits, seconds, run.ended, is_cut=is_cut or is_killed)
        if declared:
            self._shares.add(traits, seconds / declared * WHOLE, run.ended, is_cut=is_cut)

    def at(self, epoch: float, running: Iterable[Running]) -> RunTimes:
        """Return what is believed at a time, in seconds since the epoch."""
        running = list(running)
        runs = self._runs.at(epoch, ((each.traits, each.ran) for each in running))
        shares = self._shares.at(
            epoch,
            (
                (each.traits, each.ran / each.traits.declared * WHOLE)
                for each in running
                if each.traits.declared
            ),
        )
        return _Beliefs(runs, shares)


class _Beliefs:
    """What is believed at one moment."""

    def __init__(self, runs: _Curves, shares: _Curves) -> None:
        self._runs, self._shares = runs, shares
        self._by_share: dict[Key, bool] = {}

    def seconds(self, traits: Traits, ran: float, luck: float) -> float:
        """Return how much longer a run lasts."""
        declared = traits.declared
        if declared and self._is_by_share(traits):
            share = self._shares.curve(traits).quantile(luck, ran / declared * WHOLE)
            return max(0.0, share / WHOLE * declared - ran)
        return max(0.0, self._runs.curve(traits).quantile(luck, ran) - ran)

    def _is_by_share(self, traits: Traits) -> bool:
        key = groups_of(traits)[-1]
        by_share = self._by_share.get(key)
        if by_share is None:
            shares = self._shares
            by_share = (
                shares.ended(traits) >= SHOWN
                and shares.curve(traits).spread() < self._runs.curve(traits).spread()
            )
            self._by_share[key] = by_share
        return by_share


def groups_of(traits: Traits) -> tuple[Key, ...]:
    """Return the groups of a unit, from all units to the finest."""
    kind = (traits.tenant, traits.user, traits.kind)
    return (*share_groups_of(traits), kind, (*kind, NEWEST))


def share_groups_of(traits: Traits) -> tuple[Key, ...]:
    """Return the groups by which shares of declared maxima are known: up to those of its user."""
    tenant = traits.tenant
    if not traits.user:
        return ((), (tenant,))
    return ((), (tenant,), (tenant, traits.user))


_PRIOR: Final = log_normal_hazards(PRIOR_MEDIAN, PRIOR_SIGMA)
_SHARE_PRIOR: Final = log_normal_hazards(FIRST_SHARE * WHOLE, FIRST_SHARE_SIGMA)


class _Groups:
    """Runs by group; instead of making older ones count less, newer ones count more."""

    def __init__(self, borrowed: float, groups: _GroupsOf, prior: list[float]) -> None:
        self._borrowed = borrowed
        self._groups_of = groups
        self._prior = prior
        self._since: float | None = None
        self._groups: dict[Key, Group] = {}

    def add(self, traits: Traits, value: float, ended: float, *, is_cut: bool) -> None:
        if self._since is None:
            self._since = ended
        age = ended - self._since
        for key in self._groups_of(traits):
            # The one that had no run for longest stays the first.
            group = self._groups.pop(key) if key in self._groups else Group()
            self._groups[key] = group
            if len(self._groups) > MAX_GROUPS:
                del self._groups[next(iter(self._groups))]
            group.add(value, 2.0 ** (age / _half_life(key)), is_cut=is_cut)

    def at(self, epoch: float, going: Iterable[tuple[Traits, float]]) -> _Curves:
        age = 0.0 if self._since is None else epoch - self._since
        by_group: dict[Key, list[float]] = {}
        for traits, value in going:
            for key in self._groups_of(traits):
                by_group.setdefault(key, []).append(value)
        return _Curves(self._groups, self._groups_of, self._borrowed, self._prior, age, by_group)


class _Curves:
    """The estimates of groups at one moment; each is made when it is needed first."""

    def __init__(
        self,
        groups: dict[Key, Group],
        groups_of: _GroupsOf,
        borrowed: float,
        prior: list[float],
        age: float,
        going: dict[Key, list[float]],
    ) -> None:
        self._groups, self._groups_of = groups, groups_of
        self._borrowed, self._prior, self._age, self._going = borrowed, prior, age, going
        self._rates: dict[Key, list[float]] = {}
        self._curves: dict[Key, Curve] = {}
        self._of: dict[Traits, Curve] = {}

    def ended(self, traits: Traits) -> float:
        """Return how many runs of the finest group have ended, older ones counted less."""
        key = self._groups_of(traits)[-1]
        group = self._groups.get(key)
        return 0.0 if group is None else group.total * self._scale(key)

    def curve(self, traits: Traits) -> Curve:
        """Return the estimate of the finest group."""
        curve = self._of.get(traits)
        if curve is None:
            keys = self._groups_of(traits)
            curve = self._curves.get(keys[-1])
            if curve is None:
                curve = self._curves[keys[-1]] = Curve(self._rates_of(keys))
            self._of[traits] = curve
        return curve

    def _rates_of(self, keys: tuple[Key, ...]) -> list[float]:
        key = keys[-1]
        rates = self._rates.get(key)
        if rates is None:
            larger = self._rates_of(keys[:-1]) if len(keys) > 1 else self._prior
            going = self._going.get(key, ())
            scale = self._scale(key)
            rates = hazards(self._groups.get(key), larger, self._borrowed, scale, going)
            self._rates[key] = rates
        return rates

    def _scale(self, key: Key) -> float:
        return float(2.0 ** (-self._age / _half_life(key)))


def _half_life(key: Key) -> float:
    return DAY * (FAST_DAYS if key and key[-1] == NEWEST else SLOW_DAYS)
