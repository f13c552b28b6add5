"""Which units to evict so that one unit may start. Pure.

Candidates are ordered by the cost of their eviction: the lowest priority first, then, of those that
borrow, the ones furthest above their share, where use is counted (`borrowers`), then those that do
not run yet, then the shortest running time, then the youngest. Of all sets that are enough, the
chosen one has the cheapest costliest member, then the cheapest second costliest, and so on: two
low-priority victims are preferred to one higher-priority one. The set is minimal.

Algorithm. Only a question to the filters (`WhatIf`) can tell whether a set is enough, so the number
of questions matters. The shortest prefix of the order that is enough is found by doubling and
halving; its last member is needed. Then the shortest prefix of the rest that is enough together
with it is found, and so on, until the needed members alone are enough. Candidates of one kind have
equal charges in one quota and are interchangeable: if one is needed, all that come before it are.
So it takes as many searches as there are kinds among the chosen.

This relies on one property: what fits when some units are gone fits when more are gone. Runtimes of
koord-scheduler are rounded, and may violate it by one unit of a resource; so unneeded members of
the result are looked for once more.

Not all candidates may go together: no unit is evicted below what its quota is entitled to (`Lent`).
A prefix is enough if some of it are that may go together. The cheapest are not always among them: a
small unit may leave too little to take for the large one that is needed. So for kinds that hinder
each other, the number to take of each kind is searched, the larger first. That takes as many
questions as there are ways to fill what may be taken; if there are too many, candidates that may go
are taken in the order of cost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from sys import maxsize
from typing import Final

import msgspec

from queue_scheduler.framework.extension_points import Lent
from shared_api.objects.meta import Uid

MAX_VICTIMS: Final = 500
"""Victims of one round. Each costs a write and a job's work; a unit that needs more waits."""


