"""Whom to evict so that one unit may start. Pure.

Candidates come in the order of what their eviction costs: the lowest priority first, then who does
not run yet, then who has run for the shortest time, then the youngest. The choice is the set whose
costliest member is as cheap as can be, and of those sets the one whose second costliest is, and so
on: rather two units of low priority than one of a higher. Nobody is in it who is not needed.

How. Whether a set is enough only a question to the filters can tell (`WhatIf`), so there should be
few. The shortest beginning of the order that is enough is found by doubling and halving; its last
member is needed. Then, with him, the shortest beginning of the rest, and so on, until those that
are needed are enough. Candidates of one kind, with the same booked in the same quota, stand for
each other: where one is needed, all that come before him are. So it takes as many searches as there
are kinds among the chosen.

That relies on one thing: what fits when some are gone fits when more are gone. The runtimes of
koord-scheduler are rounded, and may break it by a unit; so the chosen are looked through once more.

Not all candidates may go together: nobody is evicted below what his quota is entitled to (`Lent`).
Then a beginning of the order is enough if some of it are that may. Whoever comes cheapest is not
always among them: a small unit may leave too little to take for the large one that is needed. So
how many go of each kind is tried, for kinds that hinder each other, the larger first. That takes
as many questions as there are ways to fill what may be taken; where these are too many, whoever may
go is let go in the order of cost.
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

MOST_VICTIMS: Final = 500
"""Of one round. Each costs a write and a job's work; who needs more waits until they end."""


class Candidate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A unit that may be evicted.

    Attributes:
        key: `namespace/name`.
        uid: Its uid.
        priority: Lower goes first.
        runs: Whether all its pods run.
        since: When its pods ran, as in the object; "" where nobody says, or they do not.
        kind: Equal for those with equal bookings in one quota.
    """

    key: str
    uid: Uid
    priority: int
    runs: bool
    since: str
    kind: Hashable


IsEnough = Callable[[Sequence[Candidate]], bool]
"""Says whether the unit would start if nothing were booked for these."""

IsSomeEnough = Callable[[Sequence[Candidate], Sequence[Candidate]], bool]
"""The same for all of the first and whichever may go with them of the second."""

FEW: Final = 64
"""When so many are not enough, it is asked first whether all would be: mostly they are not."""


MOST_QUESTIONS: Final = 64
"""About ways to fill what may be taken; so few kinds hinder each other that it is seldom 10."""


def choose_victims(
    candidates: Iterable[Candidate],
    is_enough: IsEnough,
    may_be_enough: Callable[[], bool] = lambda: True,
    lent: Lent | None = None,
) -> tuple[Candidate, ...]:
    """Return whom to evict, the cheapest first; () if all together are not enough, or too many.

    Args:
        candidates: In the order of cost; read only as far as needed.
        is_enough: False for nobody: else there is no need to ask.
        may_be_enough: Says whether it would start if nothing were booked for all candidates, or for
            more than these; asked once at most.
        lent: Who may go together; None: all of them.
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
    """The ways to take back what is lent.

    Attributes:
        questions_left: Below 0: not every way has been looked at.
    """

    def __init__(self, lent: Lent, is_enough: IsEnough) -> None:
        self._lent = lent
        self._is_enough = is_enough
        self.questions_left = MOST_QUESTIONS

    def is_enough(self, kept: Sequence[Candidate], rest: Sequence[Candidate]) -> bool:
        """Return whether all that are kept may go and are enough, with some of the rest."""
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
    found: dict[Hashable, list[Candidate]] = {}
    for one in candidates:
        found.setdefault(one.kind, []).append(one)
    return list(found.values())


def _of_use(source: Iterable[Candidate], lent: Lent, read: list[Candidate]) -> Iterator[Candidate]:
    """Iterate over as many of each kind as may go where nobody else does; note them in `read`."""
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
    found = _find_enough(source, is_some_enough, may_be_enough)
    place = {one.uid: number for number, one in enumerate(found)}
    kept: list[Candidate] = []
    rest = found
    while rest:
        needed = _shortest(kept, rest, is_some_enough)
        if not needed:
            break
        last = rest[needed - 1]
        kept += [one for one in rest[:needed] if one.kind == last.kind]
        rest = [one for one in rest[:needed] if one.kind != last.kind]
    kept.sort(key=lambda one: place[one.uid])
    if len(kept) > MOST_VICTIMS:
        return ()
    return tuple(_spare(kept, is_enough))


def _find_enough(
    source: Iterator[Candidate], is_some_enough: IsSomeEnough, may_be_enough: Callable[[], bool]
) -> list[Candidate]:
    """Return a beginning that is enough, at most twice as long as the shortest; or []."""
    found: list[Candidate] = []
    while batch := list(islice(source, max(1, len(found)))):
        found += batch
        if is_some_enough((), found):
            return found
        if len(found) == FEW and not may_be_enough():
            return []
    return []


def _shortest(kept: list[Candidate], rest: list[Candidate], is_some_enough: IsSomeEnough) -> int:
    """Return how many of `rest` it takes with those that are kept; all of it is enough."""
    low, high = 0, len(rest)
    while low < high:
        middle = (low + high) // 2
        if (kept or middle) and is_some_enough(kept, rest[:middle]):
            high = middle
        else:
            low = middle + 1
    return high


def _spare(kept: list[Candidate], is_enough: IsEnough) -> list[Candidate]:
    """Return the chosen without those that are not needed after all, the costliest spared first."""
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
