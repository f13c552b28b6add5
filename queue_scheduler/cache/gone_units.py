"""Units that were deleted not long ago: late answers to writes must not bring them back."""

from __future__ import annotations

from shared_api.objects.meta import Uid

GONE_REMEMBERED = 10_000
"""Uids of deleted units that are remembered, at least: the answer to a write may arrive some
seconds after the deletion (a write's timeout and its retries), and must not bring the unit back."""


class GoneUnits:
    """The uids of the last deleted units, at least `GONE_REMEMBERED`."""

    def __init__(self) -> None:
        self._newer: set[Uid] = set()
        self._older: frozenset[Uid] = frozenset()

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._newer or uid in self._older

    def add(self, uid: Uid) -> None:
        """Note that a unit was deleted; may forget those that were deleted long before."""
        self._newer.add(uid)
        if len(self._newer) >= GONE_REMEMBERED:
            self._newer, self._older = set(), frozenset(self._newer)

    def revive(self, uid: Uid) -> None:
        """Forget that a unit of that uid was deleted."""
        self._newer.discard(uid)
        if uid in self._older:
            self._older -= {uid}

    def copy(self) -> GoneUnits:
        """Return an independent copy."""
        twin = GoneUnits()
        twin._newer = set(self._newer)
        twin._older = self._older
        return twin