class Candidate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A unit that may be evicted.

    Attributes:
        key: `namespace/name`.
        uid: Its uid.
        priority: A lower one goes first.
        runs: Whether all its pods run.
        since: Since when its pods run, or have saved nothing; "" if unknown, or they do not run.
        kind: Equal for units with equal charges in one quota.
    """

    key: str
    uid: Uid
    priority: int
    runs: bool
    since: str
    kind: Hashable


IsEnough = Callable[[Sequence[Candidate]], bool]
"""Returns whether the unit would start if nothing were charged for these."""

IsSomeEnough = Callable[[Sequence[Candidate], Sequence[Candidate]], bool]
"""Returns whether it would start without all of the first, and those of the second that may go
with them."""

FEW: Final = 64
"""After this many that are not enough, ask first whether all would be: in most cases not."""


MAX_QUESTIONS: Final = 64
"""Limit on the ways to fill what may be taken; so few kinds hinder each other that 10 is rare."""


def choose_victims(
    candidates: Iterable[Candidate],
    is_enough: IsEnough,
    may_be_enough: Callable[[], bool] = lambda: True,
    lent: Lent | None = None,
) -> tuple[Candidate, ...]:
    """Return the units to evict, the cheapest first; (): not even all are enough, or too many.

    Args:
        candidates: In the order of cost; read only as far as needed.
        is_enough: Must be False for no units: else there is no need to ask.
        may_be_enough: Returns whether the unit would start if nothing were charged for all
            candidates, or for more than these; asked once at most.
        lent: Which units may go together, or None if all may.
    """
    may_be_enough = cache(may_be_enough)
    source = iter(candidates)
    if lent is not None:
        read: list[Candidate] = []
        source = _of_use(source, lent, read)
        ways = _Ways(lent, is_enough)
        chosen = _choose(source, ways.is_enough, is_enough, may_be_enough)
        if ways.questions_left >= 0 and (not chosen or ways.is_enough(chosen, ())):
            return chosen
        taken = lent.copy()
        source = (one for one in chain(read, source) if taken.take(one.uid, 1))
    return _choose(source, lambda kept, rest: is_enough([*kept, *rest]), is_enough, may_be_enough)


class _Ways:
    """The sets of victims that return what is lent.

    Attributes:
        questions_left: Below 0: some ways have not been tried.
    """

    def __init__(self, lent: Lent, is_enough: IsEnough) -> None:
        self._lent = lent
        self._is_enough = is_enough
        self.questions_left = MAX_QUESTIONS

    def is_enough(self, kept: Sequence[Candidate], rest: Sequence[Candidate]) -> bool:
        """Return whether all of `kept` may go and are enough, with some of the rest."""
        lent = self._lent.copy()
        if not all(_take_all(lent, members) for members in _by_kind(kept)):
            return False
        kinds = _by_kind(rest)
        everybody = lent.copy()
        if all(_take_all(everybody, members) for members in kinds):
            return self._is_enough([*kept, *rest])
        if self.questions_left < 0 or not self._is_enough([*kept, *rest]):
            return False
        kinds.sort(key=lambda members: lent.copy().take(members[0].uid, len(members)))
        return self._try(lent, kinds, list(kept))

    def _try(self, lent: Lent, kinds: list[list[Candidate]], chosen: list[Candidate]) -> bool:
        if not kinds:
            self.questions_left -= 1
            return self.questions_left >= 0 and bool(chosen) and self._is_enough(chosen)
        members, *others = kinds
        places = lent.places(members[0].uid)
        most = lent.copy().take(members[0].uid, len(members))
        hinders = any(places & lent.places(other[0].uid) for other in others)
        for count in range(most, -1 if hinders else most - 1, -1):
            after = lent.copy()
            after.take(members[0].uid, count)
            if self._try(after, others, [*chosen, *members[:count]]):
                return True
            if self.questions_left < 0:
                break
        return False


def _take_all(lent: Lent, members: Sequence[Candidate]) -> bool:
    return lent.take(members[0].uid, len(members)) == len(members)


def _by_kind(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    alike: dict[Hashable, list[Candidate]] = {}
    for one in candidates:
        alike.setdefault(one.kind, []).append(one)
    return list(alike.values())


def _of_use(source: Iterable[Candidate], lent: Lent, read: list[Candidate]) -> Iterator[Candidate]:
    """Yield as many of each kind as may go if no others do; record them in `read`."""
    left: dict[Hashable, int] = {}
    for one in source:
        may_go = left.get(one.kind)
        if may_go is None:
            may_go = left[one.kind] = lent.copy().take(one.uid, maxsize)
        if may_go:
            left[one.kind] = may_go - 1
            read.append(one)
            yield one


def _choose(
    source: Iterator[Candidate],
    is_some_enough: IsSomeEnough,
    is_enough: IsEnough,
    may_be_enough: Callable[[], bool],
) -> tuple[Candidate, ...]:
    enough = _find_enough(source, is_some_enough, may_be_enough)
    place = {one.uid: number for number, one in enumerate(enough)}
    kept: list[Candidate] = []
    rest = enough
    while rest:
        needed = _shortest(kept, rest, is_some_enough)
        if not needed:
            break
        last = rest[needed - 1]
        kept += [one for one in rest[:needed] if one.kind == last.kind]
        rest = [one for one in rest[:needed] if one.kind != last.kind]
    kept.sort(key=lambda one: place[one.uid])
    if len(kept) > MAX_VICTIMS:
        return ()
    return tuple(_spare(kept, is_enough))


def _find_enough(
    source: Iterator[Candidate], is_some_enough: IsSomeEnough, may_be_enough: Callable[[], bool]
) -> list[Candidate]:
    """Return a prefix that is enough, at most twice as long as the shortest; or []."""
    prefix: list[Candidate] = []
    while batch := list(islice(source, max(1, len(prefix)))):
        prefix += batch
        if is_some_enough((), prefix):
            return prefix
        if len(prefix) == FEW and not may_be_enough():
            return []
    return []


def _shortest(kept: list[Candidate], rest: list[Candidate], is_some_enough: IsSomeEnough) -> int:
    """Return how many of `rest` are needed in addition to `kept`; all of `rest` are enough."""
    low, high = 0, len(rest)
    while low < high:
        middle = (low + high) // 2
        if (kept or middle) and is_some_enough(kept, rest[:middle]):
            high = middle
        else:
            low = middle + 1
    return high


def _spare(kept: list[Candidate], is_enough: IsEnough) -> list[Candidate]:
    """Return the chosen units without unneeded ones; the costliest are spared first."""
    for kind in dict.fromkeys(one.kind for one in reversed(kept)):
        while True:
            costliest = max(number for number, one in enumerate(kept) if one.kind == kind)
            fewer = kept[:costliest] + kept[costliest + 1 :]
            if not fewer or not is_enough(fewer):
                break
            kept = fewer
            if all(one.kind != kind for one in kept):
                break
    return kept
