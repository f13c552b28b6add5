"""What the quotas of an engine use above their min, each second; summed up anew, in fractions.

It is told the charges and changes of quotas as `QuotaUse` is, and looks up what quotas may have. It
knows of no scaled use, chain, rank or renewal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise

from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import view_all_quotas
from queue_scheduler.quota.quota_view import QuotaView
from queue_scheduler.tenants.fair_use import StoredUses
from queue_scheduler.tenants.quota_use import ADVANCE_SECONDS, Charged, QuotaUse
from shared_api.objects.meta import Uid

Dated = tuple[Uid, int, Charged]
"""(uid, since, charge)."""


class QuotaRates:
    """The rates of quotas, from now on.

    Attributes:
        second: The time.
        restarts: How often the engine has begun anew with what was kept of the use before.
    """

    def __init__(self, engine: Engine) -> None:
        """Begin with an engine that counts the use of quotas, and has nothing charged."""
        self._engine, self._use = engine, use_of(engine)
        self.second = self._use.second
        self.restarts = 0
        self._is_restarting = False
        self._forget()
        self._listen()

    def _listen(self) -> None:
        use = self._use
        tell, changed, restarting = use.on_charge, use.on_quotas_changed, use.restarting

        def on_charge(before: Charged | None, after: Charged | None) -> None:
            tell(before, after)
            self._on_charge(before, after)

        def on_quotas_changed() -> None:
            changed()
            self._is_stale = True

        def on_restart(charges: Iterable[Dated], stored: StoredUses) -> Iterator[None]:
            self._forget()
            self._is_restarting = True
            yield from restarting(charges, stored)
            self._is_restarting = False
            self.restarts += 1

        use.on_charge = on_charge  # type: ignore[method-assign]  # a spy
        use.on_quotas_changed = on_quotas_changed  # type: ignore[method-assign]  # a spy
        use.restarting = on_restart  # type: ignore[method-assign]  # a spy

    def _forget(self) -> None:
        self._is_stale = False
        self._charged: dict[str, Counter[str]] = defaultdict(Counter)
        self._rates: dict[str, Fraction] = {}
        self._rises: dict[str, list[tuple[int, Fraction]]] = defaultdict(list)

    # --- questions ----------------------------------------------------------------------------

    def names(self) -> set[str]:
        """Return the quotas that use something, or have something counted in advance."""
        return {*self._rates, *self._rises}

    def in_second(self, name: str, second: int) -> Fraction:
        """Return what counts for a quota in a second from now on, if nothing changes."""
        return max(self._rates.get(name, Fraction(0)), self.in_advance(name, second))

    def in_advance(self, name: str, second: int) -> Fraction:
        """Return what has been counted in advance for a second."""
        rises = self._rises[name]
        return sum((more for at, more in rises if at <= second < at + ADVANCE_SECONDS), Fraction(0))

    def pieces(self, name: str, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a time from now on in which the same counts in each second."""
        ends = {at + ADVANCE_SECONDS for at, _ in self._rises[name]}
        edges = [first, *sorted(each for each in ends if first < each < last), last]
        yield from pairwise(edges)

    # --- changes ------------------------------------------------------------------------------

    def pass_time(self, second: int) -> None:
        """Let time pass; an earlier second than the present one changes nothing."""
        if second <= self.second:
            return
        self.second = second
        for name, rises in self._rises.items():
            self._rises[name] = [each for each in rises if each[0] + ADVANCE_SECONDS > second]
        if self._is_stale:
            self._is_stale = False
            self._take_rates()

    def _on_charge(self, before: Charged | None, after: Charged | None) -> None:
        for sign, each in ((-1, before), (1, after)):
            if each is not None:
                for name, amount in each.amounts.items():
                    self._charged[each.account.quota][name] += sign * amount
        if not self._is_stale:
            self._take_rates()

    def _take_rates(self) -> None:
        views = {view.name: view for view in view_all_quotas(self._engine.plugins)}
        # What is charged anew was charged at the time that the engine has just then.
        now = self._use.second if self._is_restarting else self.second
        for name in views.keys() | self._rates.keys():
            rate = self._rate(views, name) if name in views else Fraction(0)
            before = self._rates.get(name, Fraction(0))
            more = rate - max(before, self.in_advance(name, now))
            if rate > before and more > 0:
                self._rises[name].append((now, more))
            self._rates[name] = rate

    def _rate(self, views: dict[str, QuotaView], name: str) -> Fraction:
        view, below = views[name], _below(views, name)
        beside = family_of(views, name)
        rate = Fraction(0)
        for resource, own in view.max.items():
            used = sum(self._charged[each][resource] for each in below)
            above = used - _least(views, name, resource)
            weight, weights = _weight(view, resource), 0
            for each in beside:
                if resource in each.max:
                    weights += _weight(each, resource)
            most = sum(each.max.get(resource, 0) for each in beside)
            if above > 0 and most:
                assert own <= most
                rate = max(rate, Fraction(above * weights, most * weight))
        return rate


def use_of(engine: Engine) -> QuotaUse:
    """Return the use of quotas, of an engine that counts it."""
    use = engine.usage.quota_use
    assert use is not None
    return use


def family_of(views: dict[str, QuotaView], name: str) -> list[QuotaView]:
    """Return a quota and its siblings."""
    own = views[name]
    return [
        each for each in views.values() if (each.tree_id, each.parent) == (own.tree_id, own.parent)
    ]


def _weight(view: QuotaView, resource: str) -> int:
    return max(1, view.weight.get(resource, 0))


def _below(views: dict[str, QuotaView], name: str) -> list[str]:
    """Return a quota and all that are below it; what is in no tree, as in a circle, is alone."""
    found = [name]
    for each in found:
        found += [child.name for child in _children_of(views, each)]
    return found


def _children_of(views: dict[str, QuotaView], name: str) -> list[QuotaView]:
    return [view for view in views.values() if view.parent == name and view.usable]


def _least(views: dict[str, QuotaView], name: str, resource: str) -> int:
    """Return what of a quota does not count: its min, or more if those below have it."""
    below = sum(_least(views, child.name, resource) for child in _children_of(views, name))
    return max(views[name].min.get(resource, 0), below)
