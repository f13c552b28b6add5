"""What admitted units hold, the one that holds most first. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from shared_api.objects.queue_unit import QueueUnit
from shared_api.quantity import QuantityError, amount
from shared_api.queue_unit_phases import occupies_quota
from shared_api.resource_list import Amounts, add


class UnitUse(NamedTuple):
    """A unit by the resource of which it holds the largest share.

    Attributes:
        unit: The object.
        resource: That resource.
        held: How much of it, in base units.
        share: The share of what all units that are listed hold.
    """

    unit: QueueUnit
    resource: str
    held: int
    share: float


def held_by(unit: QueueUnit) -> Amounts:
    """Return what a unit was granted; what cannot be read counts as nothing."""
    total: Amounts = {}
    if not occupies_quota(unit):
        return total
    for admission in unit.status.admissions:
        for resource, quantity in admission.resources.items():
            try:
                total = add(total, {resource: amount(resource, quantity)})
            except QuantityError:
                continue
    return total


def queue_of(unit: QueueUnit) -> str:
    """Return the queue that a unit was admitted in: the one of its quota if it names none."""
    placement = unit.status.placement
    named = placement.queue or placement.quota if placement is not None else ""
    return named or unit.spec.queue


def top_units(units: Iterable[QueueUnit], resource: str | None = None) -> list[UnitUse]:
    """Return the units that hold something, the one with the largest share first.

    Args:
        units: Admitted ones; others hold nothing.
        resource: Compare by this one; None: by the resource of the largest share.
    """
    held = [(unit, held_by(unit)) for unit in units]
    totals: Counter[str] = Counter()
    for _, amounts in held:
        totals.update(amounts)
    found = []
    for unit, amounts in held:
        shares = {
            name: taken / totals[name]
            for name, taken in amounts.items()
            if taken > 0 and resource in {None, name}
        }
        if shares:
            name = min(shares, key=lambda each: (-shares[each], each))
            found.append(UnitUse(unit, name, amounts[name], shares[name]))
    return sorted(found, key=lambda each: (-each.share, each.unit.metadata.key))
