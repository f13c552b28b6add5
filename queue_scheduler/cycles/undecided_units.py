"""Units at which something raises while they are decided, such as a plugin.

Each is set aside, so that its queue goes on with others, and decided again after a pause that grows
with each failure, or at once when its object changes. How many such units there are is a metric of
the work queue.
"""

from __future__ import annotations

from typing import Final

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from shared_api.work_queue import WorkQueue

CHECK_SECONDS: Final = 60.0
"""How often it is looked whether a unit that was aside still waits for a decision."""

_TO_DECIDE: Final = frozenset({UnitState.WAITING, UnitState.CONFLICT, UnitState.ASSUMED})

MAX_WHY_CHARS: Final = 300
"""What an event says of an exception: it may quote what a user wrote."""


class UndecidedUnits:
    """Sets units aside, and lets them be decided again.

    Args:
        shared: The engine.
        due: Keys of units that are aside.
    """

    def __init__(self, shared: SharedEngine, due: WorkQueue[str]) -> None:
        self._shared = shared
        self._due = due
        # The versions that failed. Written by the workers of the queues and by the step; a unit is
        # in one queue at a time.
        self._versions: dict[str, str] = {}

    def set_aside(self, key: str, error: Exception) -> None:
        """Set a unit aside whose decision raised an exception."""
        first = self._due.retries(key) == 0
        why = f"{type(error).__name__}: {error}"[:MAX_WHY_CHARS] if first else ""
        note = why and f"It cannot be decided, and others are decided first: {why}"
        self._shared.apply(Engine.set_aside, key, why=note)
        record = self._shared.ask(Engine.record, key)
        # Should a newer object have come in between, it is pending already, and stays so.
        self._versions[key] = "" if record is None else record.unit.metadata.resource_version
        self._due.add_rate_limited(key, error=error)

    def note_decided(self, key: str) -> None:
        """Note that a unit was decided; called for every decision, so it is quick."""
        if key in self._versions:
            self._forget(key)

    def step(self) -> float | None:
        """Return a unit to the queue; return the seconds to rest, or None to rest until woken."""
        return self._due.work(self._ask_again)

    def _ask_again(self, key: str) -> None:
        version, record = self._versions.get(key), self._shared.ask(Engine.record, key)
        if version is None or record is None or record.state not in _TO_DECIDE:
            self._forget(key)
            return
        self._shared.apply(Engine.end_aside, key, version)
        self._due.add_after(key, CHECK_SECONDS)  # it may end, or be put on hold, undecided

    def _forget(self, key: str) -> None:
        self._versions.pop(key, None)
        self._due.forget(key)
