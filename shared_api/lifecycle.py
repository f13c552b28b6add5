"""The state of a unit in the words that users read: one vocabulary for all programs. Pure.

The words are those of `docs/glossary.md`. Upstream's phases (`queue_unit_phases.Phase`) stay in the
object: they say which program acts next, and are shown beside these words.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from shared_api.queue_unit_phases import Phase


class LifecycleState(StrEnum):
    """Where a unit, and so its job, stands; in the order of its life."""

    # Enum's own hash is a call of Python code, and lists of all jobs are searched by it.
    __hash__ = str.__hash__

    ON_HOLD = "on hold"
    """It is in no queue: something is missing, or forbids it to start."""
    WAITING = "waiting"
    """It waits in its queue."""
    RESERVED = "reserved"
    """Its quota is charged, and it waits for admission checks, or for nodes (strict mode)."""
    STARTING = "starting"
    """Its job may run, and its pods do not run yet."""
    RUNNING = "running"
    """Its pods run."""
    FINISHED = "finished"
    """Its job has ended."""

    @property
    def cell(self) -> str:
        """The state as a cell of a table: one word, as kubectl writes them, such as `OnHold`."""
        return self.value.title().replace(" ", "")


PENDING: Final = frozenset({LifecycleState.ON_HOLD, LifecycleState.WAITING})
"""States of a unit that is not admitted, and may be later."""
ADMITTED: Final = frozenset(
    {LifecycleState.RESERVED, LifecycleState.STARTING, LifecycleState.RUNNING}
)
"""States of a unit whose quota is charged."""

_STATES: Final[Mapping[str, LifecycleState]] = {
    Phase.ENQUEUED: LifecycleState.WAITING,
    Phase.TIMEOUT_BACKOFF: LifecycleState.ON_HOLD,
    Phase.RESERVED: LifecycleState.RESERVED,
    Phase.SCHED_READY: LifecycleState.RESERVED,
    # Its nodes were not reserved. It is charged until it is enqueued again.
    Phase.SCHED_FAILED: LifecycleState.RESERVED,
    Phase.SCHED_SUCCEED: LifecycleState.STARTING,
    Phase.DEQUEUED: LifecycleState.STARTING,
    Phase.RUNNING: LifecycleState.RUNNING,
    Phase.SUCCEED: LifecycleState.FINISHED,
    Phase.FAILED: LifecycleState.FINISHED,
}


def lifecycle_state(phase: str, *, is_in_queue: bool = True) -> LifecycleState | None:
    """Return the state of a unit; None: its phase is unknown to this version.

    Args:
        phase: `status.phase`; "" is that of a unit that nobody has written yet.
        is_in_queue: Whether it is in a queue of the scheduler; True if that is not known.
    """
    state = _STATES.get(phase or Phase.ENQUEUED)
    if state is LifecycleState.WAITING and not is_in_queue:
        return LifecycleState.ON_HOLD
    return state
