"""Limits by user and group, as a quota has them: which rule concerns whom. Pure.

They are YuniKorn's: of the rules of users the first that names a user counts for that user, else
the one of `*`; of the rules of groups likewise. So two rules at most concern a unit. What is
compared with a rule is the sum over the quota's subtree of what one user has, or all members of one
group have together. `*` stands for each user that no rule names, alone; and for all groups that no
rule names together, as in YuniKorn. Units without a group count there too: otherwise a user could
leave a limit by leaving out a label.
"""

from __future__ import annotations

from typing import Final

import msgspec

from shared_api.resource_list import Amounts

EVERYBODY: Final = "*"
"""The name that stands for all that no other rule names."""


class LimitRule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of `userLimits` in base units; a field that is None is not limited.

    Attributes:
        users: The users that it names; empty: all that no rule names; None: it is of groups.
        groups: The groups that it names; empty: all that no rule names; None: it is of users.
        max: The most that may be charged, in base units; a missing resource is not limited.
        running: The most units that may be admitted.
        pending: The most units that may be pending; further ones are on hold.
        policy: The QuotaPolicy that states it.
        index: Its place in that policy's `userLimits`, from 0.
    """

    users: frozenset[str] | None = None
    groups: frozenset[str] | None = None
    max: Amounts = {}
    running: int | None = None
    pending: int | None = None
    policy: str = ""
    index: int = 0

    @property
    def is_for_each(self) -> bool:
        """Return whether it counts each name alone; if not, all that it concerns are added up."""
        return self.groups != frozenset()

    def counted_as(self, name: str) -> str:
        """Return under which name a user, or a group, that the rule concerns is counted."""
        return name if self.is_for_each else EVERYBODY


class QuotaUserLimits:
    """The rules of one quota; immutable.

    Attributes:
        rules: In the order of the policy.
    """

    __slots__ = ("_of_groups", "_of_users", "rules")

    def __init__(self, rules: tuple[LimitRule, ...] = ()) -> None:
        self.rules = rules
        self._of_users: dict[str, LimitRule] = {}
        self._of_groups: dict[str, LimitRule] = {}
        for rule in rules:
            for name in _names(rule.users):
                self._of_users.setdefault(name, rule)
            for name in _names(rule.groups):
                self._of_groups.setdefault(name, rule)

    def __bool__(self) -> bool:
        return bool(self.rules)

    def for_user(self, user: str) -> LimitRule | None:
        """Return the rule that counts for a user; None: no rule does."""
        return self._of_users.get(user) or self._of_users.get(EVERYBODY)

    def for_group(self, group: str) -> LimitRule | None:
        """Return the rule that counts for a group, "" for units without one; None: no rule does."""
        return self._of_groups.get(group) or self._of_groups.get(EVERYBODY)


NO_LIMITS: Final = QuotaUserLimits()
"""What a quota has that no policy names."""


def _names(names: frozenset[str] | None) -> frozenset[str]:
    """Return the names under which a rule is looked up."""
    if names is None:
        return frozenset()
    return names or frozenset({EVERYBODY})
