"""Which rules concern whom: those of a quota and of its ancestors, by user and group. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final, TypeAlias

from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.limit_rules import LimitRule, QuotaUserLimits
from queue_scheduler.tenants.limit_use import Counted
from shared_api.submitters import Submitter

MAX_REMEMBERED: Final = 50_000
"""Accounts for which the rules are kept at hand; beyond, they are looked up again. As many as have
accounts at most."""

Level: TypeAlias = tuple[str, QuotaUserLimits]
"""A quota with rules, in the chain of another."""

Concern: TypeAlias = tuple[Counted, LimitRule]
"""A rule that concerns an account, and what is compared with it."""


class Difference(Enum):
    """What differs between the rules that a quota has and those that it is to have."""

    NUMBERS = auto()
    """Only what is allowed, or which policy states it."""
    PENDING = auto()
    """Among what is allowed, how many units may be pending."""
    NAMES = auto()
    """The users and groups that the rules name, so what is counted."""


class RulesInChains:
    """The rules by quota, and what of them counts in each quota that is followed."""

    def __init__(self, plugins: PluginRunner) -> None:
        """Start without rules; `plugins` know the chains of quotas."""
        self._plugins = plugins
        self._rules: dict[str, QuotaUserLimits] = {}
        # Both follow from rules and chains.
        self._levels: dict[str, tuple[Level, ...]] = {}
        self._concerns: dict[tuple[str, str, str], tuple[Concern, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def compare(self, rules: Mapping[str, tuple[LimitRule, ...]]) -> dict[str, Difference]:
        """Return what differs of these rules, by quota; one whose rules are equal is left out."""
        return {
            quota: _compare(self.of_quota(quota), of_quota)
            for quota, of_quota in rules.items()
            if self.of_quota(quota) != of_quota
        }

    def put(self, rules: Mapping[str, tuple[LimitRule, ...]]) -> None:
        """Take the rules of quotas, () for none, which concern the same names as those before."""
        for quota, of_quota in rules.items():
            self._rules.pop(quota, None)
            if of_quota:
                self._rules[quota] = QuotaUserLimits(of_quota)
        self._renew(self._levels)

    def with_rules(self, rules: Mapping[str, tuple[LimitRule, ...]]) -> RulesInChains:
        """Return a copy with these rules of quotas, () for none, by the present chains."""
        twin = RulesInChains(self._plugins)
        twin._rules = dict(self._rules)
        twin.put(rules)
        twin._renew(self._levels)
        return twin

    def follow(self, quota: str) -> None:
        """Note that something is counted, or placed, by what counts in a quota.

        Only of these quotas a change of their chains matters (`are_other`). Questions do not note
        them: whoever replays the calls of an engine is asked others.
        """
        if quota not in self._levels:
            self._levels[quota] = self._find_levels(quota)

    def levels(self, quota: str) -> tuple[Level, ...]:
        """Return the rules that count in a quota, the nearest first; () for most quotas."""
        levels = self._levels.get(quota)
        return self._find_levels(quota) if levels is None else levels

    def _renew(self, quotas: Iterable[str]) -> None:
        """Look up anew what counts in these quotas, and follow them."""
        self._levels = {quota: self._find_levels(quota) for quota in quotas}
        self._concerns = {}

    def are_other(self) -> bool:
        """Return whether rules count in other quotas than before."""
        return any(self._find_levels(quota) != known for quota, known in self._levels.items())

    def of_quota(self, quota: str) -> tuple[LimitRule, ...]:
        """Return the rules of a quota itself."""
        known = self._rules.get(quota)
        return () if known is None else known.rules

    def concern(self, quota: str, submitter: Submitter) -> tuple[Concern, ...]:
        """Return the rules that concern an account, the nearest quota first, its user first."""
        # Only what concerns accounts of followed quotas is kept at hand.
        found = self._concerns.get((quota, submitter.user, submitter.group))
        if found is None:
            found = tuple(_find_concerns(self.levels(quota), submitter))
            if quota in self._levels:
                if len(self._concerns) >= MAX_REMEMBERED:
                    self._concerns.clear()
                self._concerns[quota, submitter.user, submitter.group] = found
        return found

    def follow_account(self, account: Account) -> tuple[Concern, ...]:
        """Return the same for the account of a charge, and follow its quota."""
        quota = account.quota
        self.follow(quota)
        if not self._levels[quota]:
            return ()
        found = self._concerns.get((quota, account.user, account.group))
        return (
            self.concern(quota, Submitter(account.user, account.group)) if found is None else found
        )

    def _find_levels(self, quota: str) -> tuple[Level, ...]:
        chain = self._plugins.chain(quota)
        return tuple((name, self._rules[name]) for name in chain if name in self._rules)

    def fork(self, plugins: PluginRunner) -> RulesInChains:
        """Return an independent copy over forked plugins."""
        twin = RulesInChains(plugins)
        twin._rules, twin._levels = dict(self._rules), dict(self._levels)
        return twin

    def validate(self) -> None:
        """Raise AssertionError if rules count in other quotas than is known."""
        known = {quota: self._find_levels(quota) for quota in self._levels}
        assert self._levels == known, f"rules count in {self._levels}, should be {known}"


def _compare(before: tuple[LimitRule, ...], after: tuple[LimitRule, ...]) -> Difference:
    if [(rule.users, rule.groups) for rule in before] != [(r.users, r.groups) for r in after]:
        return Difference.NAMES
    is_pending = [rule.pending for rule in before] != [rule.pending for rule in after]
    return Difference.PENDING if is_pending else Difference.NUMBERS


def _find_concerns(levels: Iterable[Level], submitter: Submitter) -> Iterator[Concern]:
    for quota, limits in levels:
        rule = limits.for_user(submitter.user)
        if rule is not None:
            yield Counted(quota, is_group=False, name=rule.counted_as(submitter.user)), rule
        rule = limits.for_group(submitter.group)
        if rule is not None:
            yield Counted(quota, is_group=True, name=rule.counted_as(submitter.group)), rule
