"""Waiters that were refused by runtimes, indexed so that a change finds those it may enable.

Indexed by resource, since resources are divided independently; by scope, the part of the tree on
which the refusal depends; and by grounds: waiters with equal grounds are in doubt together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, TypeAlias

from queue_scheduler.decision import Grounds, Refusal
from queue_scheduler.quota_cache.level_division import USUAL, Memory

Family: TypeAlias = tuple[str, Memory]
"""Grounds about children of one quota, by what is assumed of koord-scheduler."""

NO_FAMILY: Final[Family] = ("", USUAL)

Groups: TypeAlias = dict[Grounds | None, dict[Hashable, int]]
"""Waiters by grounds, each with the tree's clock at its refusal."""


class Scope:
    """The waiters of one scope.

    `most` is at least the largest sum of `Grounds.more` and `relief` among them.
    """

    __slots__ = ("families", "most")

    def __init__(self) -> None:
        self.families: dict[Family, Groups] = {}
        self.most = 0

    def fork(self) -> Scope:
        """Return an independent copy."""
        copy = Scope()
        copy.families = {
            family: {grounds: dict(waiters) for grounds, waiters in groups.items()}
            for family, groups in self.families.items()
        }
        copy.most = self.most
        return copy


Scopes: TypeAlias = Mapping[str, Scope]
"""By the name of the scope's quota; waiters without grounds are under ""."""

NO_SCOPES: Scopes = {}


class RuntimeWakeIndex:
    """All waiters that were refused by runtimes. Decides nothing."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str], dict[str, Scope]] = {}

    def fork(self) -> RuntimeWakeIndex:
        """Return an independent copy."""
        copy = RuntimeWakeIndex()
        copy._by_key = {
            key: {name: scope.fork() for name, scope in scopes.items()}
            for key, scopes in self._by_key.items()
        }
        return copy

    def add(self, waiter: Hashable, tree_id: str, refusal: Refusal, seen_at: int) -> None:
        """Add a waiter that was refused at this reading of the tree's clock."""
        grounds = refusal.grounds
        scopes = self._by_key.setdefault((tree_id, refusal.resource), {})
        name = "" if grounds is None else grounds.scope
        scope = scopes.get(name)
        if scope is None:
            scope = scopes[name] = Scope()
        groups = scope.families.setdefault(_family(grounds), {})
        groups.setdefault(grounds, {})[waiter] = seen_at
        if grounds is not None:
            scope.most = max(scope.most, grounds.more + grounds.relief)

    def remove(self, waiter: Hashable, tree_id: str, refusal: Refusal) -> None:
        """Forget a waiter that was added with this refusal."""
        grounds = refusal.grounds
        scopes = self._by_key[tree_id, refusal.resource]
        name = "" if grounds is None else grounds.scope
        families = scopes[name].families
        groups = families[_family(grounds)]
        waiters = groups[grounds]
        del waiters[waiter]
        if not waiters:
            del groups[grounds]
            if not groups:
                del families[_family(grounds)]
                if not families:
                    del scopes[name]

    def refused_on(self, tree_id: str, resource: str) -> Scopes:
        """Return the waiters for a runtime of this resource, by scope."""
        return self._by_key.get((tree_id, resource), NO_SCOPES)


def _family(grounds: Grounds | None) -> Family:
    if grounds is None:
        return NO_FAMILY
    return grounds.parent, Memory(grounds.unseeded, grounds.unrefreshed, grounds.exact)
