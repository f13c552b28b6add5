"""Which refused classes wait for a budget, and which may pass it by now. Pure.

A class *waits* at the budgets of a quota whose budget refused it. A class that something else
refused *is watched*: it must not go on holding back others once a budget would refuse it. Either
way it is *due* until it is woken, or until its answer has changed again. Time alone lets a class
pass at most when a period ends, for which its queue is asked again by the clock.

To ask all budgets of a class takes some 25 us, and hundreds of classes may be due at once. So a
change finds out only for which classes the budget that refused them has enough now. The others of
its budgets are asked when it is about to be woken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop
from typing import Final, Self

import msgspec

from queue_scheduler.framework.extension_points import Place, Waiter
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.tenants.budgets_in_chains import BudgetKey
from queue_scheduler.tenants.due_classes import DueClasses, WaitingClass

CHECKED: Final = 40
"""Classes of which all budgets are asked before one of them is woken: about a millisecond."""


class Waiting(WaitingClass[str], frozen=True, gc=False):
    """A class that waits or is watched.

    Attributes:
        is_watched: Whether something else has refused it.
        short: The budget that refused it in the present period, with what it needs of that; None:
            another one did, or in a later period.
    """

    is_watched: bool
    short: tuple[BudgetKey, int] | None = None


class BudgetWaiters(DueClasses[str, Waiting]):
    """The classes by the quotas whose budgets concern them."""

    def __init__(self) -> None:
        super().__init__()
        # Those that are due by the one budget that refused them; the others are not asked yet.
        self._unsure: dict[Waiter, None] = {}

    def refused(self) -> list[Waiter]:
        """Return the classes that a budget has refused, in the order in which they were."""
        return [waiter for waiter, each in self._waiting.items() if not each.is_watched]

    def follow(
        self,
        eased: Iterable[str],
        tightened: Iterable[str],
        left_of: Callable[[BudgetKey], int],
    ) -> None:
        """Note which classes may be due.

        Args:
            eased: Quotas whose budgets may have more left than before.
            tightened: Quotas whose budgets may have less left.
            left_of: What new units may use of a budget.
        """
        if not self._waiting:
            return
        left = _Left(left_of)
        asked = {
            **dict.fromkeys(self._concerned(eased, left, are_watched=False)),
            **dict.fromkeys(self._concerned(tightened, left, are_watched=True)),
        }
        for waiter in asked:
            waiting = self._waiting[waiter]
            is_due = not left.is_short(waiting)
            self._set_due(waiter, waiting, is_due=is_due)
            if is_due:
                self._unsure[waiter] = None

    def first_due(
        self,
        domain: str,
        place_of: Callable[[Waiter], Place],
        refuses: Callable[[QueueUnitInfo], bool],
    ) -> tuple[Place, Waiter] | None:
        """Return the first class of a domain that is due, with its place; None: none is.

        After `CHECKED` classes that turned out not to be due, one that may be due is returned as it
        is: it is asked by its queue, and refused again if it does not pass.

        Args:
            domain: The domain.
            place_of: Returns the place of a class.
            refuses: Whether a budget refuses a unit.
        """
        places = [(place_of(waiter), waiter) for waiter in self.due.get(domain, ())]
        heapify(places)
        checked = 0
        while places:
            place, waiter = heappop(places)
            if waiter not in self._unsure or checked == CHECKED:
                return place, waiter
            checked += 1
            del self._unsure[waiter]
            waiting = self._waiting[waiter]
            if refuses(waiting.info) is waiting.is_watched:
                return place, waiter
            self._set_due(waiter, waiting, is_due=False)
        return None

    def discard(self, waiter: Waiter) -> None:
        """Forget a class; it may be unknown."""
        self._unsure.pop(waiter, None)
        super().discard(waiter)

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = super().copy()
        twin._unsure = dict(self._unsure)  # noqa: SLF001 - a twin
        return twin

    def _concerned(
        self, quotas: Iterable[str], left: _Left, *, are_watched: bool
    ) -> Iterator[Waiter]:
        """Yield the classes whose answer may be another after a change for the better or worse."""
        is_any_due = bool(self.due)
        for quota in quotas:
            for waiter in self._at.get(quota, ()):
                waiting = self._waiting[waiter]
                if not is_any_due and (
                    waiting.is_watched is not are_watched or left.is_short(waiting)
                ):
                    continue
                # One that is due may have to be so no more.
                is_due = waiter in self.due.get(waiting.domain, ())
                if (waiting.is_watched is are_watched or is_due) and waiter not in self._asked_anew:
                    yield waiter

    def ask_anew(self, are_concerned: Callable[[Waiting], bool] = lambda _: True) -> None:
        """Have classes asked: what limits them may be another budget now."""
        for waiter, waiting in list(self._waiting.items()):
            if not are_concerned(waiting):
                continue
            self._set_due(waiter, waiting, is_due=False)
            # In no domain, where all are woken at once: its domain may be another, too.
            anew = msgspec.structs.replace(waiting, domain="")
            self._waiting[waiter] = anew
            self._asked_anew[waiter] = None
            self._unsure.pop(waiter, None)
            self._set_due(waiter, anew, is_due=True)


class _Left:
    """What new units may use of budgets, each looked up once.

    Many classes wait for one budget, so most answers have to cost next to nothing.
    """

    def __init__(self, left_of: Callable[[BudgetKey], int]) -> None:
        self._left_of = left_of
        self._known: dict[BudgetKey, int] = {}

    def is_short(self, waiting: Waiting) -> bool:
        """Return whether the budget that refused a class still has too little for it."""
        if waiting.short is None:
            return False
        key, need = waiting.short
        left = self._known.get(key)
        if left is None:
            left = self._known[key] = self._left_of(key)
        return left < need
