"""What one user or group has at one quota and below it, as limits compare it. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import msgspec

from queue_scheduler.tenants.accounts import Account
from shared_api.resource_list import Amounts

RUNNING_UNITS: Final = "running units"
"""Stands for a resource where units are counted. No resource has such a name: it has a space."""
PENDING_UNITS: Final = "pending units"
"""The same of units that wait."""


class Counted(NamedTuple):
    """The user or group whose use is summed up, and the quota.

    Attributes:
        quota: The quota; its subtree counts.
        is_group: Whether the name is that of a group.
        name: The user or group; `limit_rules.EVERYBODY`: all groups that no rule names.
    """

    quota: str
    is_group: bool
    name: str


class AnyCharge(Protocol):
    """What is charged for one uid (`queue_scheduler.cache.usage`)."""

    @property
    def account(self) -> Account:
        """The account that it is charged to."""
        ...

    @property
    def amounts(self) -> Amounts:
        """What is charged, in base units."""
        ...

    @property
    def is_admitted(self) -> bool:
        """Whether the unit is admitted; if not, its pods are what is left of it."""
        ...


class Use(msgspec.Struct, frozen=True, gc=False):
    """A sum of charges; immutable, so copies share it.

    Attributes:
        amounts: What is charged, in base units; without zeros.
        units: How many of the units are admitted.
        charges: How many charges are summed up.
    """

    amounts: Amounts
    units: int
    charges: int

    def of(self, resource: str) -> int:
        """Return how much of a resource is used, or how many units are admitted."""
        return self.units if resource == RUNNING_UNITS else self.amounts.get(resource, 0)

    def plus(self, charge: AnyCharge) -> Use:
        """Return the sum with one more charge."""
        total = self.amounts.copy()
        for name, amount in charge.amounts.items():
            if amount:
                total[name] = total.get(name, 0) + amount
        return Use(total, self.units + charge.is_admitted, self.charges + 1)

    def minus(self, charge: AnyCharge) -> Use:
        """Return the sum without one of its charges."""
        rest = self.amounts.copy()
        for name, amount in charge.amounts.items():
            if amount:
                left = rest.get(name, 0) - amount
                if left:
                    rest[name] = left
                else:
                    del rest[name]
        return Use(rest, self.units - charge.is_admitted, self.charges - 1)


UNUSED: Final = Use({}, 0, 0)
