"""Where a unit stands, from what the scheduler keeps of it. Pure."""

from __future__ import annotations

from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from shared_api.lifecycle import LifecycleState, lifecycle_state


def lifecycle_state_of(record: CachedUnit) -> LifecycleState:
    """Return the state of a unit; while its admission is being written, the one after that.

    A phase that is unknown to this version counts as Enqueued, as it does for the scheduler.
    """
    if record.state is UnitState.ASSUMED and record.to is not None:
        phase: str = record.to
    else:
        phase = record.unit.status.phase
    is_in_queue = record.state is not UnitState.ON_HOLD
    state = lifecycle_state(phase, is_in_queue=is_in_queue)
    if state is not None:
        return state
    return LifecycleState.WAITING if is_in_queue else LifecycleState.ON_HOLD
