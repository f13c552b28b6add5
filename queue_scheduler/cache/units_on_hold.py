"""Counts units that wait in no queue, by queue and reason, and indexes what they wait for.

These are units on hold, and those whose admission ended in a conflict or was refused, until they
are tried again. Units that are mapped to no queue are counted under "".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Reason

OUT_OF_LINE: Final = frozenset({UnitState.ON_HOLD, UnitState.CONFLICT})
"""The states that are counted here."""


class UnitsOnHold:
    """The counts; `add` and `remove` undo each other."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[Reason, int]] = {}

    def total(self, queue: str) -> int:
        """Return how many units of a queue are counted here."""
        return sum(self._counts.get(queue, {}).values())

    def by_reason(self, queue: str) -> Mapping[Reason, int]:
        """Return the same by reason; a live view, not to be stored."""
        return self._counts.get(queue, {})

    def add(self, record: CachedUnit) -> None:
        """Count a unit whose state is in `OUT_OF_LINE`."""
        queue, reason = _place_of(record)
        of_queue = self._counts.setdefault(queue, {})
        of_queue[reason] = of_queue.get(reason, 0) + 1

    def remove(self, record: CachedUnit) -> None:
        """Decrement its count; drop queues and reasons whose count reaches zero."""
        queue, reason = _place_of(record)
        of_queue = self._counts[queue]
        of_queue[reason] -= 1
        if not of_queue[reason]:
            del of_queue[reason]
            if not of_queue:
                del self._counts[queue]

    def fork(self) -> UnitsOnHold:
        """Return an independent copy."""
        twin = UnitsOnHold()
        twin._counts = {queue: dict(reasons) for queue, reasons in self._counts.items()}
        return twin

    def validate(self, records: Iterable[CachedUnit]) -> None:
        """Count again; raise AssertionError with details if the counts differ."""
        fresh = UnitsOnHold()
        for record in records:
            if record.state in OUT_OF_LINE:
                fresh.add(record)
        assert self._counts == fresh._counts, f"held: {self._counts}, should be {fresh._counts}"


def _place_of(record: CachedUnit) -> tuple[str, Reason]:
    reason = Reason.WRITE_FAILED if record.hold is None else record.hold.reason
    return ("" if record.info is None else record.info.queue), reason


class FactWaits:
    """Which units wait for which object (`Unmapped.waits_for`), by its name."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}

    def keys(self, name: str) -> tuple[str, ...]:
        """Return the units that wait for an object, in the order in which they were added."""
        return tuple(self._keys.get(name, ()))

    def add(self, key: str, names: Iterable[str]) -> None:
        """Register a unit as waiting for these objects."""
        for name in names:
            self._keys.setdefault(name, {})[key] = None

    def remove(self, key: str, names: Iterable[str]) -> None:
        """Remove a unit from these objects; drop objects that no unit waits for."""
        for name in names:
            keys = self._keys[name]
            del keys[key]
            if not keys:
                del self._keys[name]

    def fork(self) -> FactWaits:
        """Return an independent copy."""
        twin = FactWaits()
        twin._keys = {name: dict(keys) for name, keys in self._keys.items()}
        return twin

    def validate(self, waits: Mapping[str, Iterable[str]]) -> None:
        """Compare with what each unit waits for; raise AssertionError if they differ."""
        want = FactWaits()
        for key, names in waits.items():
            want.add(key, names)
        assert want._keys == self._keys, f"units that wait for facts: {self._keys}"
