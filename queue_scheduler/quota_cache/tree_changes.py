"""Records what was charged to one tree, and when, to find the waiters that it may concern.

The tree's clock counts charges if runtimes are divided; in other modes it is not used and does not
advance. Changes are kept until `settle`: by then all waiters that they may concern have been
considered. Only its methods write it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shared_api.well_known_labels import ROOT_QUOTA


class Noted(NamedTuple):
    """The fields of `TreeChanges` that a simulation would change."""

    touched: dict[str, None]
    is_room_freed: bool
    is_entitled_anew: bool


class TreeChanges:
    """The changes since `settle`; its fields are read-only.

    Attributes:
        clock: Counts charges, if runtimes are divided.
        settled_at: Its reading at the last `settle`.
        touched: Names of watched quotas with more capacity under their own limits.
        keys: Resources of which a runtime may have changed.
        is_room_freed: Whether anything was released, or is no longer reserved for its owner.
        is_entitled_anew: Whether entitlements may have changed.
    """

    __slots__ = (
        "_charged_at", "_watched", "clock", "is_entitled_anew", "is_room_freed", "keys",
        "settled_at", "touched",
    )  # fmt: skip

    def __init__(self) -> None:
        self.clock = 0
        self.settled_at = 0
        self.touched: dict[str, None] = {}
        self.keys: dict[str, None] = {}
        self.is_room_freed = False
        self.is_entitled_anew = False
        self._watched: set[str] = set()
        self._charged_at: dict[str, int] = {}

    def fork(self) -> TreeChanges:
        """Return an independent copy, at the same reading of the clock."""
        copy = TreeChanges()
        copy.clock, copy.settled_at = self.clock, self.settled_at
        copy.touched, copy.keys = dict(self.touched), dict(self.keys)
        copy.is_room_freed, copy.is_entitled_anew = self.is_room_freed, self.is_entitled_anew
        copy._watched = set(self._watched)
        copy._charged_at = dict(self._charged_at)
        return copy

    def start(self) -> None:
        """Take the present charges as the start: no demand has been refused yet."""
        self.clock = 0
        self._charged_at.clear()
        self.settle()

    def settle(self) -> None:
        """Drop the recorded changes: all waiters that they may concern have been considered."""
        self.settled_at = self.clock
        self.touched.clear()
        self.keys.clear()
        self.is_room_freed = False
        self.is_entitled_anew = False

    def watch(self, *quotas: str) -> None:
        """Record from now on when there is more capacity under the limits of these quotas."""
        self._watched.update(quotas)

    def charged_at(self, quota: str) -> int:
        """Return when something was charged to a quota or below it, by the clock."""
        return self._charged_at.get(quota, 0)

    # --- changes --------------------------------------------------------------------------------

    def note_division(self, chain: Iterable[str], keys: Iterable[str]) -> None:
        """Record that quotas request other amounts, and that these resources are divided again."""
        self.clock += 1
        clock = self.clock
        charged_at = self._charged_at
        for name in chain:
            charged_at[name] = clock
        changed = self.keys
        for key in keys:
            changed[key] = None

    def note_room(self, chain: Iterable[str], *, in_root: bool) -> None:
        """Record that there is more capacity in these quotas; with `in_root`, also in the root."""
        self.is_room_freed = True
        watched = self._watched
        if watched:
            for name in chain:
                if name in watched:
                    self.touched[name] = None
            if in_root and ROOT_QUOTA in watched:
                self.touched[ROOT_QUOTA] = None

    def note_entitlements(self) -> None:
        """Record that entitlements may have changed."""
        self.is_entitled_anew = True

    # --- simulations ----------------------------------------------------------------------------

    def put_aside(self) -> Noted:
        """Return the recorded changes, for `put_back`: a simulation follows."""
        noted = Noted(self.touched, self.is_room_freed, self.is_entitled_anew)
        self.touched = {}
        return noted

    def put_back(self, noted: Noted) -> None:
        """Drop the changes recorded since `put_aside`."""
        self.touched, self.is_room_freed, self.is_entitled_anew = noted
