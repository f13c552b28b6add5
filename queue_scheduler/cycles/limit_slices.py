"""Follows a change of limits of users and groups in slices, so that none holds up decisions."""

from __future__ import annotations

from typing import Final

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine

REST_SECONDS: Final = 0.002
"""Between two slices of one to two milliseconds: whoever waits for the engine's lock gets it."""


class LimitSlices:
    """Does what is left to do of changes.

    Args:
        shared: The engine.
    """

    def __init__(self, shared: SharedEngine) -> None:
        self._shared = shared

    def step(self) -> float | None:
        """Do one slice; return the seconds to rest, or None to rest until the next change."""
        return REST_SECONDS if self._do_slice() else None

    def finish(self) -> None:
        """Do all slices that are left: before the first decision, limits have to be in force."""
        # The step's thread may do some of them meanwhile: each asks anew what is left.
        while self._do_slice():
            pass

    def _do_slice(self) -> bool:
        is_behind = self._shared.ask(lambda engine: engine.limit_rules.is_behind)
        # Another thread may have done the last slice in between: then this one does nothing.
        if is_behind:
            self._shared.apply(Engine.go_on_with_limits)
        return is_behind
