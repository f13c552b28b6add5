"""Classes that wait because of eviction rounds, and when each is asked again. Pure.

A class may wait for several things at once; the first of them wakes it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

from queue_scheduler.framework.extension_points import Waiter
from shared_api.objects.meta import Uid

Releases: TypeAlias = tuple[int, int, int]
"""Counts that only increase: departures of victims; ends of nominations; releases of quota and
other facts that may let a unit start."""


SEARCH_AGAIN_SECONDS: Final = 10.0
"""Pause between victim searches for one class: one without result reads all running units."""


class BlockedClasses:
    """Classes (queue, number) by what they wait for."""

    def __init__(self) -> None:
        # Woken when anything is released.
        self._kept_out: dict[Waiter, None] = {}
        # Woken when a round is over.
        self._behind_rounds: dict[Waiter, None] = {}
        # Woken when the units in flight in their queue are no longer these.
        self._stood_back: dict[Waiter, frozenset[Uid]] = {}
        # By queue and class: woken at a time.
        self._timers: dict[str, dict[int, float]] = {}
        # By queue and class, after a search without result: no new search before this time, nor
        # before quota was released since that count; last, what the search was for.
        self._in_vain: dict[str, dict[int, tuple[float, int, Hashable]]] = {}
        self._woken: dict[Waiter, None] = {}
        # The releases at the last look; kept up to date while any class waits for one.
        self._seen: Releases = (0, 0, 0)

    def __bool__(self) -> bool:
        """Return whether any class waits."""
        return bool(
            self._kept_out
            or self._behind_rounds
            or self._stood_back
            or self._timers
            or self._in_vain
            or self._woken
        )

    # --- waiting ------------------------------------------------------------------------------

    def keep_out(self, waiter: Waiter, releases: Releases) -> None:
        """Register a class, to be woken when anything is released after `releases`."""
        self._watch(releases)
        self._kept_out[waiter] = None

    def hold_behind_rounds(self, waiter: Waiter, releases: Releases) -> None:
        """Register a class, to be woken when a round ends after `releases`."""
        self._watch(releases)
        self._behind_rounds[waiter] = None

    def stand_back(self, waiter: Waiter, in_flight: frozenset[Uid]) -> None:
        """Register a class, to be woken when other units than these are in flight in its queue."""
        self._stood_back[waiter] = in_flight

    def ask_at(self, waiter: Waiter, at: float) -> None:
        """Register a class, to be woken at a time, in seconds of the monotonic clock."""
        timers = self._timers.setdefault(waiter[0], {})
        timers[waiter[1]] = min(at, timers.get(waiter[1], at))

    def search_again(self, waiter: Waiter, now: float, releases: Releases, who: Hashable) -> None:
        """Register a class, to be woken after a pause, once anything is released after `releases`.

        `who`: identifies the unit that searched, with everything that the search depends on.
        """
        at = now + SEARCH_AGAIN_SECONDS
        self._in_vain.setdefault(waiter[0], {})[waiter[1]] = (at, releases[2], who)

    def has_searched(self, waiter: Waiter, who: Hashable, now: float, releases: Releases) -> bool:
        """Return whether a repeated search is too early, or cannot find anything new."""
        at, seen, searched = self._in_vain.get(waiter[0], {}).get(waiter[1], (now, -1, None))
        return who == searched and (now < at or seen == releases[2])

    def ask_now(self, waiter: Waiter) -> None:
        """Wake a class."""
        self._woken[waiter] = None

    def forget_queue(self, queue: str) -> None:
        """Forget the classes of a deleted queue; a new queue of its name numbers them anew."""
        self._timers.pop(queue, None)
        self._in_vain.pop(queue, None)
        for waiters in (self._kept_out, self._behind_rounds, self._stood_back, self._woken):
            for waiter in [each for each in waiters if each[0] == queue]:
                del waiters[waiter]

    # --- waking -------------------------------------------------------------------------------

    def wake_behind_rounds(self) -> None:
        """Wake the classes that wait for the end of a round."""
        self._wake(self._behind_rounds)

    def wake_after(
        self, releases: Releases, in_flight: Callable[[str], frozenset[Uid]] | None = None
    ) -> None:
        """Wake the classes for which something was released, or other units are in flight.

        Args:
            releases: What was released until now.
            in_flight: Returns the units in flight of a queue; None if they are the same as before.
        """
        before, self._seen = self._seen, releases
        if releases[:2] != before[:2]:
            self._wake(self._behind_rounds)
        if releases != before:
            self._wake(self._kept_out)
        if in_flight is None:
            return
        for waiter, seen in list(self._stood_back.items()):
            if in_flight(waiter[0]) != seen:
                del self._stood_back[waiter]
                self._woken[waiter] = None

    def wake_timed(self) -> None:
        """Wake the classes that wait for a time: rules have changed, and it may be another."""
        timers, self._timers = self._timers, {}
        for queue, times in timers.items():
            self._woken.update(dict.fromkeys((queue, number) for number in times))

    def wake_due(self, queue: str, now: float, releases: Releases) -> None:
        """Wake the classes of a queue whose time has come."""
        timers, in_vain = self._timers.get(queue, {}), self._in_vain.get(queue, {})
        due = [number for number, at in timers.items() if at <= now]
        for number in due:
            del timers[number]
        for number, (at, seen, who) in list(in_vain.items()):
            if at <= now and seen != releases[2]:
                del in_vain[number]
                due.append(number)
            elif at <= now:
                in_vain[number] = (now + SEARCH_AGAIN_SECONDS, seen, who)
        self._woken.update(dict.fromkeys((queue, number) for number in due))
        if not timers:
            self._timers.pop(queue, None)
        if not in_vain:
            self._in_vain.pop(queue, None)

    def take_woken(self) -> list[Waiter]:
        """Return, once, the classes that were woken."""
        if not self._woken:
            return []
        woken, self._woken = list(self._woken), {}
        return woken

    # --- questions ----------------------------------------------------------------------------

    def times_of(self, queue: str) -> list[float]:
        """Return when classes of a queue are asked again."""
        in_vain = self._in_vain.get(queue, {}).values()
        return [*self._timers.get(queue, {}).values(), *(at for at, *_ in in_vain)]

    def copy(self) -> BlockedClasses:
        """Return an independent copy."""
        twin = BlockedClasses()
        twin._kept_out = dict(self._kept_out)
        twin._behind_rounds = dict(self._behind_rounds)
        twin._stood_back = dict(self._stood_back)
        twin._timers = {queue: dict(times) for queue, times in self._timers.items()}
        twin._in_vain = {queue: dict(times) for queue, times in self._in_vain.items()}
        twin._woken = dict(self._woken)
        twin._seen = self._seen
        return twin

    # --- inside -------------------------------------------------------------------------------

    def _watch(self, releases: Releases) -> None:
        if not (self._kept_out or self._behind_rounds):
            self._seen = releases

    def _wake(self, waiters: dict[Waiter, None]) -> None:
        self._woken.update(waiters)
        waiters.clear()
