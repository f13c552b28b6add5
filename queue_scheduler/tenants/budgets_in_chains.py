"""Which budgets count where: those of a quota and of its ancestors. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.tenants.budget_rules import BudgetRule


class BudgetKey(NamedTuple):
    """Identifies a budget, whatever its limit is."""

    quota: str
    name: str
    period: str
    time_zone: str
    number: int


class BudgetsInChains:
    """The budgets by quota, and what of them counts in each quota that was asked about."""

    def __init__(self, plugins: PluginRunner) -> None:
        """Start without budgets; `plugins` know the chains of quotas."""
        self._plugins = plugins
        self._rules: dict[str, tuple[BudgetRule, ...]] = {}
        # Both follow from rules and chains (`forget`).
        self._levels: dict[str, tuple[BudgetKey, ...]] = {}
        self._reserving: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def put(self, quota: str, rules: tuple[BudgetRule, ...]) -> None:
        """Take the budgets of a quota, () for none; then `forget`."""
        self._rules.pop(quota, None)
        if rules:
            self._rules[quota] = rules

    def forget(self) -> None:
        """Forget what follows from the budgets and chains before."""
        self._levels, self._reserving = {}, {}

    def are_other(self) -> bool:
        """Return whether budgets count in other quotas than before: then `forget`."""
        return any(self._find_levels(quota) != known for quota, known in self._levels.items())

    def of_quota(self, quota: str) -> tuple[BudgetRule, ...]:
        """Return the budgets of a quota itself."""
        return self._rules.get(quota, ())

    def levels(self, quota: str) -> tuple[BudgetKey, ...]:
        """Return the budgets that a charge to a quota counts in, the nearest first."""
        found = self._levels.get(quota)
        if found is None:
            found = self._levels[quota] = self._find_levels(quota)
        return found

    def reserves(self, quota: str) -> bool:
        """Return whether the time that units of a quota declare makes a difference."""
        found = self._reserving.get(quota)
        if found is None:
            rules = (rule for _, rule in self._in_chain(quota))
            found = any(rule.is_reserved and rule.refuses for rule in rules)
            self._reserving[quota] = found
        return found

    def _find_levels(self, quota: str) -> tuple[BudgetKey, ...]:
        return tuple(key_of(name, rule) for name, rule in self._in_chain(quota))

    def _in_chain(self, quota: str) -> Iterator[tuple[str, BudgetRule]]:
        for name in self._plugins.chain(quota):
            for rule in self._rules.get(name, ()):
                yield name, rule

    def fork(self, plugins: PluginRunner) -> BudgetsInChains:
        """Return an independent copy over forked plugins."""
        twin = BudgetsInChains(plugins)
        twin._rules, twin._levels = dict(self._rules), dict(self._levels)
        return twin

    def validate(self) -> None:
        """Raise AssertionError if budgets count in other quotas than is known."""
        known = {quota: self._find_levels(quota) for quota in self._levels}
        assert self._levels == known, f"budgets count in {self._levels}, should be {known}"


def key_of(quota: str, rule: BudgetRule) -> BudgetKey:
    """Return what identifies a budget of a quota."""
    return BudgetKey(quota, rule.name, rule.period, rule.time_zone, rule.number)
