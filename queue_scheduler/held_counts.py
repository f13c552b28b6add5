"""How many units are pending without standing in a line, by queue and reason.

Units that are held, and those whose admission met a conflict or was refused, until they are tried
again. What is mapped to no queue is counted under "".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from queue_scheduler.decision import Reason
from queue_scheduler.unit_record import Standing, UnitRecord

OUT_OF_LINE: Final = frozenset({Standing.HELD, Standing.STALE})
"""The standings that are counted here."""


class HeldCounts:
    """The counts; `add` and `remove` are each other's undo."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[Reason, int]] = {}

    def total(self, queue: str) -> int:
        """Return how many units of a queue are held."""
        return sum(self._counts.get(queue, {}).values())

    def by_reason(self, queue: str) -> Mapping[Reason, int]:
        """Return the same by reason; not to be kept."""
        return self._counts.get(queue, {})

    def add(self, record: UnitRecord) -> None:
        """Count a unit whose standing is one of `OUT_OF_LINE`."""
        queue, reason = _place_of(record)
        of_queue = self._counts.setdefault(queue, {})
        of_queue[reason] = of_queue.get(reason, 0) + 1

    def remove(self, record: UnitRecord) -> None:
        """Count it no more; nothing is left of a queue or reason without units."""
        queue, reason = _place_of(record)
        of_queue = self._counts[queue]
        of_queue[reason] -= 1
        if not of_queue[reason]:
            del of_queue[reason]
            if not of_queue:
                del self._counts[queue]

    def fork(self) -> HeldCounts:
        """Return an independent copy."""
        twin = HeldCounts()
        twin._counts = {queue: dict(reasons) for queue, reasons in self._counts.items()}
        return twin

    def validate(self, records: Iterable[UnitRecord]) -> None:
        """Count again; raise AssertionError with the story if it differs."""
        fresh = HeldCounts()
        for record in records:
            if record.standing in OUT_OF_LINE:
                fresh.add(record)
        assert self._counts == fresh._counts, f"held: {self._counts}, should be {fresh._counts}"


def _place_of(record: UnitRecord) -> tuple[str, Reason]:
    reason = Reason.WRITE_FAILED if record.hold is None else record.hold.reason
    return ("" if record.info is None else record.info.queue), reason
