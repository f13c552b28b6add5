"""What follows from windows as virtual time passes: who is evicted when one begins. Pure.

That units wait for a window, and until when, are decisions of the engine like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from queue_insight.insight.agenda import Agenda
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.evicting_windows import find_units


class WindowEvents:
    """Follows the windows of an engine in virtual time.

    Args:
        engine: The engine.
        agenda: Where looks are planned.
        stop: Evicts a unit, with the reason as a sentence.
    """

    def __init__(self, engine: Engine, agenda: Agenda, stop: Callable[[str, str], None]) -> None:
        self._engine, self._agenda, self._stop = engine, agenda, stop
        self._is_planned = False
        self._looked_at = 0

    def plan(self) -> None:
        """Plan the next look; called after each decision and event."""
        windows = self._engine.usage.windows
        # Without a charge nothing is evicted, and the last window would be waited for.
        if self._is_planned or not windows.is_on or not self._engine.usage.charges:
            return
        second = self._second()
        # Nothing starts in a window, so one look for each is enough; the first may be late.
        is_late = not self._looked_at and bool(windows.evicting(second))
        at = second if is_late else windows.next_eviction(second)
        if at is None:
            return
        self._is_planned = True
        due = self._agenda.at(datetime.fromtimestamp(at, UTC))
        self._agenda.call_at(due, lambda: self._look(at))

    def _look(self, at: int) -> None:
        self._is_planned = False
        second = self._looked_at = max(at, self._second())
        for key, why in [(each.key, why) for each, why in find_units(self._engine, second)]:
            self._stop(key, why)

    def _second(self) -> int:
        # Not before a look: its time may be rounded down, and it would be planned again.
        return max(self._looked_at, int(self._agenda.wall.timestamp()))
