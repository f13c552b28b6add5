"""Tells the engine the time when time alone changes a fact.

That is a pod that no scheduler tries, and a budget that is spent or begins anew.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from shared_api.process.clock import Clock

LOOK_SECONDS: Final = 5.0
"""Between two looks: a pod may wait a minute for its first attempt, so this is soon enough."""

MOST_UNTOLD_SECONDS: Final = 600
"""With budgets, the engine is told the time so often: what is spent is shown as of then."""


class PassingTime:
    """Advances the engine's wall time.

    Args:
        shared: The engine.
        clock: The wall time.
    """

    def __init__(self, shared: SharedEngine, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock

    def step(self) -> float:
        """Pass the time to the engine if it changes anything; return the seconds to rest."""
        now = self._clock.now()
        late, change = self._shared.ask(_find_due)
        is_late = late is not None and late <= now
        if is_late or (change is not None and change <= now.timestamp()):
            self._shared.apply(Engine.on_time, now)
        return LOOK_SECONDS


def _find_due(engine: Engine) -> tuple[datetime | None, int | None]:
    late, budgets = engine.pods.next_late(), engine.usage.budgets
    if not budgets.is_on:
        return late, None
    accounts = budgets.accounts
    return late, min(accounts.next_change(), accounts.second + MOST_UNTOLD_SECONDS)
