"""An engine that notes whether the turn of answers is taken when it is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine


class WatchedEngine(SharedEngine):
    """Checks whether a lock is held, whenever the engine is asked."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, lambda _: None)
        self.turn = threading.Lock()
        self.held: list[bool] = []

    def ask(self, question: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.held.append(self.turn.locked())
        return super().ask(question, *args, **kwargs)

    def fork(self) -> Engine:
        self.held.append(self.turn.locked())
        return super().fork()
