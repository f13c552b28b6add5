"""Which refused classes wait for a budget, and which may pass it by now. Pure.

A class *waits* at the budgets of a quota whose budget refused it. A class that something else
refused *is watched*: it must not go on holding back others once a budget would refuse it. Either
way it is *due* until it is woken, or until its answer has changed again. Time alone lets a class
pass at most when a period ends, for which its queue is asked again by the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from queue_scheduler.framework.extension_points import Place, Waiter
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.tenants.budgets_in_chains import BudgetKey


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A class that waits or is watched.

    Attributes:
        info: Its unit that was asked, with the demand that was refused.
        domain: What its quota competes for.
        at: The quotas whose budgets concern it.
        is_watched: Whether something else has refused it.
        short: The budget that refused it in the present period, with what it needs of that; None:
            another one did, or in a later period.
    """

    info: QueueUnitInfo
    domain: str
    at: tuple[str, ...]
    is_watched: bool
    short: tuple[BudgetKey, int] | None = None


class BudgetWaiters:
    """The classes by the quotas whose budgets concern them.

    Attributes:
        due: By domain: the classes to ask, in the order in which they became due; for reading.
    """

    def __init__(self) -> None:
        self.due: dict[str, dict[Waiter, None]] = {}
        self._waiting: dict[Waiter, Waiting] = {}
        self._at: dict[str, dict[Waiter, None]] = {}
        self._asked_anew: dict[Waiter, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, waiter: Waiter, waiting: Waiting) -> None:
        """Register a class, in place of what it waited for before."""
        self.discard(waiter)
        self._waiting[waiter] = waiting
        for quota in waiting.at:
            self._at.setdefault(quota, {})[waiter] = None

    def discard(self, waiter: Waiter) -> None:
        """Forget a class; it may be unknown."""
        waiting = self._waiting.pop(waiter, None)
        if waiting is None:
            return
        for quota in waiting.at:
            waiters = self._at[quota]
            del waiters[waiter]
            if not waiters:
                del self._at[quota]
        self._asked_anew.pop(waiter, None)
        self._set_due(waiter, waiting, is_due=False)

    def follow(
        self,
        eased: Iterable[str],
        tightened: Iterable[str],
        refuses: Callable[[QueueUnitInfo], bool],
        left_of: Callable[[BudgetKey], int],
    ) -> None:
        """Note which classes are due.

        Args:
            eased: Quotas whose budgets may have more left than before.
            tightened: Quotas whose budgets may have less left.
            refuses: Whether a budget refuses a unit.
            left_of: What new units may use of a budget.
        """
        left = _Left(left_of)
        asked = {
            **dict.fromkeys(self._concerned(eased, left, are_watched=False)),
            **dict.fromkeys(self._concerned(tightened, left, are_watched=True)),
        }
        for waiter in asked:
            waiting = self._waiting[waiter]
            is_due = not left.is_short(waiting) and (refuses(waiting.info) is waiting.is_watched)
            self._set_due(waiter, waiting, is_due=is_due)

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
            self._set_due(waiter, anew, is_due=True)

    def first(
        self, domain: str, place_of: Callable[[Waiter], Place]
    ) -> tuple[Place, Waiter] | None:
        """Return the first class of a domain that is due, with its place; None: none is."""
        return min(
            ((place_of(waiter), waiter) for waiter in self.due.get(domain, ())), default=None
        )

    def _set_due(self, waiter: Waiter, waiting: Waiting, *, is_due: bool) -> None:
        due = self.due.get(waiting.domain)
        if is_due:
            self.due.setdefault(waiting.domain, {})[waiter] = None
        elif due is not None and waiter in due:
            del due[waiter]
            if not due:
                del self.due[waiting.domain]

    def copy(self) -> BudgetWaiters:
        """Return an independent copy."""
        twin = BudgetWaiters()
        twin.due = {domain: dict(due) for domain, due in self.due.items()}
        twin._waiting = dict(self._waiting)
        twin._at = {quota: dict(waiters) for quota, waiters in self._at.items()}
        twin._asked_anew = dict(self._asked_anew)
        return twin


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
