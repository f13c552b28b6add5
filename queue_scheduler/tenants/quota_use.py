"""What quotas have used above their `min`, as far as it has not decayed: whose turn is next. Pure.

Where queues take turns by use (the setting `fairTurns`), each quota has a `ScaledUse`. What units
are charged in it and below it counts as a rate: of each resource that its `max` names what is above
`min`, divided by the quota's part, by `shared-weight`, of what it and its siblings may have; the
largest of these counts. Use up to `min` is guaranteed, and counts nothing.

What a rate rises by is counted for a minute in advance, so that of many units that start at once
not all are of one queue. What is counted in advance is not counted again when the minute passes,
and serves what starts in place of a unit that ends before.

A *rank* is the use of a quota as a number, as of its last renewal: at charges, and once a minute.
Ranks never get smaller: weights count when something is charged, and a start that is undone leaves
what it has counted in advance to the next one. Only the use of a quota that does not exist is
forgotten, once it has decayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from fractions import Fraction
from functools import reduce
from heapq import nlargest
from typing import Final, Protocol

import msgspec

from queue_scheduler.framework.plugin_questions import view_all_quotas
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.quota.quota_view import QuotaView
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.fair_use import (
    IDLE_HALF_LIVES,
    MAX_STORED,
    RENEW_SECONDS,
    SCALE,
    StoredUse,
    StoredUses,
)
from queue_scheduler.tenants.scaled_use import Power, ScaledUse, power, scale_between
from shared_api.objects.meta import Uid
from shared_api.resource_list import Amounts

ADVANCE_SECONDS: Final = 60
"""What a rate rises by is counted for so long at once; the default `minimumCharge` of Fair."""

LEVELS: Final = ("quota",)
"""The levels of what is kept outside; it has the queue "", and no queue can have that name."""


class Charged(Protocol):
    """A charge of a uid."""

    @property
    def account(self) -> Account:
        """The account that it is counted for."""

    @property
    def amounts(self) -> Amounts:
        """What is charged, in base units."""


class _Terms(msgspec.Struct, frozen=True, gc=False):
    """What the rate of a quota follows from, apart from its charges.

    Attributes:
        mins: What is guaranteed, by resource.
        parts: By resource, the amount that counts as 1, as a fraction (numerator, denominator): its
            part, by weight, of the sum of what all its siblings may have.
        beside: Its siblings, itself included.
    """

    mins: Amounts
    parts: dict[str, tuple[int, int]]
    beside: tuple[str, ...] = ()


class _Use(msgspec.Struct, gc=False):
    """The use of one quota.

    Attributes:
        settled: What it had used until `second`, with what is counted in advance.
        second: The second of its last change.
        used: What is charged in it and below it.
        rate: What it uses per second from then on, above its `min`.
        advances: What it rose by, and is counted until a second: (second, rate), ascending.
        rank: That of `settled` when it was last renewed.
    """

    settled: ScaledUse
    second: int
    used: Amounts
    rate: int = 0
    advances: tuple[tuple[int, int], ...] = ()
    rank: int = 0


class QuotaUse:
    """The use of all quotas.

    Attributes:
        second: The time, in seconds since the epoch; 0: not known yet.
        half_life: The half-life of use, in seconds.
        moved: The quotas whose ranks may have grown.
    """

    def __init__(self, plugins: PluginRunner, half_life: int) -> None:
        """Start without use; `plugins` know what quotas may have."""
        self.second = 0
        self.half_life = half_life
        self.moved: dict[str, None] = {}
        self._plugins = plugins
        self._uses: dict[str, _Use] = {}
        # What is charged to each quota itself; the sums of those above follow from it.
        self._charged: dict[str, Amounts] = {}
        self._chains: dict[str, tuple[str, ...]] = {}
        self._terms: dict[str, _Terms] = {}
        self._is_stale = False
        self._powers: dict[int, Power] = {}

    # --- questions ----------------------------------------------------------------------------

    def ranks(self, quota: str) -> tuple[int, ...]:
        """Return the ranks of the quotas above a quota and its own, the topmost first.

        Two of them can be compared: quotas that are above both have the same ranks, so the first
        quotas that are siblings decide. Zeros at the end are left out: otherwise, of two quotas
        without use, the less deep one would be first.
        """
        uses = self._uses
        ranks: list[int] = []
        for name in self._chain(quota):
            use = uses.get(name)
            rank = 0 if use is None else use.rank
            if rank or ranks:
                ranks.append(rank)
        ranks.reverse()
        return tuple(ranks)

    def share_used(self, quota: str) -> Fraction:
        """Return how many times its share a quota has used; 0 if it and its siblings used nothing.

        That is its use above `min` by its weight, divided by what siblings have used on average; as
        of the last renewals, as its rank is.
        """
        beside, uses = self._terms_of(quota).beside, self._uses
        known = [uses[name].settled for name in beside if name in uses]
        own = uses.get(quota)
        if own is None:
            return Fraction(0)
        return own.settled.part_of(reduce(ScaledUse.plus, known, ScaledUse())) * len(beside)

    def known(self) -> tuple[str, ...]:
        """Return the quotas whose use is known; all others have used nothing."""
        return tuple(self._uses)

    def level_between(self, one: str, other: str) -> tuple[str, str] | None:
        """Return the siblings at which the chains of two quotas part; None: one is above the other.

        Their use decides which of the two quotas has its turn.
        """
        pairs = zip(reversed(self._chain(one)), reversed(self._chain(other)), strict=False)
        return next((pair for pair in pairs if pair[0] != pair[1]), None)

    # --- facts --------------------------------------------------------------------------------

    def advance(self, second: int) -> None:
        """Let time pass; an earlier second than the present one changes nothing."""
        before = self.second
        if second <= before:
            return
        self.second = second
        if self._is_stale:
            self._count_anew()
        if before // RENEW_SECONDS != second // RENEW_SECONDS:
            for name, use in list(self._uses.items()):
                if use.rate or use.advances:
                    self._settle(name, use)
                elif not use.used:
                    self._forget_idle(name, use)
        if len(self._powers) > 4 * ADVANCE_SECONDS:
            self._powers.clear()

    def on_charge(self, before: Charged | None, after: Charged | None) -> None:
        """Take a change of what is charged for one uid; None: nothing is."""
        # The net change of each quota: what is given back and taken at once would count as a rise,
        # of a unit that counts for another user, or in another quota below the same one.
        changes: dict[str, Amounts] = {}
        for sign, each in ((-1, before), (1, after)):
            if each is None:
                continue
            quota = each.account.quota
            items = [(name, sign * amount) for name, amount in each.amounts.items()]
            charged = self._charged.setdefault(quota, {})
            _add_up(charged, items)
            if not charged:
                del self._charged[quota]
            if not self._is_stale:  # else all is counted anew with the next second
                for name in self._chain(quota):
                    _add_up(changes.setdefault(name, {}), items)
        for name, change in changes.items():
            if change:
                use = self._uses.get(name)
                if use is None:
                    use = self._uses[name] = _Use(ScaledUse(), self.second, {})
                _add_up(use.used, change.items())
                self._set_rate(name, use)

    def on_quotas_changed(self) -> None:
        """Note that quotas, or the amounts that they may have, have changed; it counts from now on.

        Sums and rates are computed anew at the next second, since all of them may differ.
        """
        self._chains, self._terms, self._is_stale = {}, {}, True

    def restart(self, charges: Iterable[tuple[Uid, int, Charged]], stored: StoredUses) -> None:
        """Begin anew with what is charged now, and what was kept of the use before.

        Args:
            charges: All charges, each with the second since when, ascending.
            stored: What was kept.
        """
        for _ in self.restarting(charges, stored):
            pass

    def restarting(
        self, charges: Iterable[tuple[Uid, int, Charged]], stored: StoredUses
    ) -> Iterator[None]:
        """Do the same in steps of some microseconds; until the last, use is incomplete."""
        now = self.second
        settled = min(stored.second, now)
        self._uses, self._charged, self._is_stale = {}, {}, False
        for name, use in self._read(stored):
            self._uses[name] = _Use(use, settled, {})
            yield
        # As if they were charged at these times, one after the other.
        for _, since, each in charges:
            self.second = min(max(since, settled), now)
            self.on_charge(None, each)
            yield
        self.second = now
        for name, known in self._uses.items():
            self._settle(name, known)
            yield

    def _read(self, stored: StoredUses) -> Iterator[tuple[str, ScaledUse]]:
        for each in stored.uses:
            if not each.queue and each.levels == LEVELS:
                yield each.path[0], each.scaled_by(self.half_life, stored.second)

    def take_moved(self) -> dict[str, None]:
        """Return, once, the quotas whose ranks may have grown."""
        moved, self.moved = self.moved, {}
        return moved

    # --- what is kept, copies -----------------------------------------------------------------

    def stored(self, second: int, most: int = MAX_STORED // 2) -> tuple[StoredUse, ...]:
        """Return what is to be kept of quotas at a second: of those that have used the most.

        Without what is counted in advance: a process that begins with it counts that itself.
        """
        found = []
        for name, use in self._uses.items():
            known = copy(use)
            self._settle_until(known, max(second, use.second))
            now, left = self._power(known.second), known.settled
            for due, rate in known.advances:
                left = left.minus(scale_between(rate, now, self._power(due), self.half_life))
            if left.mantissa:
                digits = str(left.mantissa)
                found.append(StoredUse("", LEVELS, self.half_life, (name,), digits, left.exponent))
        largest = nlargest(most, found, key=lambda each: (each.use.rank(1), each.path))
        return tuple(sorted(largest, key=lambda each: each.path))

    def state(self) -> list[object]:
        """Return what quotas have used, in the same order in every process."""
        each = ((name, use.settled, use.second, use.rate) for name, use in self._uses.items())
        return [self.second, sorted(one for one in each if one[1].mantissa or one[3])]

    def fork(self, plugins: PluginRunner) -> QuotaUse:
        """Return an independent copy over forked plugins."""
        twin = QuotaUse(plugins, self.half_life)
        twin.second, twin.moved, twin._is_stale = self.second, dict(self.moved), self._is_stale
        for name, use in self._uses.items():
            own = twin._uses[name] = copy(use)
            own.used = dict(use.used)
        twin._charged = {name: dict(amounts) for name, amounts in self._charged.items()}
        twin._chains, twin._terms = dict(self._chains), dict(self._terms)
        return twin

    def validate(self, charges: Iterable[Charged]) -> None:
        """Raise AssertionError unless what is charged to quotas is the sum of the charges."""
        want: dict[str, Amounts] = {}
        for each in charges:
            sums = want.setdefault(each.account.quota, {})
            for name, amount in each.amounts.items():
                sums[name] = sums.get(name, 0) + amount
        want = {quota: kept for quota, sums in want.items() if (kept := _nonzero(sums))}
        got = {quota: kept for quota, sums in self._charged.items() if (kept := _nonzero(sums))}
        assert got == want, f"turns count {got}, should be {want}"

    # --- inside -------------------------------------------------------------------------------

    def _count_anew(self) -> None:
        """Count what is charged by the quotas as they are now."""
        self._is_stale = False
        sums: dict[str, Amounts] = {}
        for quota, amounts in self._charged.items():
            for name in self._chain(quota):
                _add_up(sums.setdefault(name, {}), list(amounts.items()))
        for name in sums:
            if name not in self._uses:
                self._uses[name] = _Use(ScaledUse(), self.second, {})
        for name in sorted(self._uses):
            use = self._uses[name]
            use.used = sums.get(name, {})
            self._set_rate(name, use)

    def _set_rate(self, name: str, use: _Use) -> None:
        second = max(self.second, use.second)
        rate = self._rate(name, use.used)
        if rate == use.rate:
            return
        self._settle_until(use, second)
        covered = max(use.rate, sum(each for _, each in use.advances))
        use.rate = rate
        if rate > covered and second:
            due, more = second + ADVANCE_SECONDS, rate - covered
            first, last = self._power(second), self._power(due)
            use.settled = use.settled.plus(scale_between(more, first, last, self.half_life))
            *others, newest = use.advances or ((0, 0),)
            if newest[0] == due:
                use.advances = (*others, (due, newest[1] + more))
            else:
                use.advances = (*use.advances, (due, more))
        self._publish(name, use)

    def _settle(self, name: str, use: _Use) -> None:
        self._settle_until(use, max(self.second, use.second))
        self._publish(name, use)

    def _forget_idle(self, name: str, use: _Use) -> None:
        """Forget a quota that is not known, and has used nothing for long: units name any quota."""
        idle = self.second - use.second
        has_decayed = not use.settled.mantissa or idle >= IDLE_HALF_LIVES * self.half_life
        if has_decayed and not self._terms_of(name).beside:
            del self._uses[name], self._terms[name]
            self._chains.pop(name, None)

    def _publish(self, name: str, use: _Use) -> None:
        use.rank = use.settled.rank(1)
        self.moved[name] = None

    def _settle_until(self, use: _Use, second: int) -> None:
        """Count what is used until a second, apart from what is counted in advance."""
        while use.advances and use.advances[0][0] <= second:
            self._settle_within(use, use.advances[0][0])
            use.advances = use.advances[1:]
        self._settle_within(use, second)

    def _settle_within(self, use: _Use, second: int) -> None:
        rate = use.rate - sum(each for _, each in use.advances)
        if rate > 0 and second > use.second:
            first, last = self._power(use.second), self._power(second)
            use.settled = use.settled.plus(scale_between(rate, first, last, self.half_life))
        use.second = second

    def _rate(self, name: str, used: Amounts) -> int:
        terms, most = self._terms_of(name), 0
        mins, parts = terms.mins, terms.parts
        for resource, amount in used.items():
            above = amount - mins.get(resource, 0)
            if above > 0:
                part = parts.get(resource)
                if part is not None:
                    most = max(most, above * SCALE * part[1] // part[0])
        return most

    def _power(self, second: int) -> Power:
        found = self._powers.get(second)
        if found is None:
            found = self._powers[second] = power(second, self.half_life)
        return found

    # --- what quotas may have -----------------------------------------------------------------

    def _chain(self, quota: str) -> tuple[str, ...]:
        known = self._chains.get(quota)
        if known is None:
            known = self._chains[quota] = self._plugins.chain(quota)
        return known

    def _terms_of(self, quota: str) -> _Terms:
        known = self._terms.get(quota)
        if known is None:
            if not self._terms:
                self._terms = self._find_terms()
            known = self._terms.setdefault(quota, _Terms({}, {}))
        return known

    def _find_terms(self) -> dict[str, _Terms]:
        views = view_all_quotas(self._plugins)
        mins = _add_mins_up(views)
        families: dict[tuple[str, str], tuple[Amounts, Amounts, list[str]]] = {}
        for view in views:
            weights, most, names = families.setdefault((view.tree_id, view.parent), ({}, {}, []))
            names.append(view.name)
            for resource, amount in view.max.items():
                most[resource] = most.get(resource, 0) + amount
                weights[resource] = weights.get(resource, 0) + _weight(view, resource)
        found, beside = {}, {family: tuple(each[2]) for family, each in families.items()}
        for view in views:
            family = view.tree_id, view.parent
            weights, most, _ = families[family]
            parts = {
                resource: (most[resource] * _weight(view, resource), weights[resource])
                for resource in view.max
                if most[resource]
            }
            found[view.name] = _Terms(mins[view.name], parts, beside[family])
        return found


def _weight(view: QuotaView, resource: str) -> int:
    """Return a weight above 0: with the least, a quota comes last with all above its min."""
    return max(1, view.weight.get(resource, 0))


def _add_mins_up(views: Iterable[QuotaView]) -> dict[str, Amounts]:
    """Return what each quota is guaranteed by name: its own min, or more if those below have it."""
    by_name = {view.name: view for view in views}
    mins: dict[str, Amounts] = {}
    # A tree of quotas may be deep, so without recursion: those below a quota come after it.
    ordered = [view for view in by_name.values() if view.parent not in by_name]
    for view in ordered:
        ordered += [by_name[name] for name in view.children if name in by_name]
    for view in reversed(ordered):
        below: Amounts = {}
        for name in view.children:
            _add_up(below, mins.get(name, {}).items())
        own = mins[view.name] = dict(view.min)
        for resource, amount in below.items():
            own[resource] = max(own.get(resource, 0), amount)
    return {name: mins.get(name, view.min) for name, view in by_name.items()}


def _add_up(sums: Amounts, items: Iterable[tuple[str, int]]) -> None:
    """Add amounts to sums, and drop each sum that reaches zero: users choose the names."""
    for name, amount in items:
        total = sums.get(name, 0) + amount
        if total:
            sums[name] = total
        else:
            sums.pop(name, None)


def _nonzero(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}
