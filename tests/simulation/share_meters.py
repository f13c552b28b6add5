"""Adds up what quotas and accounts of Fair queues have used, as far as it has not decayed.

In floating-point numbers, from what is charged and what quotas may have. An engine renews its order
when something is charged, and once a minute; so between two looks each use is known within bounds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from queue_scheduler.cache.charge_times import date_charges
from queue_scheduler.cache.usage import Charge
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import view_quota
from queue_scheduler.queueing.fair_settings import FairSettings, Level
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.fair_use import IDLE_HALF_LIVES, RENEW_SECONDS, SCALE, QueueUse
from queue_scheduler.tenants.quota_use import ADVANCE_SECONDS
from shared_api.objects.meta import Uid
from shared_api.quantity import piece_size
from tests.properties.quota_rates import QuotaRates, use_of

NEAR: Final = 1e-9
"""Uses that differ by less of themselves are equal."""

Path = tuple[str, ...]
"""An account, level by level."""


class Bounds(NamedTuple):
    """The least and the most that something may count in the engine's order."""

    least: float
    most: float

    def are_below(self, other: Bounds) -> bool:
        """Return whether it is less than another, wherever both are within their bounds."""
        return self.most * (1 + NEAR) + NEAR < other.least

    @property
    def is_zero(self) -> bool:
        return self.most == 0


def are_equal(one: float, other: float) -> bool:
    """Return whether two uses are equal, apart from rounding."""
    return math.isclose(one, other, rel_tol=NEAR, abs_tol=NEAR)


class _Sums:
    """Decayed sums by name, with what was added to each in the last minute."""

    def __init__(self, half_life: int, second: int) -> None:
        self.half_life, self.second = half_life, second
        self.values: dict[object, float] = defaultdict(float)
        self._late: dict[object, list[tuple[int, int, float]]] = defaultdict(list)

    def weight_of(self, first: int, last: int) -> float:
        """Return what a use of 1 each second counts now."""
        begin, end = (math.exp2((at - self.second) / self.half_life) for at in (first, last))
        return self.half_life / math.log(2) * (end - begin)

    def decay(self, second: int) -> float:
        """Let time pass; return what is left of 1."""
        left = math.exp2((self.second - second) / self.half_life)
        for name in self.values:
            self.values[name] *= left
        self.second = second
        for name, late in self._late.items():
            self._late[name] = [each for each in late if each[1] > second - RENEW_SECONDS]
        return left

    def add_late(self, name: object, first: int, last: int, rate: float) -> None:
        """Note that a part of a sum may not be in the order yet."""
        self._late[name].append((first, last, rate))

    def bounds(self, name: object, most: float) -> Bounds:
        """Return the bounds of a sum that is that much now."""
        since = self.second - RENEW_SECONDS
        late = sum(
            rate * self.weight_of(max(first, since), last)
            for first, last, rate in self._late.get(name, ())
        )
        return Bounds(max(0.0, most - late), most)


