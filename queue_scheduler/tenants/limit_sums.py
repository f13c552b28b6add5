"""What users and groups have at the quotas with rules, as limits are compared with it. Pure.

A charge counts at each level of its chain that has rules, for its user and its group, if a rule
concerns them. The sums can be built charge by charge, while other sums are in use: a charge that
has not been counted yet is counted as it is then, and a change of one that has been is followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.tenants.limit_use import UNUSED, AnyCharge, Counted, Use
from queue_scheduler.tenants.rules_in_chains import RulesInChains
from shared_api.objects.meta import Uid


class LimitSums:
    """Rules, and what is counted for them.

    Attributes:
        rules: The rules, and whom they concern.
        left: The uids whose charges are not counted yet.
    """

    def __init__(self, rules: RulesInChains) -> None:
        """Start with nothing counted."""
        self.rules = rules
        self.left: dict[Uid, None] = {}
        self._uses: dict[Counted, Use] = {}

    def use_of(self, counted: Counted) -> Use:
        """Return what is used."""
        return self._uses.get(counted, UNUSED)

    def in_quota(self, quota: str) -> Iterator[tuple[Counted, Use]]:
        """Yield what users and groups have at a quota with rules, sorted by name."""
        return (pair for pair in sorted(self._uses.items()) if pair[0].quota == quota)

    def on_charge(
        self, uid: Uid, before: AnyCharge | None, after: AnyCharge | None
    ) -> dict[Counted, None]:
        """Take a change of one charge; return whose use has changed."""
        return {} if uid in self.left else self._count(before, after)

    def count_left(self, charges: Mapping[Uid, AnyCharge], most: int) -> int:
        """Count at most so many of the charges that are left; return how many."""
        left = self.left
        number = min(most, len(left))
        for _ in range(number):
            charge = charges.get(left.popitem()[0])
            if charge is not None:
                self._count(None, charge)
        return number

    def _count(self, before: AnyCharge | None, after: AnyCharge | None) -> dict[Counted, None]:
        uses = self._uses
        touched: dict[Counted, None] = {}
        if before is not None:
            for counted, _ in self.rules.follow_account(before.account):
                touched[counted] = None
                use = uses[counted].minus(before)
                if use.charges:
                    uses[counted] = use
                else:
                    del uses[counted]
        if after is not None:
            for counted, _ in self.rules.follow_account(after.account):
                touched[counted] = None
                uses[counted] = uses.get(counted, UNUSED).plus(after)
        return touched

    def differences(self, other: LimitSums) -> dict[Counted, tuple[Use, Use]]:
        """Return what is other in other sums: for whom, with the use here and there."""
        names = {**self._uses, **other._uses}
        pairs = {counted: (self.use_of(counted), other.use_of(counted)) for counted in names}
        return {counted: pair for counted, pair in pairs.items() if pair[0] != pair[1]}

    def fork(self, plugins: PluginRunner) -> LimitSums:
        """Return an independent copy over forked plugins."""
        twin = LimitSums(self.rules.fork(plugins))
        twin.left, twin._uses = dict(self.left), dict(self._uses)
        return twin

    def validate(self, charges: Mapping[Uid, AnyCharge]) -> None:
        """Sum up all charges anew; raise AssertionError where the sums differ."""
        twin = LimitSums(self.rules.with_rules({}))
        twin.left = {uid: None for uid in charges if uid not in self.left}
        twin.count_left(charges, len(charges))
        assert self._uses == twin._uses, f"users have {self._uses}, should be {twin._uses}"
        self.rules.validate()
