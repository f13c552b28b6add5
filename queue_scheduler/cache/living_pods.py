"""What a unit's living pods occupy together with what it may still make. Pure.

A unit is charged for what *will live*, pod set by pod set. A pod that lives may be smaller or
larger than its template; the one that replaces it asks for the template again. A pod that is
deleted holds its requests for its grace period, and its replacement is made beside it. So there are

    the living pods, each at the larger of itself and its template;
    those that end, as they are;
    the pods that are granted and do not live, each at its template.

What was given back is not granted any more. Pods whose set is not known, since they have no mark
and there are several sets, count as sums: what they ask for together, or what is granted and does
not live, whichever is more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from queue_scheduler.framework.queue_unit_info import Granted, Occupancy, PodSetDemand
from shared_api.resource_list import Amounts, maximum, scale


class PodShape(NamedTuple):
    """What the charge for a living pod depends on.

    Attributes:
        request: What it asks for, in base units, without zeros.
        pod_set: The pod set that it is marked with; "": none.
        ends: Whether it was deleted, and still has its grace period.
        is_firm: Whether its own label forbids to preempt it.
    """

    request: tuple[tuple[str, int], ...]
    pod_set: str = ""
    ends: bool = False
    is_firm: bool = False


Shapes: TypeAlias = Mapping[PodShape, int]
"""How many pods there are of each shape; most jobs have one or two."""

NONE_LIVING: Final[Shapes] = {}
_NOTHING: Final = Occupancy({}, 0)


class LivingCounts:
    """How many living pods of each shape each group has."""

    def __init__(self) -> None:
        # Replaced, never changed in place: forks share them.
        self._shapes: dict[str, Shapes] = {}

    def of(self, group: str) -> Shapes:
        """Return the living pods of a group, by their shapes."""
        return self._shapes.get(group, NONE_LIVING)

    def add(self, group: str, shape: PodShape, change: int) -> None:
        """Add (1) or take back (-1) a pod of a group."""
        shapes = {**self._shapes.pop(group, NONE_LIVING)}
        count = shapes.pop(shape, 0) + change
        if count:
            shapes[shape] = count
        if shapes:
            self._shapes[group] = shapes

    def fork(self) -> LivingCounts:
        """Return an independent copy."""
        twin = LivingCounts()
        twin._shapes = dict(self._shapes)
        return twin

    def validate(self, want: Mapping[str, Shapes]) -> None:
        """Raise AssertionError unless these are the counts."""
        assert self._shapes == want, f"living pods differ: {self._shapes}, should be {want}"


def sum_of(shapes: Shapes) -> Occupancy:
    """Return what pods ask for together."""
    if not shapes:
        return _NOTHING
    amounts: Amounts = {}
    for shape, count in shapes.items():
        _add(amounts, shape.request, count)
    return Occupancy(amounts, sum(shapes.values()))


def firm_part(shapes: Shapes) -> Amounts:
    """Return what those pods ask for that may not be preempted by their own label."""
    firm: Amounts = {}
    for shape, count in shapes.items():
        if shape.is_firm:
            _add(firm, shape.request, count)
    return firm


def occupied_by(granted: Granted, shapes: Shapes) -> Occupancy:
    """Return what a unit occupies that was granted this and has these living pods."""
    least = granted.occupancy
    # Shared: all units of a class hold one dict together.
    if not shapes or _is_as_granted(granted.sets, shapes):
        return least
    as_sums = sum_of(shapes).at_least(least)
    sets = _sets_of(granted.sets, shapes)
    return _will_live(sets, shapes).at_least(as_sums) if sets else as_sums


def _sets_of(granted: tuple[PodSetDemand, ...], shapes: Shapes) -> dict[str, PodSetDemand]:
    """Return the granted pod sets by the marks of their pods.

    Pods of a unit with a single pod set have no mark. If more live than are granted, they are not
    one for one the pods of that set, as those of a workflow that is granted as a whole.
    """
    sets = {each.name: each for each in granted}
    if len(granted) == 1:
        only = granted[0]
        alive = sum(
            count
            for shape, count in shapes.items()
            if not shape.ends and shape.pod_set in {"", only.name}
        )
        if alive <= only.count:
            sets[""] = only
    return sets


def _is_as_granted(sets: tuple[PodSetDemand, ...], shapes: Shapes) -> bool:
    """Return whether pods are within their templates and counts, as nearly always.

    Written out for speed: this is asked whenever a pod comes or goes.
    """
    is_single = len(sets) == 1
    found = 0
    for pod_set in sets:
        name, per_pod, count = pod_set.name, pod_set.per_pod, 0
        for shape, pods in shapes.items():
            if shape.pod_set != name and not (is_single and not shape.pod_set):
                continue
            if shape.ends or not _is_within(shape.request, per_pod):
                return False
            count += pods
            found += 1
        if count > pod_set.count:
            return False
    return found == len(shapes)


def _is_within(request: tuple[tuple[str, int], ...], per_pod: Amounts) -> bool:
    for key, amount in request:  # noqa: SIM110 - no generator, for speed
        if amount > per_pod.get(key, 0):
            return False
    return True


def _will_live(sets: Mapping[str, PodSetDemand], shapes: Shapes) -> Occupancy:
    amounts: Amounts = {}
    loose: Amounts = {}
    pods, loose_pods = 0, 0
    alive: dict[str, int] = {}
    for shape, count in shapes.items():
        pod_set = sets.get(shape.pod_set)
        if pod_set is None:
            _add(loose, shape.request, count)
            loose_pods += count
            continue
        pods += count
        if shape.ends:
            _add(amounts, shape.request, count)
        else:
            raised = maximum(dict(shape.request), pod_set.per_pod)
            _add(amounts, tuple(raised.items()), count)
            alive[pod_set.name] = alive.get(pod_set.name, 0) + count
    missing = _missing(sets, alive)
    rest = missing.at_least(Occupancy(loose, loose_pods))
    _add(amounts, tuple(rest.amounts.items()), 1)
    return Occupancy(amounts, pods + rest.pods)


def _missing(sets: Mapping[str, PodSetDemand], alive: Mapping[str, int]) -> Occupancy:
    """Return the pods that are granted and do not live."""
    amounts: Amounts = {}
    pods = 0
    for name, pod_set in sets.items():
        count = pod_set.count - alive.get(pod_set.name, 0)
        if name and count > 0:
            _add(amounts, tuple(scale(pod_set.per_pod, count).items()), 1)
            pods += count
    return Occupancy(amounts, pods)


def _add(total: Amounts, request: tuple[tuple[str, int], ...], count: int) -> None:
    for key, amount in request:
        total[key] = total.get(key, 0) + amount * count
