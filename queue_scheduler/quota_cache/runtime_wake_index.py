"""Waiters that were refused by runtimes, indexed so that a change finds those it may enable.

Indexed by resource, since resources are divided independently; by scope, the part of the tree on
which the refusal depends; and by basis: waiters with an equal basis are in doubt together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, TypeAlias

from queue_scheduler.decision import Refusal, RuntimeBasis
from queue_scheduler.quota_cache.level_division import USUAL, Memory

Family: TypeAlias = tuple[str, Memory]
"""Bases about children of one quota, by what is assumed of koord-scheduler."""

NO_FAMILY: Final[Family] = ("", USUAL)

Groups: TypeAlias = dict[RuntimeBasis | None, dict[Hashable, int]]
"""Waiters by basis, each with the tree's clock at its refusal."""


class Scope:
    """The waiters of one scope.

    `most` is at least the largest sum of `RuntimeBasis.more` and `relief` among them.
    """

    __slots__ = ("families", "most")

    def __init__(self) -> None:
        self.families: dict[Family, Groups] = {}
        self.most = 0

    def fork(self) -> Scope:
        """Return an independent copy."""
        copy = Scope()
        copy.families = {
            family: {basis: dict(waiters) for basis, waiters in groups.items()}
            for family, groups in self.families.items()
        }
        copy.most = self.most
        return copy


Scopes: TypeAlias = Mapping[str, Scope]
"""The scopes by the name of their quota; waiters without a basis are under ""."""

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
        basis = refusal.basis
        scopes = self._by_key.setdefault((tree_id, refusal.resource), {})
        name = "" if basis is None else basis.scope
        scope = scopes.get(name)
        if scope is None:
            scope = scopes[name] = Scope()
        groups = scope.families.setdefault(_family(basis), {})
        groups.setdefault(basis, {})[waiter] = seen_at
        if basis is not None:
            scope.most = max(scope.most, basis.more + basis.relief)

    def remove(self, waiter: Hashable, tree_id: str, refusal: Refusal) -> None:
        """Forget a waiter that was added with this refusal."""
        basis = refusal.basis
        scopes = self._by_key[tree_id, refusal.resource]
        name = "" if basis is None else basis.scope
        families = scopes[name].families
        groups = families[_family(basis)]
        waiters = groups[basis]
        del waiters[waiter]
        if not waiters:
            del groups[basis]
            if not groups:
                del families[_family(basis)]
                if not families:
                    del scopes[name]

    def refused_on(self, tree_id: str, resource: str) -> Scopes:
        """Return the waiters for a runtime of this resource, by scope."""
        return self._by_key.get((tree_id, resource), NO_SCOPES)


def _family(basis: RuntimeBasis | None) -> Family:
    if basis is None:
        return NO_FAMILY
    return basis.parent, Memory(basis.unseeded, basis.unrefreshed, basis.exact)
