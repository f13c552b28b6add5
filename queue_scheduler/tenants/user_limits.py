"""Limits of users and groups: what each has at the quotas with rules, and whom that refuses. Pure.

A rule of a quota (`limit_rules`) limits what one user, or the members of a group together, have in
the quota's subtree. So a charge counts at each level of its chain that has rules, for its user and
its group. The sums are kept where a charge changes; nothing is kept while no quota has rules.

It is the engine's own filter (`OwnFilter`): what it answers depends on the account, and stands for
its units alone. A unit is asked about only if a rule concerns it (`QueueUnitInfo.submitter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.extension_points import Place, Waiter
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.queueing.queue_policies import creation_order
from queue_scheduler.tenants.limit_rules import EVERYBODY, LimitRule
from queue_scheduler.tenants.limit_use import (
    PENDING_UNITS,
    RUNNING_UNITS,
    UNUSED,
    AnyCharge,
    Counted,
    Use,
)
from queue_scheduler.tenants.limit_waiters import LimitWaiters, Waiting
from queue_scheduler.tenants.pending_seats import PendingSeats, SeatLimits
from queue_scheduler.tenants.rules_in_chains import Concern, RulesInChains
from shared_api.resource_list import Amounts
from shared_api.submitters import Submitter


class UserLimits:
    """The sums that are compared with rules, and who waits for that.

    Attributes:
        name: Names this filter among the plugins.
        is_on: Whether any quota has rules.
        rules: The rules, and whom they concern.
        waiters: The classes that wait for a limit, or are watched.
        seats: Who may be pending, where that is limited.
    """

    name: str = "user-limits"

    def __init__(self, plugins: PluginRunner) -> None:
        """Start without rules; `plugins` know the chains of quotas."""
        self.is_on = False
        self.rules = RulesInChains(plugins)
        self.waiters = LimitWaiters()
        self.seats = PendingSeats()
        self._plugins = plugins
        self._uses: dict[Counted, Use] = {}

    # --- rules --------------------------------------------------------------------------------

    def set_rules(self, quota: str, rules: tuple[LimitRule, ...]) -> bool:
        """Take the rules of a quota, () for none; return whether they differ: then `recount`."""
        is_other = self.rules.put(quota, rules)
        self.is_on = bool(self.rules)
        return is_other

    def recount(self, charges: Iterable[AnyCharge]) -> None:
        """Sum up all charges anew, by the present rules and chains; ask anew who waits."""
        self.rules.forget()
        self._uses = {}
        self.seats.clear()
        for charge in charges if self.is_on else ():
            self._count(None, charge)
        self.waiters.ask_anew([waiter for waiter, _ in self.waiters])

    def end(self) -> None:
        """Forget who waits: no rule is in force."""
        self.waiters = LimitWaiters()

    # --- what is used -------------------------------------------------------------------------

    def on_charge(self, before: AnyCharge | None, after: AnyCharge | None) -> None:
        """Take a change of one charge; None: there was none, or is none now."""
        for counted in self._count(before, after):
            self.waiters.follow(counted, self._uses.get(counted, UNUSED), self._is_over)

    def _count(self, before: AnyCharge | None, after: AnyCharge | None) -> dict[Counted, None]:
        uses, touched = self._uses, dict[Counted, None]()
        if before is not None:
            for counted, _ in self._concerns_of_charge(before):
                touched[counted] = None
                use = uses[counted].minus(before)
                if use.charges:
                    uses[counted] = use
                else:
                    del uses[counted]
        if after is not None:
            for counted, _ in self._concerns_of_charge(after):
                touched[counted] = None
                uses[counted] = uses.get(counted, UNUSED).plus(after)
        return touched

    def _concerns_of_charge(self, charge: AnyCharge) -> tuple[Concern, ...]:
        account = charge.account
        return self.rules.concern(account.quota, Submitter(account.user, account.group))

    def uses(self, quota: str) -> Iterator[tuple[Counted, Use]]:
        """Yield what users and groups have at a quota with rules, sorted by name."""
        return (pair for pair in sorted(self._uses.items()) if pair[0].quota == quota)

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
        if info.submitter is not None:
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

    def limits_pending(self, info: QueueUnitInfo) -> bool:
        """Return whether a rule limits how many units like this one may be pending."""
        return bool(self._seat_limits(info))

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
        return next(self._refusals(info.quota, info.submitter, info.demand.total), None)

    def every_refusal(self, info: QueueUnitInfo) -> list[Refusal]:
        """Return a refusal for each limit that is too small for the unit, the nearest first."""
        if info.submitter is None:
            return []
        return list(self._refusals(info.quota, info.submitter, info.demand.total))

    def why_not_grow(self, charge: AnyCharge, amounts: Amounts) -> Refusal | None:
        """Return why an admitted unit may not be charged these amounts in place of its charge."""
        if not self.is_on:
            return None
        account = charge.account
        who = Submitter(account.user, account.group)
        return next(self._refusals(account.quota, who, amounts, of=charge), None)

    def _is_over(self, info: QueueUnitInfo) -> bool:
        return self.check(info) is not None

    def _refusals(
        self, quota: str, submitter: Submitter, amounts: Amounts, *, of: AnyCharge | None = None
    ) -> Iterator[Refusal]:
        """Yield the limits that are too small; `of`: the charge that the amounts replace."""
        for counted, rule in self.rules.concern(quota, submitter):
            use = self._uses.get(counted, UNUSED)
            for resource, limit in rule.max.items():
                own = 0 if of is None else of.amounts.get(resource, 0)
                need, used = amounts.get(resource, 0), use.of(resource) - own
                # What asks for no more of it does not make it worse.
                if need > own and used + need > limit:
                    yield _refusal(counted, rule, resource, limit, used, need)
            if of is None and rule.running is not None and use.units >= rule.running:
                yield _refusal(counted, rule, RUNNING_UNITS, rule.running, use.units, 1)

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

    def renew_domains(self) -> None:
        """Ask the classes anew whose quota competes for something else by now."""
        others = [
            waiter for waiter, each in self.waiters if each.domain != self._domain_of(each.info)
        ]
        self.waiters.ask_anew(others)

    def _domain_of(self, info: QueueUnitInfo) -> str:
        return min(self._plugins.domains(info.quota), default="")

    # --- copies -------------------------------------------------------------------------------

    def fork(self, plugins: PluginRunner) -> UserLimits:
        """Return an independent copy over forked plugins, which then ask it."""
        twin = UserLimits(plugins)
        if not self.is_on:
            return twin
        twin.is_on, twin.waiters, twin.seats = True, self.waiters.copy(), self.seats.copy()
        twin.rules, twin._uses = self.rules.fork(plugins), dict(self._uses)
        plugins.set_own(twin)
        return twin

    def validate(self, charges: Iterable[AnyCharge]) -> None:
        """Sum up all charges anew; raise AssertionError where the sums differ."""
        twin = UserLimits(self._plugins)
        twin.is_on, twin.rules = self.is_on, self.rules.fork(self._plugins)
        twin.recount(charges)
        assert self._uses == twin._uses, f"users have {self._uses}, should be {twin._uses}"
        self.rules.validate()
        self.seats.validate()
        assert (self._plugins.own is not None) == self.is_on, "plugins ask another filter"


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
