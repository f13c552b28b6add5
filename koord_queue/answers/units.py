"""Where units stand."""

from __future__ import annotations

from typing import Final

from koord_queue.answers.decoding import Answer


class Refusal(Answer, frozen=True):
    """Why a unit waits: the reason, the numbers as quantities, and both in words.

    Without a resource there are no numbers.
    """

    reason: str = ""
    message: str = ""
    quota: str = ""
    quota_namespace: str = ""
    resource: str = ""
    limit: str = ""
    used: str = ""
    requested: str = ""
    missing: str = ""


_STANDING: Final = {"decided": "assumed", "stale": "conflict", "booked": "admitted"}
"""What older servers say, and newer ones."""


class Unit(Answer, frozen=True):
    """One unit; `position` counts from 1, and is 0 for units that are not pending.

    `created` is RFC 3339, as in its object. `standing` is what older servers say in place of
    `scheduler_state`, in other words: read `state`.
    """

    namespace: str = ""
    name: str = ""
    queue: str = ""
    quota: str = ""
    scheduler_state: str = ""
    standing: str = ""
    position: int = 0
    priority: int = 0
    created: str = ""
    refusal: Refusal | None = None

    @property
    def state(self) -> str:
        """Its state in the scheduler, in the words of newer servers."""
        return self.scheduler_state or _STANDING.get(self.standing, self.standing)
