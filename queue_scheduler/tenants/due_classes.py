"""Refused classes that wait for what only the engine's own filters follow, and which to ask. Pure.

A class is registered at each place where a change may concern it: a user or group in
`limit_waiters`, a quota in `budget_waiters`. It is *due* while it is to be asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, Self, TypeVar

import msgspec

from queue_scheduler.framework.extension_points import Place, Waiter
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo

AtT = TypeVar("AtT", bound=Hashable)
WaitingT = TypeVar("WaitingT", bound="WaitingClass[Any]")


class WaitingClass(msgspec.Struct, Generic[AtT], frozen=True, gc=False):
    """A class that waits or is watched.

    Attributes:
        info: Its unit that was asked, with the demand that was refused.
        domain: What its quota competes for.
        at: Where changes may concern it.
    """

    info: QueueUnitInfo
    domain: str
    at: tuple[AtT, ...]


class DueClasses(Generic[AtT, WaitingT]):
    """The classes, by where changes may concern them.

    Attributes:
        due: By domain: the classes to ask, in the order in which they became due; for reading.
    """

    def __init__(self) -> None:
        self.due: dict[str, dict[Waiter, None]] = {}
        self._waiting: dict[Waiter, WaitingT] = {}
        self._at: dict[AtT, dict[Waiter, None]] = {}
        self._asked_anew: dict[Waiter, None] = {}

    def add(self, waiter: Waiter, waiting: WaitingT) -> None:
        """Register a class, in place of what it waited for before."""
        self.discard(waiter)
        self._waiting[waiter] = waiting
        for at in waiting.at:
            self._at.setdefault(at, {})[waiter] = None

    def discard(self, waiter: Waiter) -> None:
        """Forget a class; it may be unknown."""
        waiting = self._waiting.pop(waiter, None)
        if waiting is None:
            return
        for at in waiting.at:
            waiters = self._at[at]
            del waiters[waiter]
            if not waiters:
                del self._at[at]
        self._asked_anew.pop(waiter, None)
        self._set_due(waiter, waiting, is_due=False)

    def first(
        self, domain: str, place_of: Callable[[Waiter], Place]
    ) -> tuple[Place, Waiter] | None:
        """Return the first class of a domain that is due, with its place; None: none is."""
        return min(
            ((place_of(waiter), waiter) for waiter in self.due.get(domain, ())), default=None
        )

    def _set_due(self, waiter: Waiter, waiting: WaitingT, *, is_due: bool) -> None:
        due = self.due.get(waiting.domain)
        if is_due:
            self.due.setdefault(waiting.domain, {})[waiter] = None
        elif due is not None and waiter in due:
            del due[waiter]
            if not due:
                del self.due[waiting.domain]

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = type(self)()
        twin.due = {domain: dict(due) for domain, due in self.due.items()}
        waiting, asked_anew = dict(self._waiting), dict(self._asked_anew)
        at = {each: dict(waiters) for each, waiters in self._at.items()}
        twin._waiting, twin._at, twin._asked_anew = waiting, at, asked_anew  # noqa: SLF001 - a twin
        return twin
