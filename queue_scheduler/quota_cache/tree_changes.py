"""What was charged to one tree, and when: by that the waiters are found that it may enable.

The tree's clock counts charges if runtimes are divided; in other modes it is not read, and stands
still. Changes are kept until `settle`, before which all waiters that they may enable are marked.
Only the methods here write the fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shared_api.well_known_labels import ROOT_QUOTA


class Noted(NamedTuple):
    """The part of `TreeChanges` that hypothetical charges would overwrite."""

    touched: dict[str, None]
    is_room_freed: bool
    is_entitled_anew: bool


class TreeChanges:
    """The changes since `settle`; its fields are for reading.

    Attributes:
        clock: Counts charges, where runtimes are divided.
        settled_at: Its reading when `settle` was called last.
        touched: Names of watched quotas with more room under their own limits.
        keys: Resources of which a runtime may be another.
        is_room_freed: Whether anything was released, or is no longer kept for its owner.
        is_entitled_anew: Whether quotas may be entitled to other amounts.
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
        """Start the clock with what is charged now: no unit has been refused yet."""
        self.clock = 0
        self._charged_at.clear()
        self.settle()

    def settle(self) -> None:
        """Forget the changes: all waiters that they may enable have been marked."""
        self.settled_at = self.clock
        self.touched.clear()
        self.keys.clear()
        self.is_room_freed = False
        self.is_entitled_anew = False

    def watch(self, *quotas: str) -> None:
        """Note from now on when there is more room under the limits of these quotas."""
        self._watched.update(quotas)

    def charged_at(self, quota: str) -> int:
        """Return when something was charged to a quota or below it, by the clock."""
        return self._charged_at.get(quota, 0)

    # --- changes --------------------------------------------------------------------------------

    def note_division(self, chain: Iterable[str], keys: Iterable[str]) -> None:
        """Note that quotas ask for other amounts, and that these resources are divided anew."""
        self.clock += 1
        clock = self.clock
        charged_at = self._charged_at
        for name in chain:
            charged_at[name] = clock
        changed = self.keys
        for key in keys:
            changed[key] = None

    def note_room(self, chain: Iterable[str], *, in_root: bool) -> None:
        """Note that there is more room in these quotas; `in_root`: and in the root."""
        self.is_room_freed = True
        watched = self._watched
        if watched:
            for name in chain:
                if name in watched:
                    self.touched[name] = None
            if in_root and ROOT_QUOTA in watched:
                self.touched[ROOT_QUOTA] = None

    def note_entitlements(self) -> None:
        """Note that quotas may be entitled to other amounts."""
        self.is_entitled_anew = True

    # --- hypothetical charges -------------------------------------------------------------------

    def save_marks(self) -> Noted:
        """Return what was noted, for `restore_marks`; called before hypothetical charges."""
        noted = Noted(self.touched, self.is_room_freed, self.is_entitled_anew)
        self.touched = {}
        return noted

    def restore_marks(self, noted: Noted) -> None:
        """Replace what was noted since `save_marks` by what was noted before it."""
        self.touched, self.is_room_freed, self.is_entitled_anew = noted
