"""Tells the engine the time when time alone changes a fact: a pod that no scheduler tries."""

from __future__ import annotations

from typing import Final

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from shared_api.process.clock import Clock

LOOK_SECONDS: Final = 5.0
"""Between two looks: a pod may wait a minute for its first attempt, so this is soon enough."""


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
        due = self._shared.ask(lambda engine: engine.pods.next_late())
        if due is not None and due <= now:
            self._shared.apply(Engine.on_time, now)
        return LOOK_SECONDS
