"""Limits of users and groups: what each has at the quotas with rules, and whom that refuses. Pure.

A rule of a quota (`limit_rules`) limits what one user, or the members of a group together, have in
the quota's subtree. The sums (`limit_sums`) are kept where a charge changes; nothing is kept while
no quota has rules.

It is the engine's own filter (`OwnFilter`): what it answers depends on the account, and stands for
its units alone. A unit is asked about only if a rule concerns it (`QueueUnitInfo.submitter`).

A change of rules can be taken in slices (`advance`). Other rules than before are counted first,
while those before are in force; from then on they are, and units *lag* that were placed by those
before. If only numbers differ, nothing has to be counted, and they are in force at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.extension_points import Place, Waiter
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.queueing.queue_policies import creation_order
from queue_scheduler.tenants.limit_rules import EVERYBODY, LimitRule
from queue_scheduler.tenants.limit_sums import LimitSums
from queue_scheduler.tenants.limit_use import (
    PENDING_UNITS,
    RUNNING_UNITS,
    AnyCharge,
    Counted,
)
from queue_scheduler.tenants.limit_waiters import LimitWaiters, Waiting
from queue_scheduler.tenants.pending_seats import PendingSeats, SeatLimits
from queue_scheduler.tenants.rules_in_chains import Difference, RulesInChains
from shared_api.objects.meta import Uid
from shared_api.resource_list import Amounts
from shared_api.submitters import Submitter


class UserLimits:
    """The sums that are compared with rules, and who waits for that.

    Attributes:
        name: Names this filter among the plugins.
        is_on: Whether any quota has rules, or will have, or units lag.
        sums: What each has, by the rules that are in force.
        waiters: The classes that wait for a limit, or are watched.
        seats: Who may be pending, where that is limited.
        checked: The same sums, counted once more to be compared; None: they are not.
        lagging: Keys of units that may have been placed by the rules before; the oldest known is
            the last.
    """

    name: str = "user-limits"
    follows_charges: Literal[True] = True

    def __init__(self, plugins: PluginRunner) -> None:
        """Start without rules; `plugins` know the chains of quotas."""
        self.is_on = False
        self.sums = LimitSums(RulesInChains(plugins))
        self.waiters = LimitWaiters()
        self.seats = PendingSeats()
        self.checked: LimitSums | None = None
        self.lagging: dict[str, None] = {}
        self._plugins = plugins
        # Rules that are not in force yet, and the sums by some of them.
        self._wanted: dict[str, tuple[LimitRule, ...]] = {}
        self._coming: LimitSums | None = None

    @property
    def rules(self) -> RulesInChains:
        """The rules that are in force."""
        return self.sums.rules

    # --- rules --------------------------------------------------------------------------------

    def want(self, rules: Mapping[str, tuple[LimitRule, ...]]) -> None:
        """Take the rules of quotas, () for none; `advance` brings them into force."""
        self._wanted |= rules
        # Charges are followed from now on, so those that are counted first stay right.
        self.is_on = True

    @property
    def is_changing(self) -> bool:
        """Whether rules are to come into force: see `advance`."""
        return bool(self._wanted) or self._coming is not None

    def advance(self, charges: Mapping[Uid, AnyCharge], units: Iterable[str], most: int) -> None:
        """Bring rules into force that are to come, as far as one slice goes.

        Args:
            charges: All charges.
            units: The keys of all units, the youngest first.
            most: How many charges a slice counts.
        """
        if self._coming is None:
            differences = self.rules.compare(self._wanted)
            wanted, self._wanted = self._wanted, {}
            if Difference.NAMES in differences.values():
                self._count_by(self.rules.with_rules(wanted), charges)
            elif differences:
                self.rules.put(wanted)
                self.checked = None
                self.waiters.ask_anew_at(differences)
                if Difference.PENDING in differences.values():
                    self._place_all(units)
            return
        self._coming.count_left(charges, most)
        if not self._coming.left:
            sums, self._coming = self._coming, None
            self.replace_sums(sums, units)

    def replace_sums(self, sums: LimitSums, units: Iterable[str]) -> None:
        """Compare with these sums, and their rules, from now on; all units lag."""
        self.sums, self.checked = sums, None
        self.waiters.ask_anew()
        self._place_all(units)

    def follow_chains(self, charges: Mapping[Uid, AnyCharge]) -> bool:
        """Return whether rules count in other quotas than before: then `advance`."""
        coming = self._coming
        if not (self.rules.are_other() or (coming is not None and coming.rules.are_other())):
            return False
        self._count_by((self.rules if coming is None else coming.rules).with_rules({}), charges)
        return True

    def _count_by(self, rules: RulesInChains, charges: Iterable[Uid]) -> None:
        self._coming = LimitSums(rules)
        self._coming.left = dict.fromkeys(charges)

    def _place_all(self, units: Iterable[str]) -> None:
        self.seats.clear()
        self.lagging = dict.fromkeys(units)

    def end(self) -> None:
        """Forget who waits: no rule is in force or to come, and no unit lags."""
        self.is_on, self.checked = False, None
        self.waiters = LimitWaiters()

    # --- what is used -------------------------------------------------------------------------

    def on_charge(self, uid: Uid, before: AnyCharge | None, after: AnyCharge | None) -> None:
        """Take a change of one charge; None: there was none, or is none now."""
        for other in (self._coming, self.checked):
            if other is not None:
                other.on_charge(uid, before, after)
        changed = self.sums.on_charge(uid, before, after)
        self.waiters.follow(changed, self.sums.use_of, self._is_over)

    # --- who may be pending -------------------------------------------------------------------

    def seat(self, info: QueueUnitInfo) -> Refusal | None:
        """Let a unit that may be pending stand in line; return why it has to be on hold, or None.

        Others may have lost their seats to it: see `seats.moved`.
        """
        limits = self._seat_limits(info)
        if not limits or info.submitter is None:
            return None
        self.seats.add((info.quota, info.submitter), creation_order(info.unit), limits)
        return self.why_on_hold(info)

    def unseat(self, info: QueueUnitInfo) -> None:
        """Let a unit leave its line, if it stands in one."""
        if info.submitter is not None and self.seats:
            self.seats.remove((info.quota, info.submitter), creation_order(info.unit))

    def why_on_hold(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why a unit that stands in line has to be on hold; None: it may be pending."""
        if info.submitter is None:
            return None
        full = self.seats.find_full((info.quota, info.submitter), creation_order(info.unit))
        if full is None:
            return None
        counted, limit = full
        concerns = self.rules.concern(info.quota, info.submitter)
        rule = next(rule for each, rule in concerns if each == counted)
        return _refusal(counted, rule, PENDING_UNITS, limit, limit, 1)

    def _seat_limits(self, info: QueueUnitInfo) -> SeatLimits:
        if info.submitter is None:
            return ()
        concerns = self.rules.concern(info.quota, info.submitter)
        return tuple((each, rule.pending) for each, rule in concerns if rule.pending is not None)

    # --- the filter ---------------------------------------------------------------------------

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why the unit's user or group may not have what it asks for; None: it may."""
        if info.submitter is None:
            return None
        found = self._find_refusals(info.quota, info.submitter, info.demand.total)
        return found[0] if found else None

    def every_refusal(self, info: QueueUnitInfo) -> list[Refusal]:
        """Return a refusal for each limit that is too small for the unit, the nearest first."""
        if info.submitter is None:
            return []
        return self._find_refusals(info.quota, info.submitter, info.demand.total)

    def why_not_grow(self, charge: AnyCharge, amounts: Amounts) -> Refusal | None:
        """Return why an admitted unit may not be charged these amounts in place of its charge."""
        if not self.is_on:
            return None
        account = charge.account
        who = Submitter(account.user, account.group)
        found = self._find_refusals(account.quota, who, amounts, of=charge)
        return found[0] if found else None

    def _is_over(self, info: QueueUnitInfo) -> bool:
        return self.check(info) is not None

    def _find_refusals(
        self, quota: str, submitter: Submitter, amounts: Amounts, *, of: AnyCharge | None = None
    ) -> list[Refusal]:
        """Return which limits are too small; `of`: the charge that the amounts replace."""
        found: list[Refusal] = []
        sums = self.sums
        for counted, rule in sums.rules.concern(quota, submitter):
            use = sums.use_of(counted)
            for resource, limit in rule.max.items():
                own = 0 if of is None else of.amounts.get(resource, 0)
                need, used = amounts.get(resource, 0), use.amounts.get(resource, 0) - own
                # What asks for no more of it does not make it worse.
                if need > own and used + need > limit:
                    found.append(_refusal(counted, rule, resource, limit, used, need))
            if of is None and rule.running is not None and use.units >= rule.running:
                found.append(_refusal(counted, rule, RUNNING_UNITS, rule.running, use.units, 1))
        return found

    # --- waiting ------------------------------------------------------------------------------

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        """Register a class that `check` refused."""
        assert info.submitter is not None, f"{info.key} is refused, and no rule concerns it"
        concerns = self.rules.concern(info.quota, info.submitter)
        counted = next(each for each, rule in concerns if _is_of(refusal, each, rule))
        resource, need, limit = refusal.resource, refusal.requested, refusal.limit
        waiting = Waiting(info, self._domain_of(info), (counted,), resource, need, limit)
        self.waiters.add(waiter, waiting)

    def watch(self, waiter: Waiter, info: QueueUnitInfo) -> None:
        """Register a class that something else refused: it is asked when it is over a limit."""
        if info.submitter is None:
            return
        concerns = self.rules.concern(info.quota, info.submitter)
        at = tuple(counted for counted, _ in concerns)
        self.waiters.add(waiter, Waiting(info, self._domain_of(info), at))

    def stop_waiting(self, waiter: Waiter) -> None:
        """Forget a class that was woken or has left; it may be unknown."""
        self.waiters.discard(waiter)

    def stirred_domains(self) -> list[str]:
        """Return the domains in which some class is due."""
        return list(self.waiters.due)

    def first_woken(
        self, domain: str, place_of: Callable[[Waiter], Place], before: Place | None
    ) -> tuple[Place, Waiter] | None:
        """Return the first class of a domain that is due, with its place, or None."""
        return self.waiters.first(domain, place_of)

    def take_moved(self) -> list[Waiter]:
        """Return, once, the classes whose quota competes for something else by now, to be asked."""
        moved = [w for w, each in self.waiters if each.domain != self._domain_of(each.info)]
        for waiter in moved:
            self.waiters.discard(waiter)
        return moved

    def _domain_of(self, info: QueueUnitInfo) -> str:
        return min(self._plugins.domains(info.quota), default="")

    # --- copies -------------------------------------------------------------------------------

    def fork(self, plugins: PluginRunner) -> UserLimits:
        """Return an independent copy over forked plugins, which then ask it."""
        twin = UserLimits(plugins)
        if not self.is_on:
            return twin
        twin.is_on, twin.waiters, twin.seats = True, self.waiters.copy(), self.seats.copy()
        twin.sums, twin.lagging = self.sums.fork(plugins), dict(self.lagging)
        twin._wanted = dict(self._wanted)
        twin.checked = None if self.checked is None else self.checked.fork(plugins)
        twin._coming = None if self._coming is None else self._coming.fork(plugins)
        if self._plugins.is_own(self):
            plugins.set_own(twin, is_on=True)
        return twin

    def validate(self, charges: Mapping[Uid, AnyCharge]) -> None:
        """Sum up all charges anew; raise AssertionError where the sums differ."""
        for sums in (self.sums, self._coming, self.checked):
            if sums is not None:
                sums.validate(charges)
        assert not self.sums.left, f"not counted: {self.sums.left}"
        self.seats.validate()
        is_asked = bool(self.rules) or bool(self.lagging)
        assert not is_asked or self._plugins.is_own(self), "plugins ask another filter"
        assert self.is_on or not self._plugins.is_own(self), "plugins ask a filter without rules"


def _refusal(
    counted: Counted, rule: LimitRule, resource: str, limit: int, used: int, requested: int
) -> Refusal:
    return Refusal(
        reason=Reason.USER_LIMIT,
        quota=counted.quota,
        resource=resource,
        limit=limit,
        used=used,
        requested=requested,
        other=describe(counted),
        detail=f"QuotaPolicy {rule.policy}, userLimits {rule.index}",
    )


def _is_of(refusal: Refusal, counted: Counted, rule: LimitRule) -> bool:
    """Return whether a refusal is by this limit."""
    is_limited = refusal.resource == RUNNING_UNITS or refusal.resource in rule.max
    return is_limited and (refusal.quota, refusal.other) == (counted.quota, describe(counted))


def describe(counted: Counted) -> str:
    """Return whose limit it is, in words."""
    if not counted.is_group:
        return f"user {counted.name}"
    return (
        "groups without a limit of their own"
        if counted.name == EVERYBODY
        else (f"group {counted.name}")
    )
