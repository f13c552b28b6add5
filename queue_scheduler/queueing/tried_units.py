"""Which classes of a queue stand aside, and the bands of the units that do not. Pure.

A class that stands aside was refused for what concerns nobody else (`class_queue.ASIDE`): its units
count in no band and in no depth, so that it holds back no other.
"""

from __future__ import annotations

from queue_scheduler.decision import Refusal
from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing.class_queue import ClassGroup, UnitClass


class TriedUnits:
    """Counts the units of one queue by band, apart from those of classes that stand aside.

    Attributes:
        first_band: The band of the first unit that is counted; 0 if there is none.
        aside: The classes that stand aside, by number; for reading.
        bands: How many there are; 0 while the queue has none.
    """

    def __init__(self) -> None:
        self.first_band = 0
        self.aside: dict[int, UnitClass] = {}
        self._in_band: list[int] = []

    @property
    def bands(self) -> int:
        """How many bands there are; 0 while the queue has none."""
        return len(self._in_band)

    def arrange(self, bands: int) -> None:
        """Take the number of bands, while there is no unit."""
        self._in_band = [0] * bands

    def count(self, unit_class: UnitClass, key: OrderKey, one: int) -> None:
        """Count a unit that was added to a class (1) or removed (-1)."""
        if self._in_band and unit_class.number not in self.aside:
            self._in_band[key[0]] += one
            self._find_first_band()

    def refuse(self, entry: UnitClass | ClassGroup, refusal: Refusal | None) -> None:
        """Set why a class, or a group, is asleep on its own; None: it no longer is."""
        was_aside, entry.own_refusal = entry.stands_aside, refusal
        is_aside = entry.stands_aside
        if was_aside is is_aside or isinstance(entry, ClassGroup):
            return
        unit_class = entry
        if is_aside:
            self.aside[unit_class.number] = unit_class
        else:
            del self.aside[unit_class.number]
        if self._in_band:
            for key in unit_class.order:
                self._in_band[key[0]] += -1 if is_aside else 1
            self._find_first_band()

    def forget(self, unit_class: UnitClass) -> None:
        """Forget a class without units."""
        self.aside.pop(unit_class.number, None)

    def count_aside_before(self, key: OrderKey) -> int:
        """Return how many units that stand aside come before a position."""
        return sum(each.order.count_before(key) for each in self.aside.values())

    def _find_first_band(self) -> None:
        counts = enumerate(self._in_band)
        self.first_band = next((band for band, count in counts if count), 0)

    def copy(self, numbered: dict[int, UnitClass]) -> TriedUnits:
        """Return an independent copy over copied classes."""
        twin = TriedUnits()
        twin.first_band = self.first_band
        twin.aside = {number: numbered[number] for number in self.aside}
        twin._in_band = self._in_band[:]
        return twin

    def validate(self, numbered: dict[int, UnitClass], story: str) -> None:
        """Recompute what is kept; raise AssertionError with the story if it differs."""
        aside = {n: each for n, each in numbered.items() if each.stands_aside}
        assert self.aside == aside, f"{story}: {sorted(aside)} stand aside"
        if self._in_band:
            bands = [key[0] for n, c in numbered.items() if n not in aside for key in c.order]
            assert self._in_band == [bands.count(n) for n in range(len(self._in_band))], story
            assert self.first_band == min(bands, default=0), story
