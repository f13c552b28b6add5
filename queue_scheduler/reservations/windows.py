"""Windows in which units must not run: which units they refuse, and when they may start. Pure.

A unit starts only if it can end before each window that concerns it, by the time that it declares,
and by the margin of the reservation. In a window none starts. As time passes that only gets harder,
until a window is over: so a refused unit is asked again then, or once windows have changed.

Windows are asked after the filters of the plugins, with the time. Whom they refuse starts with no
room that others free, so it is no head, holds back nobody, and evicts nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from queue_scheduler.decision import Reason, Refusal, ReservedWindow
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, remaining_seconds
from queue_scheduler.reservations.reservation_rules import ReservationRule
from queue_scheduler.reservations.schedules import Window

MAX_NAMED: Final = 8
"""Reservations that are named where all reasons are."""


class _Bar(NamedTuple):
    """What keeps units from starting: from after `latest` until before `end`.

    `latest` is the last second at which a unit may start: of those that declare a time, one
    without any; of the others, one that runs as long as is assumed.
    """

    latest: int
    end: int
    rule: ReservationRule
    window: Window


class _OfQuota(msgspec.Struct, frozen=True, gc=False):
    """What concerns the units of a quota.

    Attributes:
        declared: The windows for units that declare a time, ascending.
        undeclared: The same for the others.
        longest: The most seconds that a unit may declare and start between two windows, if windows
            follow without end; else None.
        is_never: Whether units that declare no time never start between two windows, by the same.
    """

    declared: tuple[_Bar, ...]
    undeclared: tuple[_Bar, ...]
    longest: int | None
    is_never: bool

    def bars_for(self, seconds: int | None) -> tuple[tuple[_Bar, ...], int, bool]:
        """Return what concerns units that may run so long.

        Args:
            seconds: How long; None: they declare no time.

        Returns:
            The windows; the seconds to be added to the time of a start, before it is compared with
            them; and whether such a unit never starts between two windows.
        """
        if seconds is None:
            return self.undeclared, 0, self.is_never
        need = max(seconds, 1)  # what has no time left starts before a window, like a second
        return self.declared, need, self.longest is not None and need > self.longest


class EvictingWindows:
    """The windows for which units are evicted at one second.

    Args:
        windows: Those, each with its reservation.
        names_of: Returns the names of the reservations that concern a quota.
    """

    def __init__(
        self,
        windows: tuple[tuple[ReservationRule, Window], ...],
        names_of: Callable[[str], Container[str]],
    ) -> None:
        self._windows = windows
        self._names_of = names_of
        self._by_quota: dict[str, tuple[ReservationRule, Window] | None] = {}

    def __bool__(self) -> bool:
        return bool(self._windows)

    def of_quota(self, quota: str) -> tuple[ReservationRule, Window] | None:
        """Return the first of those that concern a quota, with its reservation; None: none does."""
        if quota not in self._by_quota:
            names = self._names_of(quota)
            found = (each for each in self._windows if each[0].name in names)
            self._by_quota[quota] = next(found, None)
        return self._by_quota[quota]


class Windows:
    """The windows by quota.

    Attributes:
        is_on: Whether there are any.
    """

    def __init__(self, plugins: PluginRunner) -> None:
        """Start without windows; `plugins` know the chains of quotas."""
        self.is_on = False
        self._plugins = plugins
        self._rules: tuple[ReservationRule, ...] = ()
        # Follow from the rules, and from the chains that they were looked up by: the names of the
        # reservations that concern a quota; what these refuse, which many quotas share; and that of
        # each quota, None for nothing: it is asked for with each decision.
        self._names: dict[str, tuple[str, ...]] = {}
        self._by_names: dict[tuple[str, ...], _OfQuota | None] = {(): None}
        self._by_quota: dict[str, _OfQuota | None] = {}

    @property
    def rules(self) -> tuple[ReservationRule, ...]:
        """What is in force, as far as it has windows."""
        return self._rules

    def set_rules(self, rules: Iterable[ReservationRule]) -> None:
        """Take what is in force, in place of what was."""
        self._rules = tuple(rule for rule in rules if rule.windows)
        self.is_on = bool(self._rules)
        self._names, self._by_names, self._by_quota = {}, {(): None}, {}

    def follow_chains(self) -> bool:
        """Follow a change of quotas; return whether other reservations concern any of them."""
        before, self._names, self._by_quota = self._names, {}, {}
        return any(self._names_of(quota) != names for quota, names in before.items())

    # --- questions ----------------------------------------------------------------------------

    def concern(self, quota: str) -> bool:
        """Return whether any window concerns the units of a quota."""
        return self._of(quota) is not None

    def reservations_of(self, quota: str) -> tuple[str, ...]:
        """Return the names of the reservations that concern the units of a quota."""
        return self._names_of(quota)

    def check(self, info: QueueUnitInfo, second: int) -> Refusal | None:
        """Return why a unit may not start at a second since the epoch; None: no window refuses."""
        return next(self._refusals(info, second), None)

    def every_refusal(self, info: QueueUnitInfo, second: int) -> list[Refusal]:
        """Return a refusal for each reservation that refuses a unit, by its first such window."""
        first: dict[str, Refusal] = {}
        for refusal in self._refusals(info, second):
            first.setdefault(refusal.detail, refusal)
        return list(islice(first.values(), MAX_NAMED))

    def first_start(self, info: QueueUnitInfo, second: int) -> int | None:
        """Return the first second, from the given one on, at which a unit may start; None: never.

        Only windows that are known count, if others follow them.
        """
        of_quota = self._of(info.quota)
        if of_quota is None:
            return second
        bars, need, is_never = of_quota.bars_for(remaining_seconds(info.unit))
        at = second
        for bar in bars:
            if bar.end > at:
                if at + need <= bar.latest:
                    break  # those after it let it start, too
                at = bar.end
        return None if is_never and at > second else at

    def last_start(self, info: QueueUnitInfo, second: int) -> int | None:
        """Return until when a unit may start that may at a second; None: at any time."""
        of_quota = self._of(info.quota)
        if of_quota is None:
            return None
        bars, need, _ = of_quota.bars_for(remaining_seconds(info.unit))
        return next((bar.latest - need for bar in bars if bar.end > second), None)

    def _refusals(self, info: QueueUnitInfo, second: int) -> Iterator[Refusal]:
        of_quota = self._of(info.quota)
        if of_quota is None:
            return
        bars, need, _ = of_quota.bars_for(remaining_seconds(info.unit))
        for bar in bars:
            if bar.end > second:
                if second + need <= bar.latest:
                    return
                yield _refuse(info, of_quota, bar, second)

    def evicting(self, second: int) -> EvictingWindows:
        """Return the windows for which units are evicted that run at a second."""
        found = ((rule, rule.evicts_for(second)) for rule in self._rules)
        return EvictingWindows(
            tuple((rule, window) for rule, window in found if window is not None), self._names_of
        )

    def next_eviction(self, second: int) -> int | None:
        """Return the first second after this one at which units are evicted; None: none."""
        graces = ((rule, rule.grace) for rule in self._rules if rule.grace is not None)
        times = (each.start - grace for rule, grace in graces for each in rule.windows)
        return min((each for each in times if each > second), default=None)

    # --- inside -------------------------------------------------------------------------------

    def _of(self, quota: str) -> _OfQuota | None:
        if quota not in self._by_quota:
            names = self._names_of(quota)
            if names not in self._by_names:
                self._by_names[names] = _build(rule for rule in self._rules if rule.name in names)
            self._by_quota[quota] = self._by_names[names]
        return self._by_quota[quota]

    def _names_of(self, quota: str) -> tuple[str, ...]:
        names = self._names.get(quota)
        if names is None:
            names = self._names[quota] = self._find_names(quota)
        return names

    def _find_names(self, quota: str) -> tuple[str, ...]:
        chain = frozenset(self._plugins.chain(quota))
        return tuple(
            rule.name
            for rule in self._rules
            if rule.quotas is None or not chain.isdisjoint(rule.quotas)
        )

    # --- copies -------------------------------------------------------------------------------

    def fork(self, plugins: PluginRunner) -> Windows:
        """Return an independent copy over forked plugins."""
        twin = Windows(plugins)
        twin.is_on, twin._rules = self.is_on, self._rules
        twin._names, twin._by_names = dict(self._names), dict(self._by_names)
        twin._by_quota = dict(self._by_quota)
        return twin

    def validate(self) -> None:
        """Raise AssertionError if other reservations concern quotas than is known."""
        names = {quota: self._find_names(quota) for quota in self._names}
        assert self._names == names, f"windows concern {self._names}, should concern {names}"


def _refuse(info: QueueUnitInfo, of_quota: _OfQuota, bar: _Bar, second: int) -> Refusal:
    rule, window = bar.rule, bar.window
    seconds = remaining_seconds(info.unit)
    _, _, is_never = of_quota.bars_for(seconds)
    # The nearest of all windows says what would start now.
    nearest = next((each for each in of_quota.declared if each.end > second), bar)
    return Refusal(
        reason=Reason.RESERVED_FOR,
        quota=info.quota,
        detail=f"QueueReservation {rule.name}",
        window=ReservedWindow(
            name=rule.name,
            start=window.start,
            end=window.end,
            margin=rule.margin,
            would_start_seconds=max(0, nearest.latest - second),
            declares_nothing=seconds is None,
            longest_gap=max(0, of_quota.longest or 0) if is_never else None,
        ),
    )


def _build(rules: Iterable[ReservationRule]) -> _OfQuota:
    declared, undeclared = list[_Bar](), list[_Bar]()
    for rule in rules:
        for window in rule.windows:
            start, end = window
            declared.append(_Bar(start - rule.margin, end, rule, window))
            undeclared.append(_Bar(rule.latest_undeclared(window), end, rule, window))
    declared.sort(key=_order)
    undeclared.sort(key=_order)
    longest = _find_longest_gap(declared)
    gap = _find_longest_gap(undeclared)
    is_never = gap is not None and gap < 0
    return _OfQuota(tuple(declared), tuple(undeclared), longest, is_never)


def _order(bar: _Bar) -> tuple[int, int, str]:
    return bar.latest, bar.end, bar.rule.name


def _find_longest_gap(bars: Iterable[_Bar]) -> int | None:
    """Return the most seconds between windows that follow without end; None: two are not known.

    Negative: there is no time between them.
    """
    gaps, end = list[int](), None
    for bar in bars:
        if bar.rule.goes_on:
            if end is not None:
                gaps.append(bar.latest - end)
            end = bar.end if end is None else max(end, bar.end)
    return max(gaps, default=None)
