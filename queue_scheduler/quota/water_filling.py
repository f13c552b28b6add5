"""The division that rounds half up, by water-filling: without a loop over the children.

`runtime_division.divide` gives every unsatisfied child of one weight the same share in each round.
So only the sum of these shares, the *level*, matters: a child that lacks no more than the level is
full, and what it was given above its lack comes back. With the children of one weight sorted by
what they lack, a round costs one look-up per weight. To ask what would change if one child asked
for more, one number is exchanged in one list; nothing else is recomputed.

Every share is the same expression of the same three integers as in `runtime_division.half_up`, so
the amounts are exactly the same. So is what the tolerant division there hands out, in a tolerant
group: a child that lacks no more above its level than the *crumb* is full as well. A child with a
weight of 0 or less gets no share: groups with such children are divided by
`runtime_division.divide`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from typing import Final, TypeAlias

from queue_scheduler.quota.runtime_division import completed_by, half_up_share

PooledClaim: TypeAlias = tuple[int, int, int]
"""weight, request, floor. A request within the floor is granted as it is."""

NO_CLAIM: Final[PooledClaim] = (0, 0, 0)

Lacks: TypeAlias = Mapping[int, list[int]]
"""The amounts that unsatisfied children lack above their floors, sorted, by weight."""

Filled: TypeAlias = tuple[dict[int, int], int]
"""The level of each weight, and the crumb; that is 0 where the group is not tolerant."""


class ShareGroup:
    """The claims of one parent's children to one resource, with the floors for one total."""

    __slots__ = ("_claims", "_floors", "_is_tolerant", "_lacks", "_weights")

    def __init__(self, *, tolerant: bool = False) -> None:
        self._is_tolerant = tolerant
        self._claims: dict[str, PooledClaim] = {}
        self._lacks: dict[int, list[int]] = {}
        self._weights = 0  # of the unsatisfied
        # What all children get before shares are computed.
        self._floors = 0

    def put(self, name: str, claim: PooledClaim) -> None:
        """Add a child that is not in the group; an unsatisfied one must have a positive weight."""
        weight, request, floor = claim
        self._claims[name] = claim
        if request <= floor:
            self._floors += request
            return
        self._floors += floor
        self._weights += weight
        lacks = self._lacks.get(weight)
        if lacks is None:
            self._lacks[weight] = [request - floor]
        else:
            insort(lacks, request - floor)

    def take_out(self, name: str) -> None:
        """Remove a child, if it is in the group."""
        claim = self._claims.pop(name, None)
        if claim is None:
            return
        weight, request, floor = claim
        self._floors -= min(request, floor)
        if request > floor:
            self._weights -= weight
            lacks = self._lacks[weight]
            del lacks[bisect_left(lacks, request - floor)]
            if not lacks:
                del self._lacks[weight]

    def replace(self, name: str, claim: PooledClaim) -> None:
        """Put a child in place of what it claimed before, if it did; it is then the last one."""
        was = self._claims.pop(name, None)
        weight, request, floor = claim
        if was is None or was[0] != weight or was[1] <= was[2] or request <= floor:
            if was is not None:
                self._claims[name] = was
                self.take_out(name)
            self.put(name, claim)
            return
        # Mostly an unsatisfied child asks for another amount.
        self._claims[name] = claim
        self._floors += floor - was[2]
        lacks = self._lacks[weight]
        del lacks[bisect_left(lacks, was[1] - was[2])]
        insort(lacks, request - floor)

    def fill(self, total: int, name: str = "", claim: PooledClaim | None = None) -> WaterFilling:
        """Divide a total; with a `claim`, as if the child `name` claimed that."""
        rest = total - self._floors
        lacks: Lacks = self._lacks
        if claim is not None:
            was = self._claims.get(name, NO_CLAIM)
            rest += min(was[1], was[2]) - min(claim[1], claim[2])
            lacks = self._exchange(was, claim)
        filled = _fill(lacks, rest, tolerant=self._is_tolerant)
        return WaterFilling(self._claims, lacks, rest, filled, name, claim)

    def grant(self, total: int, name: str, claim: PooledClaim) -> int:
        """Return what one child gets of a total if it claims this."""
        weight, request, floor = claim
        if request <= floor:
            return request
        was = self._claims.get(name, NO_CLAIM)
        rest = total - self._floors + min(was[1], was[2]) - floor
        weights = self._weights if was[1] > was[2] else self._weights + weight
        # Shortcut: most children are full after the first round.
        if rest > 0 and request <= floor + half_up_share(weight, rest, weights):
            return request
        levels, crumb = _fill(self._exchange(was, claim), rest, tolerant=self._is_tolerant)
        got = floor + levels[weight]
        return got if request - got > crumb else request

    def _exchange(self, was: PooledClaim, claim: PooledClaim) -> Lacks:
        """Return what the unsatisfied lack if one claim is replaced by another."""
        weight, request, floor = claim
        lacked = was[1] - was[2]
        if lacked <= 0 and request <= floor:
            return self._lacks
        own = self._lacks.get(weight, []).copy()
        if lacked > 0:
            del own[bisect_left(own, lacked)]
        if request > floor:
            insort(own, request - floor)
        return {**self._lacks, weight: own}


