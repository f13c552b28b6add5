"""What is asked of an engine about one unit: why it waits, and what would start or evict it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from queue_insight.insight.admitted import Admitted, describe_admitted, find_evictors
from queue_insight.insight.changes import Changes, find_changes
from queue_insight.insight.explain import Explanation, explain, needs_fork
from queue_scheduler.cycles.engine_reader import EngineReader
from queue_scheduler.engine.engine import Engine

MAX_TRYING: Final = timedelta(seconds=3)
"""How long changes are tried for one answer. Mostly some tenths of a second suffice; where each of
10,000 waiting units asks for another amount, a decision takes milliseconds."""


class Explanations:
    """Answers questions about single units of an engine.

    Args:
        shared: The engine.
        now: Returns the time.
    """

    def __init__(self, shared: EngineReader, now: Callable[[], datetime]) -> None:
        self._shared = shared
        self._now = now

    def explain(self, key: str) -> Explanation | None:
        """Return why a unit waits; None if it is unknown.

        Asked under the engine's lock, some dozen microseconds, since a fork takes milliseconds.
        """
        wall = self._now()
        must_fork, explanation = self._shared.ask(_explain_unless_fork_needed, key, wall)
        return explain(self._shared.fork(), key, wall) if must_fork else explanation

    def admitted(self, key: str) -> Admitted | None:
        """Return what is known of an admitted unit; None if it is not admitted.

        Which units would evict it is asked of a fork, and only if any may.
        """
        wall = self._now()
        found = self._shared.ask(describe_admitted, key, wall)
        if found is None or not found.is_possible_victim:
            return found
        evictors, has_more = find_evictors(self._shared.fork(), key, wall)
        return replace(found, evictors=evictors, has_more=has_more)

    def changes(self, key: str) -> Changes | None:
        """Return what would start a unit now; None if it is unknown, or does not wait.

        Some dozen copies of the engine are made, from one that is made under the lock.
        """
        wall = self._now()
        until = wall + MAX_TRYING
        return find_changes(self._shared.fork(), key, wall, lambda: self._now() >= until)


def _explain_unless_fork_needed(
    engine: Engine, key: str, wall: datetime
) -> tuple[bool, Explanation | None]:
    """Return whether a fork must be asked, and the answer if not."""
    return (True, None) if needs_fork(engine) else (False, explain(engine, key, wall))
