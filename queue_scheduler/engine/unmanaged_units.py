"""Units whose jobs no controller manages: what their objects ask the scheduler to do. Pure.

The controllers mark the units of their jobs. All other units are made by hand, or by a program that
only reads what is admitted; the scheduler does the controllers' part for them
(`unit_controllers.eviction`).
"""

from __future__ import annotations

from shared_api.evictions import asks_for_pods, is_given_back
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    RELEASED_PHASES,
    Phase,
    is_being_evicted,
    is_managed_by_controllers,
    is_waited_for,
    occupies_quota,
    phase_of,
)


def is_concerned(unit: QueueUnit) -> bool:
    """Return whether the scheduler must act on a unit that has no controllers."""
    if is_managed_by_controllers(unit) or not occupies_quota(unit):
        return False
    return requires_write(unit) or is_awaited(unit)


def requires_write(unit: QueueUnit) -> bool:
    """Return whether the object of an admitted unit requires a write."""
    return is_leaving(unit) or unit.spec.active is False or is_running(unit)


def is_awaited(unit: QueueUnit) -> bool:
    """Return whether no other unit of its queue may start until the unit's pods run."""
    phase = phase_of(unit)
    return phase in RELEASED_PHASES and phase is not Phase.RUNNING and is_waited_for(unit)


def is_leaving(unit: QueueUnit) -> bool:
    """Return whether an admitted unit gives its quota back as soon as none of its pods lives."""
    return is_being_evicted(unit) or is_given_back(unit)


def is_running(unit: QueueUnit) -> bool:
    """Return whether an admitted unit whose phase is not Running has all its pods running."""
    admissions = unit.status.admissions
    phase = phase_of(unit)
    if not admissions or phase not in RELEASED_PHASES or phase is Phase.RUNNING:
        return False
    if asks_for_pods(unit) and not any(each.replicas > 0 for each in admissions):
        return False
    return all(each.running >= each.replicas for each in admissions)
