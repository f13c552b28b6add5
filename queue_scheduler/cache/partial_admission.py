"""Demands with fewer pods: what a unit asks for when it may run with less than all. Pure.

If pod sets have a `minCount`, the pods that may be missing are counted over all sets, and the same
share of them is left out of each set. So there is one sequence of demands, from the whole to the
least, in which each asks for no more than the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec.structs import replace

from queue_scheduler.framework.queue_unit_info import PodSetDemand, UnitDemand
from shared_api.resource_list import Amounts, add, scale


def demand_of(pod_sets: tuple[PodSetDemand, ...]) -> UnitDemand:
    """Return what pod sets ask for together."""
    total: Amounts = {}
    pods = 0
    for each in pod_sets:
        total = add(total, scale(each.per_pod, each.count))
        pods += each.count
    return UnitDemand(pod_sets=pod_sets, total=total, pods=pods)


def with_least(demand: UnitDemand, min_counts: tuple[int | None, ...]) -> UnitDemand:
    """Return a demand that knows its least, if it may have fewer pods at all.

    Args:
        demand: Of a unit that lists pod sets.
        min_counts: By pod set; None, and what is not from 1 to its count, asks for all of it.
    """
    counts = [
        least if least is not None and 1 <= least <= each.count else each.count
        for each, least in zip(demand.pod_sets, min_counts, strict=True)
    ]
    fewest = _with_counts(demand, counts)
    return demand if fewest.pod_sets == demand.pod_sets else replace(demand, least=fewest)


def most_that(
    fits: Callable[[UnitDemand], bool], whole: UnitDemand, least: UnitDemand
) -> UnitDemand:
    """Return the largest demand between the two that fits, by a binary search.

    It asks about neither end: the whole is known not to fit; the least is returned where nothing
    larger fits. Both have the same pod sets.
    """
    missing = [
        more.count - fewer.count for more, fewer in zip(whole.pod_sets, least.pod_sets, strict=True)
    ]
    all_missing = sum(missing)
    best, low, high = least, 0, all_missing
    while high - low > 1:
        middle = (low + high) // 2
        counts = [
            each.count - gap * middle // all_missing
            for each, gap in zip(whole.pod_sets, missing, strict=True)
        ]
        reduced = _with_counts(whole, counts)
        if fits(reduced):
            best, high = reduced, middle
        else:
            low = middle
    return best


def shape_of(demand: UnitDemand) -> tuple[Hashable, ...]:
    """Return what units must have in common whose demands, whole or with fewer pods, are equal."""
    shape: tuple[Hashable, ...] = tuple(sorted(demand.total.items()))
    if demand.least is None:
        return shape
    counts = [
        (more.count, fewer.count, tuple(sorted(more.per_pod.items())))
        for more, fewer in zip(demand.pod_sets, demand.least.pod_sets, strict=True)
    ]
    return (*shape, *counts)


def _with_counts(demand: UnitDemand, counts: list[int]) -> UnitDemand:
    return demand_of(
        tuple(
            PodSetDemand(each.name, count, each.per_pod)
            for each, count in zip(demand.pod_sets, counts, strict=True)
        )
    )
