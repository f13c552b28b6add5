"""The result of a search for units to evict, as a value."""

from __future__ import annotations

import msgspec

from queue_scheduler.decision import EvictionGuard, Victim


class FoundVictims(msgspec.Struct, frozen=True, gc=False):
    """The result of a search.

    Attributes:
        reason: The reason of the evictions, `PREEMPTED` or `RECLAIMED`.
        victims: The units to evict, the cheapest first; may be empty.
        again_seconds: After this time a search may find more; None: time alone changes nothing.
        guard: Without victims: what keeps the unit from evicting others for a time.
    """

    reason: str
    victims: tuple[Victim, ...]
    again_seconds: float | None = None
    guard: EvictionGuard | None = None
