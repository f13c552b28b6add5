"""How many units are in no queue's order, by queue and reason, and which facts they wait for.

These are the units on hold, and those whose admission met a conflict or was refused by the server,
until they are tried again. Units that are mapped to no queue are counted under "".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Reason

NOT_IN_QUEUE: Final = frozenset({UnitState.ON_HOLD, UnitState.CONFLICT})
"""The states that are counted here."""


class UnitsOnHold:
    """The counts; `remove` reverts `add`."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[Reason, int]] = {}

    def total(self, queue: str) -> int:
        """Return how many units of a queue are counted here."""
        return sum(self._counts.get(queue, {}).values())

    def by_reason(self, queue: str) -> Mapping[Reason, int]:
        """Return the same by reason; a live view, which callers must not keep."""
        return self._counts.get(queue, {})

    def add(self, record: CachedUnit) -> None:
        """Count a unit whose state is one of `NOT_IN_QUEUE`."""
        queue, reason = _place_of(record)
        of_queue = self._counts.setdefault(queue, {})
        of_queue[reason] = of_queue.get(reason, 0) + 1

    def remove(self, record: CachedUnit) -> None:
        """Undo `add`; queues and reasons whose count reaches zero are dropped."""
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
        """Count again; raise AssertionError with the story if it differs."""
        fresh = UnitsOnHold()
        for record in records:
            if record.state in NOT_IN_QUEUE:
                fresh.add(record)
        assert self._counts == fresh._counts, f"held: {self._counts}, should be {fresh._counts}"


def _place_of(record: CachedUnit) -> tuple[str, Reason]:
    reason = Reason.WRITE_FAILED if record.hold is None else record.hold.reason
    return ("" if record.info is None else record.info.queue), reason


class FactWaits:
    """Which units wait for which fact (`Unmapped.waits_for`), by the fact's name."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}

    def keys(self, name: str) -> tuple[str, ...]:
        """Return the units that wait for a fact, in the order in which they came."""
        return tuple(self._keys.get(name, ()))

    def has(self, key: str, name: str) -> bool:
        """Return whether a unit waits for a fact."""
        return key in self._keys.get(name, ())

    def add(self, key: str, names: Iterable[str]) -> None:
        """Let a unit wait for these facts."""
        for name in names:
            self._keys.setdefault(name, {})[key] = None

    def remove(self, key: str, names: Iterable[str]) -> None:
        """Undo `add`; facts that no unit waits for are dropped."""
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
        """Compare with what each unit waits for; raise AssertionError where it differs."""
        want = FactWaits()
        for key, names in waits.items():
            want.add(key, names)
        assert want._keys == self._keys, f"units that wait for facts: {self._keys}"