class WaterFilling:
    """What every child gets of a total."""

    __slots__ = ("_changed", "_claim", "_claims", "_crumb", "_lacks", "_levels", "_rest")

    def __init__(
        self,
        claims: Mapping[str, PooledClaim],
        lacks: Lacks,
        rest: int,
        filled: Filled,
        changed: str,
        claim: PooledClaim | None,
    ) -> None:
        self._claims = claims
        self._lacks = lacks
        self._rest = rest
        self._levels, self._crumb = filled
        self._changed = changed
        self._claim = claim

    @property
    def is_full(self) -> bool:
        """Whether no child gets less than it claims."""
        levels, crumb = self._levels, self._crumb
        return not any(
            own and own[-1] - levels[weight] > crumb for weight, own in self._lacks.items()
        )

    def get(self, name: str, default: int) -> int:
        """Return what a child gets; `default` if it claims nothing."""
        claim = self._claims.get(name)
        if name == self._changed and self._claim is not None:
            claim = self._claim
        if claim is None:
            return default
        weight, request, floor = claim
        if request <= floor:
            return request
        got = floor + self._levels[weight]
        return got if request - got > self._crumb else request

    def lost(self) -> int:
        """Return how much rounding loses, in base units; 0 if no child lacks anything."""
        given = 0
        is_short = False
        for weight, own in self._lacks.items():
            level = self._levels[weight]
            completed = bisect_right(own, level + self._crumb)
            given += sum(own[:completed]) + level * (len(own) - completed)
            is_short = is_short or completed < len(own)
        return max(0, self._rest - given) if is_short else 0

    def short(self) -> list[str]:
        """Return the children that get less than they claim."""
        if self.is_full:
            return []
        crumb = self._crumb
        levels = {weight: level + crumb for weight, level in self._levels.items()}
        names = [
            name
            for name, (weight, request, floor) in self._claims.items()
            if request > floor and request - floor > levels[weight] and name != self._changed
        ]
        claim = self._claim
        if claim is not None and claim[1] > claim[2] and claim[1] - claim[2] > levels[claim[0]]:
            names.append(self._changed)
        return names


def _fill(lacks: Lacks, rest: int, *, tolerant: bool) -> Filled:
    if len(lacks) == 1:
        for weight, own in lacks.items():
            return _fill_one(weight, own, rest, tolerant=tolerant)
    levels = dict.fromkeys(lacks, 0)
    full = dict.fromkeys(lacks, 0)
    lost = 0
    while rest > 0:
        weight_sum = sum(weight * (len(own) - full[weight]) for weight, own in lacks.items())
        if not weight_sum:
            break
        lost += rest
        given_back = 0
        for weight, own in lacks.items():
            before = full[weight]
            if before < len(own):
                share = half_up_share(weight, rest, weight_sum)
                lost -= share * (len(own) - before)
                level = levels[weight] = levels[weight] + share
                after = full[weight] = bisect_right(own, level, before)
                given_back += level * (after - before) - sum(own[before:after])
        rest = given_back
    if lost <= 0 or not tolerant:
        return levels, 0
    made_up = min(lost, sum(map(len, lacks.values())))
    lacking: list[int] = []
    for weight, own in lacks.items():
        if full[weight] < len(own):
            lacking += _nearly_full(own, full[weight], levels[weight], made_up)
    return levels, completed_by(made_up, lacking)


def _fill_one(weight: int, lacks: list[int], rest: int, *, tolerant: bool) -> Filled:
    """Do the same for a single weight."""
    level = full = lost = 0
    count = len(lacks)
    while rest > 0 and full < count:
        share = half_up_share(weight, rest, weight * (count - full))
        lost += rest - share * (count - full)
        level += share
        after = bisect_right(lacks, level, full)
        rest = level * (after - full) - sum(lacks[full:after])
        full = after
    crumb = 0
    if tolerant and lost > 0 and full < count:
        made_up = min(lost, count)
        crumb = completed_by(made_up, _nearly_full(lacks, full, level, made_up))
    return {weight: level}, crumb


def _nearly_full(lacks: list[int], full: int, level: int, most: int) -> list[int]:
    """Return the lacks above the level that are positive and at most `most`."""
    return [lack - level for lack in lacks[full : bisect_right(lacks, level + most, full)]]
