"""How long runs last: survival estimates on a grid of logarithmic bins. Pure.

A run that still goes on, or that was evicted, tells only that it lasts longer: it is *censored*.
Kaplan and Meier's estimate counts it among those at risk up to its age, and not after it. Without
that, what has finished is biased short.

A group with few runs borrows from a larger one: in each bin, its hazard is that of its own runs and
of `borrowed` runs that end as often as those of the larger group. So the rule needs no threshold:
a group with no run has the larger group's estimate, and the tail of a group, where few runs are
left, is that of the larger one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import exp, log, log2
from statistics import NormalDist
from typing import Final

PER_DOUBLING: Final = 8
"""Bins: each is 9 % longer than the one before, which is finer than any forecast can be."""

BINS: Final = 25 * PER_DOUBLING
"""The number of bins: they reach from a second to 388 days."""

SURE: Final = 1 - 1e-9
"""The highest hazard of a bin, so that logarithms exist."""


def bin_of(value: float) -> int:
    """Return the bin of a duration in seconds; what is outside is in the first or the last."""
    return 0 if value <= 1.0 else min(BINS - 1, int(log2(value) * PER_DOUBLING))


def edge_of(position: float) -> float:
    """Return the duration at a position on the grid: at a whole number, where that bin begins."""
    return float(2 ** (position / PER_DOUBLING))


class Group:
    """The runs of one group, weighted, by the bin of their duration.

    Attributes:
        ends: The weight of those that ended, by bin.
        cuts: The weight of those that were cut, or go on: the censored ones.
        total: The weight of all that ended.
    """

    __slots__ = ("cuts", "ends", "total")

    def __init__(self) -> None:
        self.ends: dict[int, float] = {}
        self.cuts: dict[int, float] = {}
        self.total = 0.0

    def add(self, value: float, weight: float, *, is_cut: bool) -> None:
        """Count a run.

        Args:
            value: How long it lasted until now.
            weight: What it counts.
            is_cut: Whether it would have lasted longer.
        """
        place = bin_of(value)
        side = self.cuts if is_cut else self.ends
        side[place] = side.get(place, 0.0) + weight
        if not is_cut:
            self.total += weight


def hazards(
    group: Group | None,
    larger: Sequence[float] | None,
    borrowed: float,
    scale: float = 1.0,
    going: Iterable[float] = (),
) -> list[float]:
    """Return the share of those alive at the beginning of each bin that end in it.

    Args:
        group: The runs; None if there are none.
        larger: The hazards of the larger group; None: nothing is borrowed.
        borrowed: How many runs of the larger group are borrowed.
        scale: What the group's weights are multiplied by.
        going: How long runs have lasted that still go on; each counts as one.
    """
    ends, cuts = [0.0] * BINS, [0.0] * BINS
    if group is not None:
        for place, weight in group.ends.items():
            ends[place] = weight * scale
        for place, weight in group.cuts.items():
            cuts[place] = weight * scale
    for value in going:
        cuts[bin_of(value)] += 1.0
    found = [0.0] * BINS
    alive = 0.0
    for place in range(BINS - 1, -1, -1):
        # Half of those that are cut within a bin were at risk in it, as in a life table.
        risk = alive + ends[place] + cuts[place] / 2
        alive += ends[place] + cuts[place]
        prior = 0.0 if larger is None else larger[place]
        weight = 0.0 if larger is None else borrowed
        total = risk + weight
        found[place] = (ends[place] + weight * prior) / total if total > 0 else 0.0
    return found


def log_normal_hazards(median: float, sigma: float) -> list[float]:
    """Return the hazards of a log-normal duration; what a fresh installation believes.

    Args:
        median: Its median.
        sigma: The standard deviation of its natural logarithm.
    """
    shape = NormalDist(log(median), sigma)
    lived = [1.0, *(1.0 - shape.cdf(log(edge_of(place))) for place in range(1, BINS + 1))]
    return [
        1.0 - lived[place + 1] / lived[place] if lived[place] > 0 else SURE for place in range(BINS)
    ]


class Curve:
    """The chance that a run lasts longer than a time, and its inverse.

    Args:
        rates: The hazards by bin.
    """

    __slots__ = ("_fallen",)

    def __init__(self, rates: Sequence[float]) -> None:
        # The cumulative hazard at the bins' edges; survival is its negative exponential.
        self._fallen = [0.0, *accumulate(-log(1.0 - min(rate, SURE)) for rate in rates)]

    def survival(self, value: float) -> float:
        """Return the chance to last longer than this."""
        return exp(-self._fallen_at(value))

    def quantile(self, luck: float, ran: float = 0.0) -> float:
        """Return how long a run lasts in all.

        Args:
            luck: From 0 to 1: which share of such runs is shorter.
            ran: How long it has lasted already.
        """
        goal = self._fallen_at(ran) - log(1.0 - luck)
        fallen = self._fallen
        place = bisect_left(fallen, goal)
        if place > BINS:
            return max(ran, edge_of(BINS))
        if place == 0:
            return ran
        low, high = fallen[place - 1], fallen[place]
        part = (goal - low) / (high - low)
        begin = 0.0 if place == 1 else edge_of(place - 1)
        end = edge_of(place)
        return max(ran, begin + (end - begin) * part)

    def spread(self) -> float:
        """Return how wide it is: the logarithm of the upper quartile over the lower one."""
        low, high = self.quantile(0.25), self.quantile(0.75)
        return log(max(high, 1.0) / max(low, 1.0))

    def _fallen_at(self, value: float) -> float:
        place = bin_of(value)
        begin = 0.0 if place == 0 else edge_of(place)
        end = edge_of(place + 1)
        part = min(1.0, max(0.0, (value - begin) / (end - begin)))
        return self._fallen[place] + (self._fallen[place + 1] - self._fallen[place]) * part