class QuotaMeter:
    """The use of the quotas of an engine whose queues take turns by it."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._use = engine, use_of(engine)
        self._rates = QuotaRates(engine)
        self._restarts = 0
        self._begin()

    def _begin(self) -> None:
        """Begin with what the engine has: it has begun anew with what was kept."""
        use = self._use
        self._restarts = self._rates.restarts
        self._sums = _Sums(use.half_life, use.second)
        self._sums.values |= self._of_engine()
        self._used_at = dict.fromkeys(map(str, self._sums.values), use.second)

    def pass_time(self, second: int) -> None:
        """Let time pass."""
        rates, sums = self._rates, self._sums
        first = rates.second
        if second <= first:
            return
        sums.decay(second)
        for name in rates.names():
            for begin, end in rates.pieces(name, first, second):
                rate = rates.in_second(name, begin)
                sums.values[name] += float(rate) * sums.weight_of(begin, end)
                if rate:
                    self._used_at[name] = end
                late = rate - rates.in_advance(name, begin)
                if late:
                    sums.add_late(name, begin, end, float(late))
        rates.pass_time(second)

    def follow(self) -> None:
        """Take what a call of the engine has changed."""
        self.pass_time(self._use.second)
        if self._restarts != self._rates.restarts:
            self._begin()

    def check(self) -> None:
        """Raise AssertionError if the engine has counted something else."""
        found = self._of_engine()
        for name in found.keys() | self._sums.values.keys():
            if name not in found and self._is_gone(str(name)):
                del self._sums.values[name]
                continue
            got, want = found.get(name, 0.0), self._sums.values[name]
            assert are_equal(got, want), f"quota {name} has used {got}, should be {want}"

    def _is_gone(self, name: str) -> bool:
        """Return whether the engine may have forgotten a quota: it is deleted, and long unused."""
        idle = self._sums.second - self._used_at.get(name, self._sums.second)
        is_known = view_quota(self._engine.plugins, name) is not None
        return not is_known and idle >= IDLE_HALF_LIVES * self._sums.half_life

    def _of_engine(self) -> dict[object, float]:
        use = self._use
        stored = use.stored(use.second)
        left = {each.path[0]: each.use.decayed(use.second, use.half_life) for each in stored}
        return {name: float(each / SCALE) for name, each in left.items()}

    def bounds(self, name: str) -> Bounds:
        """Return what a quota has used, with what is counted in advance."""
        sums, rates = self._sums, self._rates
        ahead = sum(
            float(rates.in_advance(name, begin)) * sums.weight_of(begin, end)
            for begin, end in rates.pieces(name, sums.second, sums.second + ADVANCE_SECONDS)
        )
        return sums.bounds(name, sums.values.get(name, 0.0) + ahead)

    def is_ahead(self, one: str, other: str) -> bool:
        """Return whether one quota has surely used less than another, level by level."""
        chains = [reversed(self._engine.plugins.chain(each)) for each in (one, other)]
        for ours, theirs in zip(*chains, strict=False):
            if ours != theirs:
                return self.bounds(ours).are_below(self.bounds(theirs))
        return False  # one is above the other

    def is_unused(self, quota: str) -> bool:
        """Return whether a quota and all above it have used nothing."""
        return all(self.bounds(each).is_zero for each in self._engine.plugins.chain(quota))


@dataclass
class _Run:
    """A charge that counts for an account.

    Attributes:
        path: The account.
        rate: What it uses each second.
        due: Until when it has counted in advance.
        is_known: Whether its quota was known when it was charged; else it is rated once it is.
        paid: What is left of what it has counted in advance; None: it is not known.
    """

    path: Path
    rate: float
    due: int
    is_known: bool
    paid: float | None = None


class AccountMeter:
    """The use of the accounts of one queue with the policy Fair."""

    def __init__(self, engine: Engine, use: QueueUse, name: str) -> None:
        self.of, self.settings = use, use.settings
        self._engine = engine
        second = engine.usage.fair.second
        self._sums = _Sums(self.settings.half_life, second)
        self._runs: dict[Uid, _Run] = {}
        self._changed_at: dict[Path, int] = {}
        for path in use.uses:
            of_engine = use.use_of(path, second).decayed(second, self.settings.half_life)
            self._sums.values[path] = float(of_engine / SCALE)
            self._changed_at[path] = second
        for uid, since, charge in date_charges(engine.units, second):
            if charge.is_admitted and charge.account.queue == name:
                due, path = since + self.settings.minimum_charge, self.path_of(charge.account)
                is_known = self._knows(charge.quota)
                self._runs[uid] = _Run(path, self._rate(charge), due, is_known)

    def is_of(self, use: QueueUse) -> bool:
        """Return whether it is still that of a queue's use: it may have begun anew."""
        ours, now = self.settings, use.settings
        are_comparable = (ours.levels, ours.resource_weights) == (now.levels, now.resource_weights)
        return self.of is use and are_comparable

    def take_settings(self, settings: FairSettings) -> None:
        """Take other weights or times: what was used until now stays."""
        self.settings = settings
        self._sums.half_life = settings.half_life

    # --- changes ------------------------------------------------------------------------------

    def pass_time(self, second: int) -> None:
        """Let time pass."""
        sums, first = self._sums, self._sums.second
        if second <= first:
            return
        left = sums.decay(second)
        for run in self._runs.values():
            run.paid = None if run.paid is None else run.paid * left
            begin = max(first, run.due)
            if begin >= second:
                continue
            self._add(run.path, run.rate * sums.weight_of(begin, second))
            for level in _levels_of(run.path):
                sums.add_late(level, begin, second, run.rate)

    def _add(self, path: Path, more: float) -> None:
        for level in _levels_of(path):
            self._sums.values[level] += more
            self._changed_at[level] = self._sums.second

    def follow(self, uid: Uid, charge: Charge | None, *, is_undone: bool) -> bool:
        """Take what is charged for a uid in this queue now; None: nothing is.

        Returns whether it is known: of a start before this meter began, that is undone, it is not.
        """
        known, second = self._runs.get(uid), self._sums.second
        path = None if charge is None else self.path_of(charge.account)
        if known is not None and (charge is None or known.path != path):
            del self._runs[uid]
            if is_undone and second < known.due:
                if known.paid is None:
                    return False
                self._add(known.path, -known.paid)
            known = None
        if charge is None or path is None:
            return True
        rate = self._rate(charge)
        if known is None:
            due = second + self.settings.minimum_charge
            paid = rate * self._sums.weight_of(second, due)
            self._runs[uid] = _Run(path, rate, due, self._knows(charge.quota), paid)
            self._add(path, paid)
        elif second < known.due:
            more = max(0.0, rate - known.rate) * self._sums.weight_of(second, known.due)
            known.paid = None if known.paid is None else known.paid + more
            self._add(path, more)
        if known is not None:
            known.rate, known.is_known = rate, self._knows(charge.quota)
        return True

    def is_rated(self, uid: Uid) -> bool:
        """Return whether a charge is rated, if it counts: its quota is known."""
        run = self._runs.get(uid)
        return run is None or run.is_known

    def _knows(self, quota: str) -> bool:
        view = view_quota(self._engine.plugins, quota)
        return view is not None and view.usable

    def path_of(self, account: Account) -> Path:
        """Return the account of this queue that something counts for."""
        names = {
            Level.USER: account.user,
            Level.GROUP: account.group,
            Level.NAMESPACE: account.namespace,
        }
        return tuple(names[level] for level in self.settings.levels)

    def _rate(self, charge: Charge) -> float:
        """Return the largest share of what the topmost quota may have, or the weighted sum."""
        weights = self.settings.resource_weights
        if weights:
            parts = (weights.get(r, 0) * n / piece_size(r) for r, n in charge.amounts.items())
            return sum(parts)
        most = 0.0
        chain = self._engine.plugins.chain(charge.quota) if self._knows(charge.quota) else ()
        for resource, amount in charge.amounts.items():
            limits = (self._max_of(quota, resource) for quota in reversed(chain))
            limit = next(filter(None, limits), 1_000_000 * piece_size(resource))
            most = max(most, amount / limit)
        return most

    def _max_of(self, quota: str, resource: str) -> int:
        view = view_quota(self._engine.plugins, quota)
        return 0 if view is None else view.max.get(resource, 0)

    # --- questions ----------------------------------------------------------------------------

    def check(self, story: str) -> None:
        """Raise AssertionError with the story if the engine has counted something else."""
        use, second, half_life = self.of, self._sums.second, self.settings.half_life
        for path in use.uses.keys() | self._sums.values.keys():
            assert isinstance(path, tuple)
            got = float(use.use_of(path, second).decayed(second, half_life) / SCALE)
            want = self._sums.values[path]
            if path not in use.uses and self._is_idle(path):
                del self._sums.values[path]
                continue
            assert are_equal(got, want), f"{story}: {path} has used {got}, should be {want}"

    def _is_idle(self, path: Path) -> bool:
        """Return whether the engine may have forgotten an account."""
        since = self._changed_at.get(path, 0)
        is_running = any(path in _levels_of(run.path) for run in self._runs.values())
        return not is_running and self._sums.second - since >= (
            IDLE_HALF_LIVES * self.settings.half_life
        )

    def is_ahead(self, one: Path, other: Path) -> bool | None:
        """Return whether an account surely has its turn before another; None: they are level."""
        for ours, theirs in zip(_levels_of(one), _levels_of(other), strict=True):
            if ours == theirs:
                continue
            (is_last, used), (is_other_last, other_used) = map(self._standing, (ours, theirs))
            if is_last != is_other_last:
                return is_other_last
            if not (used.is_zero and other_used.is_zero):
                return used.are_below(other_used)
        return None

    def _standing(self, path: Path) -> tuple[bool, Bounds]:
        """Return whether an account has no weight, and its use by its weight."""
        weight = self.settings.weights.get((self.settings.levels[len(path) - 1], path[-1]), 1)
        least, most = self._sums.bounds(path, self._sums.values.get(path, 0.0))
        if self._is_idle(path):
            least = 0.0
        return not weight, Bounds(least / (weight or 1), most / (weight or 1))


def _levels_of(path: Path) -> Iterator[Path]:
    return (path[: place + 1] for place in range(len(path)))
