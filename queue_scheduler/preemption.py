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
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

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


FEW: Final = 64
"""When so many are not enough, it is asked first whether all would be: mostly they are not."""


def choose_victims(
    candidates: Iterable[Candidate],
    is_enough: IsEnough,
    may_be_enough: Callable[[], bool] = lambda: True,
) -> tuple[Candidate, ...]:
    """Return whom to evict, the cheapest first; () if all together are not enough, or too many.

    Args:
        candidates: In the order of cost; read only as far as needed.
        is_enough: False for nobody: else there is no need to ask.
        may_be_enough: Says whether it would start if nothing were booked for all candidates, or for
            more than these; asked once at most.
    """
    found = _find_enough(iter(candidates), is_enough, may_be_enough)
    place = {one.uid: number for number, one in enumerate(found)}
    kept: list[Candidate] = []
    rest = found
    while rest:
        needed = _shortest(kept, rest, is_enough)
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
    source: Iterator[Candidate], is_enough: IsEnough, may_be_enough: Callable[[], bool]
) -> list[Candidate]:
    """Return a beginning that is enough, at most twice as long as the shortest; or []."""
    found: list[Candidate] = []
    while batch := list(islice(source, max(1, len(found)))):
        found += batch
        if is_enough(found):
            return found
        if len(found) == FEW and not may_be_enough():
            return []
    return []


def _shortest(kept: list[Candidate], rest: list[Candidate], is_enough: IsEnough) -> int:
    """Return how many of `rest` it takes with those that are kept; all of it is enough."""
    low, high = 0, len(rest)
    while low < high:
        middle = (low + high) // 2
        if (kept or middle) and is_enough([*kept, *rest[:middle]]):
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
