"""Units, as servers of any version answer."""

from __future__ import annotations

from typing import Final

from koord_queue.answers.current_unit import CurrentUnit

_STANDING: Final = {"decided": "assumed", "stale": "conflict", "booked": "admitted"}
"""States in the words of older servers, and in those of newer ones."""


class Unit(CurrentUnit, frozen=True):
    """One unit. Older servers send `standing` in place of `scheduler_state`: read `state`."""

    standing: str = ""

    @property
    def state(self) -> str:
        """Its state in the scheduler, in the words of newer servers."""
        return self.scheduler_state or _STANDING.get(self.standing, self.standing)
