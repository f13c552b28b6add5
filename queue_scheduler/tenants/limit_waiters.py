"""Which refused classes wait for a limit of users or groups, and which may pass it by now. Pure.

A class *waits* at the limit that refused it, and may pass once its need is within what is left
there. A class that something else refused *is watched* instead, at each limit that concerns it: it
must not go on holding back others once its account is over a limit. Either way it is *due* until it
is woken, or until the room is taken again. Those that are due are offered in the order of turns.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from queue_scheduler.framework.extension_points import Waiter
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.tenants.due_classes import DueClasses, WaitingClass
from queue_scheduler.tenants.limit_use import Counted, Use


class Waiting(WaitingClass[Counted], frozen=True, gc=False):
    """A class that waits or is watched.

    Attributes:
        resource: What was short; "" for a class that is watched.
        need: How much of it the class asks for.
        limit: The limit on it.
    """

    resource: str = ""
    need: int = 0
    limit: int = 0

    def fits(self, use: Use) -> bool:
        """Return whether its need is within what is left at the limit."""
        return use.of(self.resource) + self.need <= self.limit


class LimitWaiters(DueClasses[Counted, Waiting]):
    """The classes by what they wait for."""

    def __iter__(self) -> Iterator[tuple[Waiter, Waiting]]:
        return iter(self._waiting.items())

    def follow(
        self,
        changed: Iterable[Counted],
        use_of: Callable[[Counted], Use],
        is_over: Callable[[QueueUnitInfo], bool],
    ) -> None:
        """Note another use: which classes are due.

        Args:
            changed: The users and groups whose use has changed.
            use_of: What it is now.
            is_over: Whether a unit is over a limit now.
        """
        at = self._at
        for counted in changed if at else ():
            for waiter in at.get(counted, ()):
                waiting = self._waiting[waiter]
                if waiter in self._asked_anew:
                    continue
                is_due = (
                    waiting.fits(use_of(counted)) if waiting.resource else is_over(waiting.info)
                )
                self._set_due(waiter, waiting, is_due=is_due)

    def ask_anew(self, waiters: Iterable[Waiter] | None = None) -> None:
        """Have classes asked whatever they wait for; None: all.

        What limits them may be another limit now. They are due in no domain, where the first of
        them would be looked for again and again: `take_asked_anew` returns them.
        """
        for waiter in list(self._waiting if waiters is None else waiters):
            self._set_due(waiter, self._waiting[waiter], is_due=False)
            self._asked_anew[waiter] = None

    def ask_anew_at(self, quotas: Container[str]) -> None:
        """Have the classes asked that wait or are watched at a limit of these quotas."""
        at = [waiters for counted, waiters in self._at.items() if counted.quota in quotas]
        self.ask_anew(dict.fromkeys(waiter for waiters in at for waiter in waiters))

    @property
    def has_asked_anew(self) -> bool:
        """Whether classes are to be asked whatever they wait for."""
        return bool(self._asked_anew)

    def take_asked_anew(self, most: int) -> list[Waiter]:
        """Return, once, at most so many classes to wake whatever they wait for; forget them."""
        taken = [self._asked_anew.popitem()[0] for _ in range(min(most, len(self._asked_anew)))]
        for waiter in taken:
            self.discard(waiter)
        return taken
