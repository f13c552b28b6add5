"""How much of its volume the record takes, part by part. Pure.

A volume that takes more than its pod may have ends the pod, and with it the scheduler. So all parts
together stay below the limit: the tables, the file that they are in, and the log of the file
(`-wal`), which has what was written until SQLite copies it into the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

DEFAULT_BYTES: Final = 2 << 30
"""The chart's `insight.record.sizeLimit`."""

TABLES: Final[Mapping[str, int]] = {
    "decisions": 17,
    "finished": 5,
    "calls": 36,
    "minutes": 1,
    "five_minutes": 3,
    "half_hours": 3,
    "use_hours": 3,
    "use_days": 6,
}
"""Percent of the limit that the rows of a table take; `calls` together with `checkpoints`. All
together are more than `PAGES`: the last two have rows only where accounts are kept, and if the
pages in use are too many, calls are deleted first."""
PAGES: Final = 70
"""Percent of the limit that pages in use take: pages are not full, and there are indexes."""
FILE: Final = 75
"""Percent of the limit that the file takes, with pages that are free; SQLite adds no more."""
LOG: Final = 15
"""Percent of the limit that the log of the file takes: it grows while somebody reads for long."""
CHECKPOINT: Final = 8
"""Percent of the limit that one checkpoint takes: it is in the log as a whole."""
ASIDE: Final = 35
"""Percent of the limit that files take that were moved aside; the file has as much less."""

FREED: Final = 20
"""One part in so many is left free when rows are deleted: else they were deleted all the time."""


class Limits(msgspec.Struct, frozen=True):
    """The limit in bytes, and its parts.

    Attributes:
        total: All parts together.
        aside: What files take that were moved aside.
    """

    total: int
    aside: int = 0

    def of_table(self, table: str) -> int:
        """Return how many bytes the rows of a table may take."""
        return self._part(TABLES[table])

    @property
    def all_aside(self) -> int:
        """How many bytes files may have that were moved aside."""
        return self.total * ASIDE // 100

    @property
    def pages(self) -> int:
        """How many bytes of the file may be in use."""
        return self._part(PAGES)

    @property
    def file(self) -> int:
        """How many bytes the file may have."""
        return self._part(FILE)

    @property
    def log(self) -> int:
        """How many bytes the log of the file may have."""
        return self._part(LOG)

    @property
    def checkpoint(self) -> int:
        """How many bytes one checkpoint may have."""
        return self._part(CHECKPOINT)

    def _part(self, percent: int) -> int:
        return (self.total - self.aside) * percent // 100


def with_room(most: int) -> int:
    """Return to how many bytes is deleted what has more than `most`."""
    return most - most // FREED
